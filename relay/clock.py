"""
The one place that reads clocks, sleeps and measures time-outs.

Everything that acts takes a `Clock`; tests hand in `relay.testing.FakeClock` and own
the time. Nothing else in the house may call the standard library's clocks (a lint rule
says so).
"""

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import (
    monotonic,  # noqa: TID251 - the one allowed reader
    thread_time,
)
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """A source of instants and spans."""

    def now(self) -> datetime:
        """The current instant, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """
        A reading that never goes backwards; only differences mean something.

        Units: seconds.
        """
        ...

    async def sleep(self, span: timedelta) -> None:
        """Return after `span`; at once (but yielding) when it is not positive."""
        ...

    def timeout(self, span: timedelta) -> AbstractAsyncContextManager[None]:
        """
        Bound the time of a block.

        Raises:
            TimeoutError: from the end of the block, when `span` passed inside it.
        """
        ...

    async def wait(self, event: asyncio.Event, span: timedelta) -> bool:
        """Wait for `event` for at most `span`; whether it was set."""
        ...


async def take_breaths(clock: Clock, steps: Generator[None, None, T]) -> T:
    """What all steps find together; others have a turn of the loop after each."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        await clock.sleep(timedelta(0))


def read_thread_time() -> float:
    """
    The processor time that the calling thread has used; only differences mean anything.

    Units: seconds.
    """
    return thread_time()


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the one allowed reader

    def monotonic(self) -> float:
        return monotonic()

    async def sleep(self, span: timedelta) -> None:
        await asyncio.sleep(max(0.0, span.total_seconds()))  # noqa: TID251 - the one allowed sleeper

    @asynccontextmanager
    async def timeout(self, span: timedelta) -> AsyncIterator[None]:
        async with asyncio.timeout(max(0.0, span.total_seconds())):  # noqa: TID251 - the one allowed time-out
            yield

    async def wait(self, event: asyncio.Event, span: timedelta) -> bool:
        try:
            async with self.timeout(span):
                await event.wait()
        except TimeoutError:
            return False
        return True
