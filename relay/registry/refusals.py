"""Which refusals were written down lately."""

from collections.abc import Hashable
from datetime import timedelta

from relay.clock import Clock

SPAN = timedelta(hours=1)
CAPACITY = 1024


class RefusalNotes:
    """
    Lets one refusal of a kind through per hour, and `CAPACITY` of them in all.

    A client with a bad key knocks every second for ever. The bound on all kinds keeps
    one that invents keys or names from filling the audit log: what does not fit any
    more is refused all the same, and only counted.
    """

    def __init__(self, clock: Clock, *, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._noted: dict[Hashable, float] = {}

    def is_news(self, kind: Hashable) -> bool:
        """Whether `kind` is to be recorded now; if so it counts as recorded."""
        now = self._clock.monotonic()
        noted_at = self._noted.get(kind)
        if noted_at is not None and now - noted_at < SPAN.total_seconds():
            return False
        # Insertion order is time order, so everything stale stands in front.
        self._noted.pop(kind, None)
        while self._noted:
            oldest = next(iter(self._noted))
            if now - self._noted[oldest] < SPAN.total_seconds():
                break
            del self._noted[oldest]
        if len(self._noted) >= self._capacity:
            return False
        self._noted[kind] = now
        return True

    def forget(self, kind: Hashable) -> None:
        """Let `kind` be news again: it could not be written down."""
        self._noted.pop(kind, None)
