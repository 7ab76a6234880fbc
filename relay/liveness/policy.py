"""The numbers that decide how long an executor may be away."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from relay.liveness.states import Grace


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessPolicy:
    """
    The rules of one application.

    Attributes:
        grace: Span between the loss of a connection and the executor's death.
        fault_grace: The least span after a loss that Relay caused or cannot judge.
            Its executors need about a second and a handshake to return, and Go ones
            up to 45 s after an outage.
        unseen_starts_limit: Starts of Relay in a row that give a fresh grace to an
            executor that does not show up. Without a limit, a Relay that restarts
            every 50 s would never declare anybody dead.
    """

    grace: timedelta
    fault_grace: timedelta
    unseen_starts_limit: int = 3

    def open_grace(self, at: datetime, *, is_fault: bool) -> Grace:
        """The grace that starts at `at`."""
        span = max(self.grace, self.fault_grace) if is_fault else self.grace
        return Grace(started_at=at, deadline=at + span, is_fault=is_fault)
