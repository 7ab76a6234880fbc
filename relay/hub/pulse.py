"""Whether the event loop runs, and what is not to be believed because it did not."""

from datetime import datetime, timedelta

import structlog

from relay.clock import Clock
from relay.telemetry import Metrics

STALL_WORTH_A_LINE = timedelta(seconds=1)
"""What is longer is logged, and nobody's grace runs during it."""

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
    find out. So does `stalled_for`.

    While a machine is suspended its monotonic clock stands still too, and only the wall
    clock tells; one that was merely set looks the same, and costs a doubt.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self.longest_stall = timedelta(0)
        self._clock = clock
        self._metrics = metrics
        self._beat_at = float("inf")
        self._due_in = timedelta(0)
        self._wall_due_at: datetime | None = None
        self._doubtful_until = float("-inf")
        self._stalled_for = timedelta(0)

    @property
    def is_doubtful(self) -> bool:
        """Whether the end of a connection may be the doing of a stall of ours."""
        is_stalled = max(self._stall, self._absence) > STALL_SEEN_OUTSIDE
        return is_stalled or self._clock.monotonic() < self._doubtful_until

    @property
    def stalled_for(self) -> timedelta:
        """
        How long the loop has stood still altogether, short stalls left out.

        Counted from the last beat before each stall: rather too much than too little.
        """
        if self._stall <= STALL_WORTH_A_LINE:
            return self._stalled_for
        return self._stalled_for + self._since_beat

    def beat(self, *, next_in: timedelta) -> None:
        """The loop runs now, and says when it will say so again."""
        stall, absence, total = self._stall, self._absence, self.stalled_for
        now = self._clock.monotonic()
        self._stalled_for = total
        self._beat_at = now
        self._due_in = next_in
        self._wall_due_at = self._clock.now() + next_in
        if stall > self.longest_stall:
            self.longest_stall = stall
            self._metrics.loop_stall_seconds.set(stall.total_seconds())
        if stall > STALL_WORTH_A_LINE:
            logger.warning("loop_stalled", seconds=stall.total_seconds())
        if max(stall, absence) > STALL_SEEN_OUTSIDE:
            self._doubtful_until = now + DOUBT.total_seconds()

    @property
    def _since_beat(self) -> timedelta:
        return timedelta(seconds=max(0.0, self._clock.monotonic() - self._beat_at))

    @property
    def _stall(self) -> timedelta:
        """How late the next beat is."""
        return max(timedelta(0), self._since_beat - self._due_in)

    @property
    def _absence(self) -> timedelta:
        """How late it is by the wall clock."""
        if self._wall_due_at is None:
            return timedelta(0)
        return max(timedelta(0), self._clock.now() - self._wall_due_at)
