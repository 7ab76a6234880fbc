"""A clock that only moves when a test says so."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """
    A `relay.clock.Clock` whose time a test owns.

    `advance` wakes sleepers and time-outs in the order of their deadlines and lets
    the loop settle after each, so that a task woken at second 1 may go to sleep again
    and still be woken at second 2 of the same advance.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._alarms: list[tuple[datetime, int, asyncio.Event]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, span: timedelta) -> None:
        if span <= timedelta(0):
            await _settle_once()
            return
        await self._alarm(span).wait()

    @asynccontextmanager
    async def timeout(self, span: timedelta) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        if span <= timedelta(0):
            async with asyncio.timeout(0):  # noqa: TID251 - stands in for Clock.timeout
                yield
            return
        async with asyncio.timeout(None) as guard:  # noqa: TID251 - stands in for Clock.timeout
            alarm = self._alarm(span)

            async def expire() -> None:
                await alarm.wait()
                guard.reschedule(loop.time())

            watcher = loop.create_task(expire())
            try:
                yield
            finally:
                watcher.cancel()

    async def wait(self, event: asyncio.Event, span: timedelta) -> bool:
        try:
            async with self.timeout(span):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def advance(self, span: timedelta) -> None:
        """Let `span` pass, waking everyone whose moment comes on the way."""
        await self.settle()
        end = self._now + span
        while self._alarms and self._alarms[0][0] <= end:
            moment, _, alarm = heapq.heappop(self._alarms)
            self._move_to(max(moment, self._now))
            alarm.set()
            await self.settle()
        self._move_to(end)
        await self.settle()

    def jump(self, span: timedelta) -> None:
        """Set the wall clock forward or back by `span`; nobody's sleep changes."""
        self._now += span
        self._alarms = [(at + span, order, alarm) for at, order, alarm in self._alarms]

    @staticmethod
    async def settle() -> None:
        """Let every task that can run do so, without any time passing."""
        for _ in range(20):
            await _settle_once()

    def _alarm(self, span: timedelta) -> asyncio.Event:
        alarm = asyncio.Event()
        heapq.heappush(self._alarms, (self._now + span, next(self._order), alarm))
        return alarm

    def _move_to(self, moment: datetime) -> None:
        self._elapsed += (moment - self._now).total_seconds()
        self._now = moment


async def _settle_once() -> None:
    await asyncio.sleep(0)  # noqa: TID251 - yields to the loop, no time passes
