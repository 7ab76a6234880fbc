"""The way to the store for whoever derives a deadline from its clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from relay.audit import AuditWriter
from relay.clock import Clock
from relay.liveness.clocks import ClockWatch, Reading
from relay.records import RELAY_SUBJECT, AuditEntry, AuditStatus
from relay.store import Store, UnitOfWork

logger = structlog.get_logger(__name__)


class Timekeeper:
    """
    Keeps the deadlines in the store and the clock of the store together.

    Every reading from which a deadline is made, and every one by which one is judged,
    is held against the process's monotonic clock first. When the database's clock has
    jumped (it was set, another server took over, the machine was suspended), all that
    waits for a moment is moved along before anything else is done: then all deadlines
    in the store are by the clock as it goes now.

    A transaction that moved them and whose outcome is unknown is repeated, so that
    deadlines may be moved twice. Its caller has lost the store meanwhile, and raises
    them before the next verdict.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        clock: Clock,
        fault_grace: timedelta,
    ) -> None:
        self._store = store
        self._audit = audit
        self._clock = clock
        self._fault_grace = fault_grace
        self._watch = ClockWatch()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[UnitOfWork]:
        """
        Open a unit of work whose `now` agrees with the deadlines in the store.

        Raises:
            StoreUnavailableError: as the store's own.
        """
        while True:
            asked_at = self._clock.monotonic()
            async with self._store.write() as work:
                reading = self.reading_of(work, asked_at)
                if self._watch.find_jump(reading) is None:
                    work.after_commit(lambda: self._watch.believe(reading))  # noqa: B023 - the last turn of the loop
                    yield work
                    return
            # In a transaction of its own: it locks executors, and whoever needs their
            # applications too has to lock those first.
            await self._follow()

    def reading_of(self, work: UnitOfWork, asked_at: float) -> Reading:
        """
        The clock of `work`, which has just been opened.

        Args:
            asked_at: the monotonic clock before that, in seconds.
        """
        return Reading(before=asked_at, now=work.now, after=self._clock.monotonic())

    async def agrees(self, reading: Reading) -> bool:
        """
        Whether a reading may be compared with the deadlines in the store.

        If not, they have been moved, and it is no longer of use: take another.

        Raises:
            StoreUnavailableError: they have not been moved yet.
        """
        if self._watch.find_jump(reading) is None:
            self._watch.believe(reading)
            return True
        await self._follow()
        return False

    async def _follow(self) -> None:
        """Move all that waits for a moment by what the clock has jumped."""
        asked_at = self._clock.monotonic()
        async with self._store.write() as work:
            reading = self.reading_of(work, asked_at)
            known, jump = self._watch.known, self._watch.find_jump(reading)
            if known is None or jump is None:
                return
            if jump > timedelta(0):
                graces = await work.deadlines.shift_graces(jump, begun_by=work.now)
                # What was written since the jump is right already.
                recoveries = await work.deadlines.shift_recoveries(
                    jump, written_by=work.now - jump
                )
                # A machine that was suspended looks like this too, and nobody could
                # return to it.
                await work.executors.raise_deadlines(work.now + self._fault_grace)
            else:
                # A grace that seems to have begun in between may be by the new clock
                # already, if an answer was slow: then it is better left too long.
                graces = await work.deadlines.shift_graces(
                    jump, begun_by=known.now + jump, or_after=work.now
                )
                # All: one that comes up too early is asked about first, and one that
                # was left in the future would wait for as long as the jump.
                recoveries = await work.deadlines.shift_recoveries(jump)
            for organization in await work.organizations.list_all():
                await self._audit.record(
                    work,
                    AuditEntry(
                        organization=organization.name,
                        operation="clock.jump",
                        status=AuditStatus.SUCCESS,
                        subject=RELAY_SUBJECT,
                        target=None,
                        source_ip="",
                        details={"jump_secs": round(jump.total_seconds(), 3)},
                    ),
                )
        self._watch.believe(reading)
        logger.warning(
            "clock_jumped",
            seconds=round(jump.total_seconds(), 3),
            executors=graces,
            recoveries=recoveries,
            consequence="open deadlines were moved along",
        )
