"""Finding the deadlines that have passed, and not believing them when we were away."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from relay.clock import Clock
from relay.monitor.news import Elapsed, News, arrival_of
from relay.monitor.ports import Sockets
from relay.monitor.timekeeper import Timekeeper
from relay.records import ExecutorRecord
from relay.settings import RelaySettings
from relay.store import Store

logger = structlog.get_logger(__name__)

SWEEP_LIMIT = 200
"""Deadlines judged at once: as many as one transaction should hold."""

SWEEP_INTERVAL = timedelta(seconds=1)
"""How late a death may be noticed."""

TRUST = timedelta(seconds=5)
"""
How long after a good look the next one is still believed.

Whoever was not looked at for longer may have tried to return in the meantime and found
Relay, or its store, standing still.
"""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one look at the deadlines brought, and how long the next one can wait."""

    news: list[News]
    wait: timedelta


class Sweeper:
    """
    Looks for executors whose grace is over.

    The rows are the deadlines; nothing is kept in memory but when we last looked. A
    deadline waits while a socket of its application is saying who it is, and does not
    count for an executor that is on line: its arrival is only not written yet. While
    this server stops there are no verdicts at all.

    No grace runs while this process stands still: whoever was in one gets that time
    back. After a long absence, of ours or of the store, everybody gets the grace of a
    fault besides, because peers need their time to notice that we are back.
    """

    def __init__(
        self,
        *,
        store: Store,
        timekeeper: Timekeeper,
        sockets: Sockets,
        settings: RelaySettings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._timekeeper = timekeeper
        self._sockets = sockets
        self._settings = settings
        self._clock = clock
        self._trusted_until = float("-inf")
        self._given_back = sockets.stalled_for

    def trust(self) -> None:
        """The deadlines in the store are right at this moment."""
        self._trusted_until = self._clock.monotonic() + TRUST.total_seconds()

    def distrust(self) -> None:
        """The store was away: raise every deadline before the next verdict."""
        self._trusted_until = float("-inf")

    async def sweep(self) -> Sweep:
        """
        The verdicts that are due.

        Raises:
            StoreUnavailableError: nobody can be judged now.
        """
        if self._sockets.is_draining:
            # Who comes back now is turned away by us; the next start gives a new grace.
            return Sweep([], SWEEP_INTERVAL)
        began = self._clock.monotonic()
        await self._make_up_for_absence(began)
        asked_at = self._clock.monotonic()
        async with self._store.read() as work:
            reading = self._timekeeper.reading_of(work, asked_at)
            elapsed = await work.executors.list_elapsed(SWEEP_LIMIT)
            next_deadline = await work.executors.find_next_deadline()
        if not await self._timekeeper.agrees(reading):
            return Sweep([], timedelta(0))
        if self._clock.monotonic() - began > TRUST.total_seconds():
            # The store stood still while it was asked, and nobody could return.
            self.distrust()
            return Sweep([], timedelta(0))
        if self._sockets.stalled_for > self._given_back:
            # We did, and the database's clock went on.
            return Sweep([], timedelta(0))
        self.trust()

        # No await from here on: a verdict goes with what the hub knows at this moment.
        now = reading.now
        news = [verdict for row in elapsed if (verdict := self._judge(row, now))]
        if len(elapsed) == SWEEP_LIMIT and news:
            return Sweep(news, timedelta(0))
        return Sweep(news, _wait_for(next_deadline, now))

    def _judge(self, row: ExecutorRecord, now: datetime) -> News | None:
        connection = self._sockets.find(row.ref)
        if connection is not None:
            return arrival_of(
                connection,
                at=self._clock.now(),
                is_collision=self._sockets.is_colliding(row.ref),
            )
        if row.dead_after is None or self._may_be_returning(row, row.dead_after, now):
            return None
        return Elapsed(row.ref, row.dead_after)

    def _may_be_returning(
        self, row: ExecutorRecord, deadline: datetime, now: datetime
    ) -> bool:
        # Bounded, because a client whose handshakes all fail redials for ever.
        return (
            now - deadline < self._settings.handshake_timeout
            and self._sockets.is_handshaking(row.ref.application)
        )

    async def _make_up_for_absence(self, now: float) -> None:
        """
        Give open graces what they lost while nobody could return.

        Args:
            now: the monotonic clock, in seconds.
        """
        stalled_for = self._sockets.stalled_for
        stall = stalled_for - self._given_back
        was_away = now > self._trusted_until
        if not (stall or was_away):
            return
        extended = raised = 0
        async with self._timekeeper.write() as work:
            if stall:
                extended = await work.deadlines.shift_graces(
                    stall, begun_by=work.now - stall
                )
            if was_away:
                raised = await work.executors.raise_deadlines(
                    work.now + self._settings.fault_grace
                )
        self._given_back = stalled_for
        if extended:
            logger.warning(
                "graces_extended",
                executors=extended,
                seconds=stall.total_seconds(),
                because="Relay stood still",
            )
        if raised:
            logger.warning(
                "deadlines_raised",
                executors=raised,
                grace_secs=self._settings.fault_grace_secs,
                because="Relay or its database was away",
            )


def _wait_for(deadline: datetime | None, now: datetime) -> timedelta:
    if deadline is None or deadline <= now:
        # One that has passed already is waiting for something, not for its time.
        return SWEEP_INTERVAL
    return min(deadline - now, SWEEP_INTERVAL)
