"""What is noted and not written yet, however long the store is away."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from relay.hub.events import Arrival, Departure
from relay.ids import ConnectionId
from relay.monitor.news import Missing, News
from relay.monitor.wording import complaint_of
from relay.store.executors import ExecutorKey

CROWDED = 5000
"""Pieces of news beyond which those that change nothing any more are left out."""


class Inbox:
    """
    News in the order of their happening.

    An executor that is cut every second brings two pieces of news a second, so what is
    kept of each executor is bounded: see `condense`.

    Args:
        untouched: how many of the oldest are never left out; they may be in the middle
            of being written.
    """

    def __init__(self, *, untouched: int) -> None:
        self._untouched = untouched
        self._news: deque[News] = deque()
        self._condense_at = 0

    def __len__(self) -> int:
        return len(self._news)

    def put(self, news: News) -> None:
        """Note the newest of all."""
        self._news.append(news)
        if len(self._news) >= max(CROWDED, self._condense_at):
            self._condense()

    def list_oldest(self, number: int) -> list[News]:
        """So many, or all that there are."""
        return list(islice(self._news, number))

    def drop_oldest(self, number: int) -> None:
        """Forget so many: they are written."""
        for _ in range(number):
            self._news.popleft()
        if not self._news:
            self._condense_at = 0

    def _condense(self) -> None:
        head = self.list_oldest(self._untouched)
        rest = list(islice(self._news, self._untouched, None))
        self._news = deque([*head, *condense(rest)])
        # A crowd of executors that came once each cannot be made smaller, and is not
        # gone through again for each one that joins it.
        self._condense_at = 2 * len(self._news)


def condense(news: Sequence[News]) -> list[News]:
    """
    What has to be written for every row to become what all of `news` would make it.

    Only the epoch grows by less. Of each executor there remain the newest arrival with
    its end, the arrivals of older connections that are open still, because writing
    them is what closes those, and the last end that an operator should hear of.

    Args:
        news: of any executors, in the order of their happening.
    """
    by_executor: dict[ExecutorKey, list[int]] = {}
    for index, each in enumerate(news):
        by_executor.setdefault(each.ref.key, []).append(index)
    kept: list[int] = []
    for indexes in by_executor.values():
        of_executor = _Condensing()
        for index in indexes:
            of_executor.take(index, news[index])
        kept += of_executor.kept
    return [news[index] for index in sorted(kept)]


class _Condensing:
    """One executor's news, by their indexes."""

    def __init__(self) -> None:
        self._speaker: ConnectionId | None = None
        # In the order of their first arrival, as they sit in the hub.
        self._open: dict[ConnectionId, int] = {}
        self._ends: dict[ConnectionId, int] = {}
        self._complaint: Sequence[int] = ()
        self._others: list[int] = []

    @property
    def kept(self) -> set[int]:
        return {
            *self._open.values(),
            *self._ends.values(),
            *self._complaint,
            *self._others,
        }

    def take(self, index: int, news: News) -> None:
        match news:
            case Arrival():
                self._arrive(index, news.connection_id)
            case Departure() | Missing():
                self._end(index, news)
            case _:
                self._others.append(index)

    def _arrive(self, index: int, connection_id: ConnectionId) -> None:
        if connection_id == self._speaker:
            return
        for ended in self._ends:
            self._open.pop(ended, None)
        self._ends.clear()
        # That an older connection speaks again says that the newer ones are gone.
        while connection_id in self._open:
            self._open.popitem()
        self._open[connection_id] = index
        self._speaker = connection_id

    def _end(self, index: int, news: Departure | Missing) -> None:
        connection_id = news.connection_id
        if self._speaker not in (None, connection_id):
            # Stale whatever the row says: a newer connection has arrived before.
            self._open.pop(connection_id, None)
        elif connection_id not in self._ends:
            self._ends[connection_id] = index
            if isinstance(news, Departure) and complaint_of(news):
                arrived = self._open.get(connection_id)
                self._complaint = [index] if arrived is None else [arrived, index]
