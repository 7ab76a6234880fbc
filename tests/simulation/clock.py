"""A clock whose time the simulation owns, made for a hundred thousand steps."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

START = datetime(2026, 1, 1, tzinfo=UTC)

TURNS: Final = 100_000
"""Of the event loop, within which everything comes to rest."""


@dataclass(order=True, slots=True)
class _Alarm:
    at: float
    order: int
    ring: Callable[[], object] = field(compare=False)
    is_off: bool = field(default=False, compare=False)


class SimClock:
    """
    A `relay.clock.Clock` for one run of Relay.

    Time passes only by `move_to`, and whoever sleeps wakes only by `ring`: between the
    two lies the difference between a process that runs and one that stands still.

    Attributes:
        elapsed: the monotonic reading, in seconds.
        jumped: how far the wall clock has been set off.
    """

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.jumped = timedelta(0)
        self._alarms: list[_Alarm] = []
        self._order = count()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed) + self.jumped

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, span: timedelta) -> None:
        if span <= timedelta(0):
            await _let_others_run()
            return
        woken = asyncio.get_running_loop().create_future()
        alarm = self._set(span, lambda: _wake(woken))
        try:
            await woken
        finally:
            alarm.is_off = True

    @asynccontextmanager
    async def timeout(self, span: timedelta) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as guard:  # noqa: TID251 - stands in for Clock.timeout
            alarm = self._set(span, lambda: guard.reschedule(loop.time()))
            try:
                yield
            finally:
                alarm.is_off = True

    async def wait(self, event: asyncio.Event, span: timedelta) -> bool:
        try:
            async with self.timeout(span):
                await event.wait()
        except TimeoutError:
            return False
        return True

    # What the simulation does with it.

    @property
    def next_at(self) -> float:
        """When the next sleeper wants to wake; infinity when nobody sleeps."""
        while self._alarms and self._alarms[0].is_off:
            heapq.heappop(self._alarms)
        return self._alarms[0].at if self._alarms else float("inf")

    def move_to(self, elapsed: float) -> None:
        """Let time pass; nobody wakes from that alone."""
        self.elapsed = max(self.elapsed, elapsed)

    def ring(self) -> None:
        """Wake the one sleeper whose moment came first, if it has come."""
        if self.next_at <= self.elapsed:
            heapq.heappop(self._alarms).ring()

    def ring_all(self) -> None:
        """Wake everybody whose moment has come, all in the same turn."""
        while self.next_at <= self.elapsed:
            self.ring()

    def forget_sleepers(self) -> None:
        """Nobody who sleeps now will ever wake: their process has been killed."""
        self._alarms.clear()

    @staticmethod
    async def settle() -> bool:
        """
        Let every task that can run do so, without any time passing.

        Returns:
            Whether there is an end to it.
        """
        # asyncio has no public way to ask whether anything is ready, and a fixed
        # number of turns is either too few or most of the running time.
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # see above
        for _ in range(TURNS):
            await _let_others_run()
            if not ready:
                return True
        return False

    def _set(self, span: timedelta, ring: Callable[[], object]) -> _Alarm:
        at = self.elapsed + max(0.0, span.total_seconds())
        alarm = _Alarm(at, next(self._order), ring)
        heapq.heappush(self._alarms, alarm)
        return alarm


class Agenda:
    """What happens outside Relay, each at its moment, whatever Relay does then."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._entries: list[_Alarm] = []
        self._order = count()

    def after(self, seconds: float, happen: Callable[[], object]) -> float:
        """Let something happen in so many seconds; the moment it will be."""
        at = self._clock.elapsed + max(0.0, seconds)
        heapq.heappush(self._entries, _Alarm(at, next(self._order), happen))
        return at

    @property
    def next_at(self) -> float:
        """When something happens next; infinity when nothing does."""
        return self._entries[0].at if self._entries else float("inf")

    def happen(self) -> None:
        """Let the next thing happen."""
        heapq.heappop(self._entries).ring()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


async def _let_others_run() -> None:
    await asyncio.sleep(0)  # noqa: TID251 - yields to the loop, no time passes
