"""Loops that outlive their failures, and how long to wait before the next try."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import structlog

from relay.clock import Clock

logger = structlog.get_logger(__name__)

RESTART_PAUSE = timedelta(seconds=1)
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=5)
"""Short: executors are turned away while a server waits."""


async def kept_running(
    name: str, run: Callable[[], Awaitable[None]], clock: Clock
) -> None:
    """Run a loop that shall never end, and begin again after a pause if it does."""
    while True:
        try:
            await run()
        except Exception:
            logger.exception("loop_failed", loop=name)
        await clock.sleep(RESTART_PAUSE)


def growing_pauses() -> Iterator[timedelta]:
    """Between tries that must not stop: 1, 2, 4, 5, 5 … seconds."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE)
