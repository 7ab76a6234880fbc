"""Every connection is compared once with one that was compared before."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from relay.audit import AuditWriter
from relay.census.disputes import Disputes
from relay.census.witnesses import Agreeing, Witness, call_witnesses, compare
from relay.clock import Clock
from relay.dispatch import Peer, Peers
from relay.errors import StoreUnavailableError
from relay.ids import ApplicationId, ApplicationRef, ExecutorId, ExecutorRef
from relay.store import Store
from relay.tasks import TaskSet
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

LOOK_INTERVAL: Final = timedelta(seconds=5)
"""Between looks for connections that were not compared."""

EMPTY_PAUSE: Final = timedelta(minutes=1)
"""Until the next look at an application that has no workflow yet."""

COMPARED_AT_ONCE: Final = 200
"""Connections of an application in one look, one after another."""

_REFERENCES: Final = 5
"""Executors asked for workflows before an application counts as having none."""

_TRIES: Final = 5
"""Then an executor that cannot be compared is left alone."""


@dataclass(slots=True)
class _Crew:
    """
    The connected executors of one application.

    `seats` are those that were compared and the place of their side: all 0 unless they
    disagree. A connection's database does not change, so that a seat is taken once.
    """

    seats: dict[ExecutorId, tuple[Peer, int]] = field(default_factory=dict)
    tries: dict[Peer, int] = field(default_factory=dict)
    not_before: float = float("-inf")

    def keep(self, peers: Sequence[Peer]) -> None:
        """Forget the connections that have ended."""
        here = set(peers)
        self.seats = {
            executor_id: seat
            for executor_id, seat in self.seats.items()
            if seat[0] in here
        }
        self.tries = {peer: tries for peer, tries in self.tries.items() if peer in here}

    def list_fresh(self, peers: Sequence[Peer]) -> list[Peer]:
        """Those that are to be compared."""
        return [
            peer
            for peer in peers
            if peer.ref.executor_id not in self.seats
            and peer.is_responsive
            and self.tries.get(peer, 0) < _TRIES
        ]

    def list_compared(self) -> list[Peer]:
        """Those that others may be compared with."""
        return [peer for peer, _ in self.seats.values() if peer.is_responsive]

    def has_failed(self, peer: Peer) -> None:
        self.tries[peer] = self.tries.get(peer, 0) + 1


class Comparison:
    """
    Knows who reads the same database as the others.

    An `Agreement` in the sense of `relay.recovery.ports`.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        peers: Peers,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._peers = peers
        self._clock = clock
        self._disputes = Disputes(
            store=store, audit=audit, peers=peers, metrics=metrics
        )
        self._crews: dict[ApplicationId, _Crew] = {}
        self._busy: set[ApplicationId] = set()
        self._tasks = TaskSet("comparison")

    def is_disputed(self, application_id: ApplicationId) -> bool:
        return application_id in self._disputes

    def is_compared(self, ref: ExecutorRef) -> bool:
        crew = self._crews.get(ref.application.id)
        return crew is not None and ref.executor_id in crew.seats

    def may_agree(self, first: ExecutorRef, second: ExecutorRef) -> bool:
        if not self.is_disputed(first.application.id):
            return True
        places = {self._disputes.place_of(ref) for ref in (first, second)} - {None}
        return len(places) < 2

    async def restore(self) -> None:
        """
        Know the disputes of the last run again; before anything is deleted.

        Raises:
            StoreUnavailableError: they are not known.
        """
        await self._disputes.restore()

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        async with TaskSet("comparison") as self._tasks:
            while True:
                await self._clock.sleep(LOOK_INTERVAL)
                try:
                    await self.look()
                except StoreUnavailableError as error:
                    logger.debug("comparison_skipped", reason=error.reason)

    async def look(self) -> None:
        """
        Begin to compare what is new; returns before the answers come.

        Raises:
            StoreUnavailableError: nothing was begun.
        """
        async with self._store.read() as work:
            applications = [a.ref for a in await work.applications.list_all()]
        known = {application.id for application in applications}
        self._disputes.keep(known)
        self._crews = {id_: c for id_, c in self._crews.items() if id_ in known}
        for application in applications:
            if application.id not in self._busy and self._has_news(application):
                self._begin(application)

    def _has_news(self, application: ApplicationRef) -> bool:
        if application.id in self._disputes:
            return True
        crew, peers = self._muster(application)
        return (
            len(peers) > 1
            and self._clock.monotonic() >= crew.not_before
            and bool(crew.list_fresh(peers))
        )

    def _muster(self, application: ApplicationRef) -> tuple[_Crew, Sequence[Peer]]:
        crew = self._crews.setdefault(application.id, _Crew())
        peers = self._peers.list_peers(application.id)
        crew.keep(peers)
        return crew, peers

    def _begin(self, application: ApplicationRef) -> None:
        self._busy.add(application.id)
        task = self._tasks.spawn(self._look_at(application), name=application.name)
        task.add_done_callback(lambda _: self._busy.discard(application.id))

    async def _look_at(self, application: ApplicationRef) -> None:
        crew, peers = self._muster(application)
        if len(peers) > 1 and self._clock.monotonic() >= crew.not_before:
            await self._compare_fresh(application, crew, crew.list_fresh(peers))
        if not self.is_disputed(application.id):
            return
        self._take_sides(application, crew)
        try:
            if await self._disputes.review(application):
                # Those who are left shared a side for not being on the other one.
                crew.seats.clear()
                crew.tries.clear()
        except StoreUnavailableError as error:
            logger.warning("dispute_not_written", reason=error.reason)

    async def _compare_fresh(
        self, application: ApplicationRef, crew: _Crew, fresh: Sequence[Peer]
    ) -> None:
        if not fresh:
            return
        compared = crew.list_compared()
        found = await self._find_reference(crew, [*compared, *fresh])
        if found is None:
            return
        reference, witnesses = found
        others = [peer for peer in fresh[:COMPARED_AT_ONCE] if peer is not reference]
        if reference not in compared:
            if compared:
                # These have no workflow any more, and the reference has: it is the one
                # to be compared, and one of them does for all.
                verdict = await compare(reference, witnesses, compared[0])
                self._seat(application, crew, reference, compared[0], verdict)
            else:
                place = self._disputes.place_of(reference.ref) or 0
                crew.seats[reference.ref.executor_id] = (reference, place)
        for other in others:
            verdict = await compare(reference, witnesses, other)
            self._seat(application, crew, other, reference, verdict)

    async def _find_reference(
        self, crew: _Crew, candidates: Sequence[Peer]
    ) -> tuple[Peer, Set[Witness]] | None:
        """One that has workflows, and its witnesses."""
        is_empty = True
        for peer in candidates[:_REFERENCES]:
            witnesses = await call_witnesses(peer)
            if witnesses:
                return peer, witnesses
            if witnesses is None:
                is_empty = False
                crew.has_failed(peer)
        if is_empty:
            # Where there is no workflow there is nothing to lose either.
            crew.not_before = self._clock.monotonic() + EMPTY_PAUSE.total_seconds()
        return None

    def _seat(
        self,
        application: ApplicationRef,
        crew: _Crew,
        peer: Peer,
        known: Peer,
        verdict: Agreeing,
    ) -> None:
        """Give `peer` its seat, from how it compares with one that has a seat."""
        seat = crew.seats.get(known.ref.executor_id)
        if seat is None or verdict is Agreeing.UNCLEAR:
            crew.has_failed(peer)
            return
        is_same = verdict is Agreeing.SAME
        place = seat[1] if is_same else 1 - seat[1]
        crew.seats[peer.ref.executor_id] = (peer, place)
        if not is_same and not self.is_disputed(application.id):
            self._take_sides(application, crew)

    def _take_sides(self, application: ApplicationRef, crew: _Crew) -> None:
        places = {executor_id: at for executor_id, (_, at) in crew.seats.items()}
        self._disputes.seat(application.id, places, now=self._clock.now())
