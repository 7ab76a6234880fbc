"""One timer for any number of things that share one time-out."""

from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import Generic, TypeVar

from relay.clock import Clock

KeyT = TypeVar("KeyT")

LATE_SECONDS = 1.0
"""A timer that fires this much too late means that the loop stood still."""

_TICK_SECONDS = 0.001

_EXPIRED_PER_TURN = 25
"""A crowd that came at once expires at once, and each expiry is work."""


class Deadlines(Generic[KeyT]):
    """
    Things that each expire one `span` after they were last touched.

    Since all share the span, the order of the last touch is the order of the
    deadlines: touching is O(1), and one sleeper for the oldest is enough. A touch only
    moves a deadline away, so the sleeper never has to be woken early.
    """

    __slots__ = ("_clock", "_expire", "_span", "_touched")

    def __init__(
        self, span: timedelta, clock: Clock, expire: Callable[[KeyT, bool], None]
    ) -> None:
        """
        Watch nothing yet.

        Args:
            expire: called with what expired, already forgotten here, and whether the
                timer fired so late that the loop must have stood still.
        """
        self._span = span.total_seconds()
        self._clock = clock
        self._expire = expire
        self._touched: OrderedDict[KeyT, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._touched)

    def touch(self, key: KeyT) -> None:
        """Give `key` a whole span from now; begins to watch it if it is new."""
        self._touched[key] = self._clock.monotonic()
        self._touched.move_to_end(key)

    def discard(self, key: KeyT) -> bool:
        """Stop watching `key`; whether it was watched."""
        return self._touched.pop(key, None) is not None

    def take_oldest(self) -> KeyT | None:
        """Stop watching what was touched longest ago, and return it."""
        return self._touched.popitem(last=False)[0] if self._touched else None

    def list_untouched(self, age: timedelta, limit: int | None = None) -> list[KeyT]:
        """What was last touched at least `age` ago, oldest first, `limit` at most."""
        latest = self._clock.monotonic() - age.total_seconds() + _TICK_SECONDS
        untouched = []
        for key, touched in islice(self._touched.items(), limit):
            if touched > latest:
                break
            untouched.append(key)
        return untouched

    async def run(self) -> None:
        """Expire what is due, until cancelled."""
        while True:
            now = self._clock.monotonic()
            due = next(iter(self._touched.values()), now) + self._span
            await self._clock.sleep(timedelta(seconds=max(due - now, _TICK_SECONDS)))
            is_late = self._clock.monotonic() - due > LATE_SECONDS
            if is_late:
                # The bytes that would have saved a key may lie unread in the kernel:
                # one turn polls the sockets, the next one has run their readers.
                for _ in range(2):
                    await self._clock.sleep(timedelta(0))
            span = timedelta(seconds=self._span)
            for key in self.list_untouched(span, _EXPIRED_PER_TURN):
                # Expiring one may have forgotten another.
                if self._touched.pop(key, None) is not None:
                    self._expire(key, is_late)
