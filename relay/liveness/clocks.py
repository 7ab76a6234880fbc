"""Whether the database's clock has jumped against the monotonic one of this process."""

from dataclasses import dataclass
from datetime import datetime, timedelta

JUMP = timedelta(seconds=2)
"""A difference up to this is no jump: two clocks never run quite alike."""

QUICK = timedelta(seconds=0.5)
"""An answer that took no longer than this says well enough what time it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    The database's clock, read between two readings of the process's monotonic clock.

    Units: `before` and `after` are seconds of the monotonic clock.
    """

    before: float
    now: datetime
    after: float

    @property
    def took(self) -> timedelta:
        """Within which span the database looked at its clock, we cannot tell when."""
        return timedelta(seconds=self.after - self.before)

    @property
    def earliest_origin(self) -> datetime:
        """The least that the database's clock can have shown at our second zero."""
        return self.now - timedelta(seconds=self.after)

    @property
    def latest_origin(self) -> datetime:
        """The most that it can have shown then."""
        return self.now - timedelta(seconds=self.before)


class ClockWatch:
    """
    Compares each reading with the last one that was believed.

    While both clocks run alike, the origin stays where it was. It is only known to lie
    between two bounds, as far apart as the answer took; a jump is what is left of a
    difference when all of that doubt is taken off. A slow answer therefore never looks
    like a jump. Since the comparison is with the last good reading and not with the
    first, a slow drift is absorbed, however far it goes.
    """

    def __init__(self) -> None:
        self.known: Reading | None = None
        """The last reading that was believed."""

    def find_jump(self, reading: Reading) -> timedelta | None:
        """
        How far the clock has jumped since `known`, backwards if negative.

        Returns:
            The most that it can have been: a deadline that is moved by it may come a
            little late, and never early. `None` when it need not have jumped at all.
        """
        if self.known is None:
            return None
        least = reading.earliest_origin - self.known.latest_origin
        most = reading.latest_origin - self.known.earliest_origin
        return most if least > JUMP or most < -JUMP else None

    def believe(self, reading: Reading) -> None:
        """
        Compare with `reading` from now on, unless `known` is the better measure.

        Call it when the deadlines in the store agree with it.
        """
        if (
            self.known is None
            or reading.took <= max(QUICK, self.known.took)
            or self.find_jump(reading) is not None
        ):
            self.known = reading
