"""Bringing rows and sockets together again: last-seen times, and what was missed."""

import structlog

from relay.clock import Clock
from relay.ids import ConnectionId, ExecutorRef, InstanceId
from relay.monitor.news import Missing, News, arrival_of
from relay.monitor.ports import Sockets
from relay.store import Store
from relay.store.executors import ExecutorKey

logger = structlog.get_logger(__name__)

PAGE = 1000
"""Rows read by one statement or written in one transaction, and the work of a turn."""


class Flusher:
    """
    Writes when each connected executor was last seen, and finds what was not recorded.

    A loss or an arrival whose writing failed for good would leave its row wrong for
    ever. So the rows that say on line are held against the open sockets, both ways.
    """

    def __init__(
        self,
        *,
        store: Store,
        sockets: Sockets,
        clock: Clock,
        instance_id: InstanceId,
    ) -> None:
        self._store = store
        self._sockets = sockets
        self._clock = clock
        self._instance_id = instance_id

    async def flush(self) -> int:
        """
        Write the last-seen times; how many rows changed.

        News of a connection that its row does not name change nothing.

        Raises:
            StoreUnavailableError: some of them were not written.
        """
        seen = self._sockets.list_last_seen()
        touched = 0
        for start in range(0, len(seen), PAGE):
            async with self._store.write() as work:
                touched += await work.executors.touch(
                    [
                        (ref.key, connection_id, at)
                        for ref, connection_id, at in seen[start : start + PAGE]
                    ]
                )
        return touched

    async def reconcile(self) -> list[News]:
        """
        What rows and sockets disagree about, as news.

        Most of it is merely on its way through the inbox; then this is stale there.

        Raises:
            StoreUnavailableError: nothing can be said now.
        """
        recorded = await self._list_recorded()

        # No await from here on: what is compared is the hub at this moment.
        news: list[News] = [
            Missing(ref, connection_id)
            for ref, connection_id in recorded.values()
            if self._sockets.find(ref) is None
        ]
        now = self._clock.now()
        for ref, connection_id, _ in self._sockets.list_last_seen():
            _, held = recorded.get(ref.key, (ref, None))
            if held == connection_id:
                continue
            if connection := self._sockets.find(ref):
                is_collision = self._sockets.is_colliding(ref)
                news.append(arrival_of(connection, at=now, is_collision=is_collision))
        if news:
            logger.info("rows_differed_from_sockets", executors=len(news))
        return news

    async def _list_recorded(
        self,
    ) -> dict[ExecutorKey, tuple[ExecutorRef, ConnectionId]]:
        """Who is on line here according to the rows, and on which connection."""
        recorded: dict[ExecutorKey, tuple[ExecutorRef, ConnectionId]] = {}
        after: ExecutorKey | None = None
        is_last = False
        async with self._store.read() as work:
            while not is_last:
                page = await work.executors.list_connections(
                    self._instance_id, after=after, limit=PAGE
                )
                recorded.update((row[0].key, row) for row in page)
                is_last = len(page) < PAGE
                after = page[-1][0].key if page else None
        return recorded
