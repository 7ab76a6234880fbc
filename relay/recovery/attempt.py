"""One go at one recovery: question, decision, order, question again."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Final, TypeVar, assert_never

import structlog

from relay.clock import Clock
from relay.dispatch import Peer, Peers
from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    ReplyTimeoutError,
    RequestWithdrawnError,
    StoreUnavailableError,
)
from relay.ids import ExecutorId, ExecutorRef
from relay.liveness.states import ExecutorStatus
from relay.protocol.messages import RecoveryRequest
from relay.protocol.sdk import Sdk, capabilities_of
from relay.records import RecoveryRecord
from relay.recovery import policy, transitions
from relay.recovery.bookkeeping import Bookkeeper, Claim
from relay.recovery.inquiry import Inquiry
from relay.recovery.policy import (
    Acknowledged,
    BackOff,
    Candidate,
    Finding,
    Finish,
    Hold,
    NoAnswer,
    Order,
    OrderOutcome,
    Refused,
    Strand,
    Unanswerable,
    Unanswered,
    Undelivered,
    Verify,
    Wait,
    Withdrawn,
    WorkRemains,
)
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

_T = TypeVar("_T")

_OUTAGE_FIRST: Final = timedelta(seconds=1)
_OUTAGE_LIMIT: Final = timedelta(seconds=30)


class Attempts:
    """
    Carries out what the policy decides.

    No database session is open while an executor is being asked.
    """

    def __init__(
        self,
        *,
        books: Bookkeeper,
        inquiry: Inquiry,
        peers: Peers,
        clock: Clock,
        metrics: Metrics,
        order_timeout: timedelta,
        jitter: Callable[[], float],
    ) -> None:
        self._books = books
        self._inquiry = inquiry
        self._peers = peers
        self._clock = clock
        self._metrics = metrics
        self._order_timeout = order_timeout
        self._jitter = jitter
        self._turns = count()

    async def run(self, claim: Claim, *, hold: timedelta) -> None:
        """
        Bring one claimed row to rest, or to its end.

        Args:
            hold: how long no order may be sent yet.
        """
        record = claim.record
        if self._peers.is_online(record.executor):
            await self._settle(record, policy.hold_online())
            return
        finding = await self._question(record)
        record = transitions.noted(record, finding)
        situation = policy.Situation(
            record=record,
            candidates=self._list_candidates(record),
            version_policy=claim.version_policy,
            hold=hold,
            unsettled=await self._find_unsettled(record, finding),
            spread=next(self._turns),
        )
        decision = policy.decide(situation, finding, jitter=self._jitter())
        if isinstance(decision, Order):
            await self._carry_out(record, decision)
        else:
            await self._settle(record, decision)

    async def yield_to_another(self, claim: Claim) -> None:
        """Put a row back because an earlier attempt at its executor still runs."""
        await self._settle(claim.record, policy.hold_busy())

    async def _question(self, record: RecoveryRecord) -> Finding:
        # After an order without an answer, its target is the one to hear from.
        prefer = record.target if record.order_deadline is not None else None
        return policy.presume(self._list_candidates(record)) or await self._inquiry.ask(
            record, prefer=prefer
        )

    async def _carry_out(self, before: RecoveryRecord, order: Order) -> None:
        record = await self._written(
            lambda: self._books.order(before, order, answer_within=self._order_timeout)
        )
        if record is None:
            return
        outcome = await self._send(record, order)
        self._metrics.recovery_orders.labels(type(outcome).__name__.lower()).inc()
        record = transitions.settled(record, before, outcome)
        decision = policy.judge_outcome(record, outcome, jitter=self._jitter())
        if isinstance(decision, Verify):
            finding = await self._verify(record)
            record = transitions.noted(record, finding)
            await self._settle(
                record,
                policy.judge_verification(
                    record, order, finding, jitter=self._jitter()
                ),
            )
        else:
            await self._settle(record, decision)

    async def _send(self, record: RecoveryRecord, order: Order) -> OrderOutcome:
        ref = record.executor
        peer = self._find_peer(ExecutorRef(ref.application, order.target))
        if peer is None:
            return Undelivered(f"executor {order.target} left before it was ordered")
        try:
            reply = await peer.ask(
                RecoveryRequest((ref.executor_id,)),
                self._order_timeout,
                still_wanted=lambda: not self._peers.is_online(ref),
            )
        except RequestWithdrawnError:
            return Withdrawn()
        except ExecutorBusyError as error:
            return Undelivered(str(error))
        except (ConnectionLostError, ReplyTimeoutError) as error:
            return (Unanswered if error.delivered else Undelivered)(str(error))
        except ExecutorFailedError as error:
            return Refused(str(error))
        except DispatchError as error:
            return Unanswered(str(error))
        if not reply.success:
            return Refused(
                f"executor {order.target} did not succeed, and gave no reason"
            )
        return Acknowledged()

    async def _verify(self, record: RecoveryRecord) -> Finding:
        finding: Finding = NoAnswer("not asked")
        for pause in policy.VERIFICATION_PAUSES:
            await self._clock.sleep(pause)
            finding = await self._question(record)
            if not policy.is_worth_repeating(finding):
                break
        return finding

    async def _settle(
        self, record: RecoveryRecord, decision: Finish | Wait | Strand | BackOff | Hold
    ) -> None:
        match decision:
            case Finish():
                if self._peers.is_online(record.executor):
                    # It came back while it was asked about: keep its record.
                    await self._written(
                        lambda: self._books.rest(record, policy.hold_online())
                    )
                else:
                    await self._written(lambda: self._books.finish(record, decision))
            case Wait() | Strand() | BackOff() | Hold():
                await self._written(lambda: self._books.rest(record, decision))
            case _:
                assert_never(decision)

    async def _find_unsettled(
        self, record: RecoveryRecord, finding: Finding
    ) -> ExecutorId | None:
        """
        The target of an order without an answer that may still be starting work.

        Only SDKs that start recovered work on the spot matter: there a second order
        would start it twice. Its target has settled it when it answers anything that it
        was asked afterwards, or is DEAD.
        """
        if record.order_deadline is None or record.target is None:
            return None
        if isinstance(finding, WorkRemains) and finding.answered_by == record.target:
            return None
        ref = ExecutorRef(record.executor.application, record.target)
        if peer := self._find_peer(ref):
            has_answered = isinstance(finding, Unanswerable) and peer.is_responsive
            is_settled = has_answered or peer.capabilities.recovers_by_reenqueue
            return None if is_settled else record.target
        executor = await self._written(lambda: self._books.find_executor(ref))
        if executor is None or executor.status is ExecutorStatus.DEAD:
            return None
        sdk = Sdk(executor.language, executor.dbos_version)
        return None if capabilities_of(sdk).recovers_by_reenqueue else record.target

    def _list_candidates(self, record: RecoveryRecord) -> Sequence[Candidate]:
        return [
            Candidate(
                executor_id=peer.ref.executor_id,
                app_version=peer.info.application_version,
                in_flight=peer.in_flight,
                is_responsive=peer.is_responsive,
            )
            for peer in self._peers.list_peers(record.executor.application.id)
            if peer.ref.executor_id != record.executor.executor_id
        ]

    def _find_peer(self, ref: ExecutorRef) -> Peer | None:
        for peer in self._peers.list_peers(ref.application.id):
            if peer.ref.executor_id == ref.executor_id:
                return peer
        return None

    async def _written(self, write: Callable[[], Awaitable[_T]]) -> _T:
        """Do it, however often the store has to be asked; nothing is lost meanwhile."""
        pause = _OUTAGE_FIRST
        while True:
            try:
                return await write()
            except StoreUnavailableError as error:
                logger.warning("recovery_outcome_held", reason=error.reason)
            await self._clock.sleep(pause)
            pause = min(2 * pause, _OUTAGE_LIMIT)
