"""Orders: recorded, written to the socket, answered; one may name many executors."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from relay.clock import Clock
from relay.dispatch import Peer, Peers
from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    ReplyTimeoutError,
    RequestWithdrawnError,
)
from relay.ids import (
    ApplicationId,
    AppVersion,
    ExecutorId,
    ExecutorRef,
    RecoveryId,
)
from relay.protocol.messages import RecoveryRequest
from relay.records import RecoveryRecord
from relay.recovery.bookkeeping import Bookkeeper, Ordering
from relay.recovery.policy import (
    Acknowledged,
    Order,
    OrderOutcome,
    Refused,
    Unanswered,
    Undelivered,
    Withdrawn,
    may_share_an_order,
)
from relay.recovery.writing import Together
from relay.telemetry import Metrics

NAMED_AT_ONCE: Final = 100
"""The most executors in one order."""

GATHERING: Final = timedelta(milliseconds=50)
"""How long an order waits for others that are about to be given."""

_Crew: TypeAlias = tuple[ApplicationId, AppVersion]
"""Whose dead executors may be named together."""

_Addressee: TypeAlias = tuple[_Crew, ExecutorId]


@dataclass(frozen=True, slots=True)
class Placed:
    """
    What became of an order.

    `record` is the row as it is since the order was recorded in it.
    """

    record: RecoveryRecord
    outcome: OrderOutcome


@dataclass(eq=False, slots=True)
class _Batch:
    """Rows that one order is going to name, and the attempts that wait for it."""

    members: list[tuple[RecoveryRecord, asyncio.Future[Placed | None]]] = field(
        default_factory=list
    )
    closed: asyncio.Event = field(default_factory=asyncio.Event)


class Orders:
    """
    Gives the orders that attempts have decided on.

    Attempts at many rows of one application and version run side by side, and most
    decide within a moment that an executor shall take the work over. Where its SDK only
    re-enqueues, their orders to one executor become one. The first waits until
    nobody else can join, or it is full, or `GATHERING` is over; it is then recorded in
    all rows in one transaction, and written as one frame. Each row has its own outcome.
    """

    def __init__(
        self,
        *,
        books: Bookkeeper,
        peers: Peers,
        clock: Clock,
        metrics: Metrics,
        answer_within: timedelta,
    ) -> None:
        self._recording = Together(
            clock, partial(books.order, answer_within=answer_within)
        )
        self._peers = peers
        self._clock = clock
        self._metrics = metrics
        self._answer_within = answer_within
        self._expected: dict[_Crew, set[RecoveryId]] = {}
        self._gathering: dict[_Addressee, _Batch] = {}

    def expect(self, record: RecoveryRecord) -> None:
        """Note that an attempt may soon need an order for this row: others wait."""
        if may_share_an_order(record):
            self._expected.setdefault(_crew_of(record), set()).add(record.id)

    def expect_no_more(self, record: RecoveryRecord) -> None:
        """Note that it has decided, or is over; may be repeated."""
        crew = _crew_of(record)
        expected = self._expected.get(crew)
        if expected is None or record.id not in expected:
            return
        expected.remove(record.id)
        if not expected:
            del self._expected[crew]
            for addressee in [each for each in self._gathering if each[0] == crew]:
                self._close(addressee)

    async def place(self, record: RecoveryRecord, order: Order) -> Placed | None:
        """
        Have `order.target` take the work of this row over; returns with its answer.

        Returns:
            `None` if nothing was sent because somebody else has changed the row.
        """
        if not self._is_shared(record, order):
            self.expect_no_more(record)
            return (await self._give([record], order)).get(record.id)
        addressee = (_crew_of(record), order.target)
        batch = self._gathering.get(addressee)
        is_first = batch is None
        if batch is None:
            batch = self._gathering[addressee] = _Batch()
        placed: asyncio.Future[Placed | None] = (
            asyncio.get_running_loop().create_future()
        )
        batch.members.append((record, placed))
        if len(batch.members) >= NAMED_AT_ONCE:
            self._close(addressee)
        self.expect_no_more(record)
        if is_first:
            await self._lead(batch, addressee, order)
        return await placed

    def _is_shared(self, record: RecoveryRecord, order: Order) -> bool:
        if order.is_foreign or not may_share_an_order(record):
            return False
        target = self._find_target(record, order)
        return target is not None and target.capabilities.recovers_by_reenqueue

    def _close(self, addressee: _Addressee) -> None:
        self._gathering.pop(addressee).closed.set()

    async def _lead(self, batch: _Batch, addressee: _Addressee, order: Order) -> None:
        """Give the order of all who have joined, by the attempt that came first."""
        try:
            await self._clock.wait(batch.closed, GATHERING)
            if self._gathering.get(addressee) is batch:
                self._close(addressee)
            placed = await self._give([record for record, _ in batch.members], order)
        except Exception as error:
            # Ours too: it is raised where each waits for its answer.
            for _, answer in batch.members:
                if not answer.done():
                    answer.set_exception(error)
            return
        except BaseException:
            # We are being ended, and they with us.
            for _, answer in batch.members:
                answer.cancel()
            raise
        for record, answer in batch.members:
            if not answer.done():
                answer.set_result(placed.get(record.id))

    async def _give(
        self, records: Sequence[RecoveryRecord], order: Order
    ) -> Mapping[RecoveryId, Placed]:
        recorded = await self._recording.write_all(
            {r.id: Ordering(r, order, batch_size=len(records)) for r in records}
        )
        outcomes = await self._send(list(recorded.values()), order)
        for outcome in outcomes.values():
            self._metrics.recovery_orders.labels(type(outcome).__name__.lower()).inc()
        return {
            recovery_id: Placed(record, outcomes[recovery_id])
            for recovery_id, record in recorded.items()
        }

    async def _send(
        self, records: Sequence[RecoveryRecord], order: Order
    ) -> Mapping[RecoveryId, OrderOutcome]:
        """What became of the order, row by row."""
        outcomes: dict[RecoveryId, OrderOutcome] = {}
        named = records
        while named:
            outcome, returned = await self._write(named, order)
            if not returned:
                return outcomes | {record.id: outcome for record in named}
            # The others are ordered all the same, as their rows already say.
            outcomes |= {record.id: outcome for record in returned}
            named = [record for record in named if record not in returned]
        return outcomes

    async def _write(
        self, named: Sequence[RecoveryRecord], order: Order
    ) -> tuple[OrderOutcome, Sequence[RecoveryRecord]]:
        """
        Send one frame and wait for the answer.

        Returns:
            The outcome, and the rows whose executor came back before the frame was
            written: if there are any, it was not, and the outcome is theirs.
        """
        peer = self._find_target(named[0], order)
        if peer is None:
            return Undelivered(
                f"executor {order.target} left before it was ordered"
            ), ()
        if len(named) > 1 and not peer.capabilities.recovers_by_reenqueue:
            return Undelivered(f"executor {order.target} has another SDK now"), ()
        returned: list[RecoveryRecord] = []

        def is_nobody_back() -> bool:
            returned.extend(r for r in named if self._peers.is_online(r.executor))
            return not returned

        try:
            reply = await peer.ask(
                RecoveryRequest(tuple(r.executor.executor_id for r in named)),
                self._answer_within,
                still_wanted=is_nobody_back,
            )
        except RequestWithdrawnError:
            return Withdrawn(), returned
        except DispatchError as error:
            return _outcome_of(error), ()
        if not reply.success:
            reason = f"executor {order.target} did not succeed, and gave no reason"
            return Refused(reason), ()
        return Acknowledged(), ()

    def _find_target(self, record: RecoveryRecord, order: Order) -> Peer | None:
        """The target, if it still runs the version that it was chosen for."""
        ref = ExecutorRef(record.executor.application, order.target)
        peer = self._peers.find(ref)
        if peer is None or peer.info.application_version != order.app_version:
            return None
        return peer


def _crew_of(record: RecoveryRecord) -> _Crew:
    return record.executor.application.id, record.app_version


def _outcome_of(error: DispatchError) -> OrderOutcome:
    match error:
        case ExecutorBusyError():
            return Undelivered(str(error))
        case ConnectionLostError() | ReplyTimeoutError():
            return (Unanswered if error.delivered else Undelivered)(str(error))
        case ExecutorFailedError():
            return Refused(str(error))
        case _:
            return Unanswered(str(error))
