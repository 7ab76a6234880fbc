"""Bringing rows and sockets together again: last-seen times, and what was missed."""

import structlog

from relay.clock import Clock
from relay.ids import ExecutorRef, InstanceId
from relay.monitor.news import Missing, News, arrival_of
from relay.monitor.ports import LiveConnection, Sockets
from relay.store import Store

logger = structlog.get_logger(__name__)

PAGE = 1000
"""Rows written in one transaction."""


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
        async with self._store.read() as work:
            recorded = await work.executors.list_connections(self._instance_id)

        # No await from here on: what is compared is the hub at this moment.
        online = self._list_online()
        news: list[News] = [
            Missing(ref, connection_id)
            for ref, connection_id in recorded.items()
            if ref not in online
        ]
        now = self._clock.now()
        for ref, connection in online.items():
            if recorded.get(ref) != connection.id:
                is_collision = self._sockets.is_colliding(connection.ref)
                news.append(arrival_of(connection, at=now, is_collision=is_collision))
        if news:
            logger.info("rows_differed_from_sockets", executors=len(news))
        return news

    def _list_online(self) -> dict[ExecutorRef, LiveConnection]:
        return {
            ref: connection
            for ref, _, _ in self._sockets.list_last_seen()
            if (connection := self._sockets.find(ref))
        }
