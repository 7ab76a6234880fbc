"""Whether the event loop runs, and what is not to be believed because it did not."""

from datetime import timedelta

import structlog

from relay.clock import Clock
from relay.telemetry import Metrics

STALL_WORTH_A_LINE = timedelta(seconds=1)

STALL_SEEN_OUTSIDE = timedelta(seconds=5)
"""Executors wait longer than this for a pong before they give a socket up."""

DOUBT = timedelta(seconds=5)
"""How long after a stall peers may still be ending what they gave up during it."""

logger = structlog.get_logger(__name__)


class Pulse:
    """
    Notices when the event loop stands still.

    Peers that got no pong meanwhile hang up as soon as they can, some of them before
    we go on. That says nothing about them, so `is_doubtful` is asked in the moment of
    each loss: it compares with the last beat, and does not wait for the next one to
    find out.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self.longest_stall = timedelta(0)
        self._clock = clock
        self._metrics = metrics
        self._due_at = float("inf")
        self._doubtful_until = float("-inf")

    @property
    def is_doubtful(self) -> bool:
        """Whether the end of a connection may be the doing of a stall of ours."""
        now = self._clock.monotonic()
        is_stalled = now - self._due_at > STALL_SEEN_OUTSIDE.total_seconds()
        return is_stalled or now < self._doubtful_until

    def beat(self, *, next_in: timedelta) -> None:
        """The loop runs now, and says when it will say so again."""
        now = self._clock.monotonic()
        stall = timedelta(seconds=max(0.0, now - self._due_at))
        self._due_at = now + next_in.total_seconds()
        if stall > self.longest_stall:
            self.longest_stall = stall
            self._metrics.loop_stall_seconds.set(stall.total_seconds())
        if stall > STALL_WORTH_A_LINE:
            logger.warning("loop_stalled", seconds=stall.total_seconds())
        if stall > STALL_SEEN_OUTSIDE:
            self._doubtful_until = now + DOUBT.total_seconds()
