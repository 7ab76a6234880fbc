"""One go at one recovery: question, decision, order, question again."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain, count, islice
from typing import Final

from relay.clock import Clock
from relay.dispatch import Peers
from relay.ids import ExecutorId, ExecutorRef
from relay.liveness.states import ExecutorStatus
from relay.protocol.sdk import Sdk, capabilities_of
from relay.records import RecoveryRecord
from relay.recovery import policy, transitions
from relay.recovery.bookkeeping import Bookkeeper, Claim, Settlement
from relay.recovery.inquiry import Inquiry
from relay.recovery.losses import LossBook, has_weight
from relay.recovery.orders import Orders
from relay.recovery.pacing import Pace
from relay.recovery.policy import (
    Candidate,
    Finding,
    Finish,
    NoAnswer,
    Order,
    Rest,
    Unanswerable,
    Verify,
    WorkRemains,
)
from relay.recovery.ports import Agreement
from relay.recovery.writing import Together, written

CHOSEN_AMONG: Final = 16
"""Executors of the right version among whom the one to be ordered is chosen."""


class Attempts:
    """
    Carries out what the policy decides.

    No database session is open while an executor is being asked.
    """

    def __init__(
        self,
        *,
        books: Bookkeeper,
        losses: LossBook,
        inquiry: Inquiry,
        orders: Orders,
        peers: Peers,
        agreement: Agreement,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        self._books = books
        self._inquiry = inquiry
        self._orders = orders
        self._peers = peers
        self._agreement = agreement
        self._clock = clock
        self._jitter = jitter
        self._settling = Together(clock, books.settle)
        self._weighing = Together(clock, losses.weigh)
        self._acknowledging = Together(clock, losses.acknowledge)
        self._pace = Pace(peers)
        self._turns = count()
        self._looks = count()

    def announce(self, claim: Claim) -> None:
        """
        Note that `run` is about to begin: the orders of others wait for its own.

        Whoever announces an attempt calls `end` after it, also when it never ran.
        """
        self._orders.expect(claim.record)

    def end(self, record: RecoveryRecord) -> None:
        """Note that the attempt at that row is over, if there was one."""
        self._orders.expect_no_more(record)

    async def yield_to_another(self, claim: Claim) -> None:
        """Put a row back because an earlier attempt at its executor still runs."""
        await self._settle(claim.record, policy.hold_busy())

    async def run(self, claim: Claim, *, hold: timedelta) -> None:
        """
        Bring one claimed row to rest, or to its end.

        Args:
            hold: how long no order may be sent yet.
        """
        if self._peers.is_online(claim.record.executor):
            await self._settle(claim.record, policy.hold_online())
        else:
            await self._pursue(claim, hold)

    async def _pursue(self, claim: Claim, hold: timedelta) -> None:
        record = claim.record
        finding = await self._question(record)
        weighed = await self._weigh(record, finding)
        if weighed is None:
            return
        record = weighed
        situation = policy.Situation(
            record=record,
            candidates=self._list_able(record, finding),
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

    async def _question(self, record: RecoveryRecord) -> Finding:
        application_id = record.executor.application.id
        async with self._pace.question(application_id):
            known = policy.presume(self._list_candidates(record))
            if known is not None:
                return known
            # After an order without an answer, its target is the one to hear from.
            first = record.target if record.order_deadline is not None else None
            return await self._inquiry.ask(record, first=first)

    async def _carry_out(self, before: RecoveryRecord, order: Order) -> None:
        placed = await self._orders.place(before, order)
        if placed is None:
            return
        record = transitions.settled(placed.record, before, placed.outcome)
        decision = policy.judge_outcome(record, placed.outcome, jitter=self._jitter())
        if not isinstance(decision, Verify):
            await self._settle(record, decision)
            return
        acknowledged = await self._acknowledging.write(record.id, record)
        if acknowledged is None:
            return
        finding = await self._verify(acknowledged)
        weighed = await self._weigh(acknowledged, finding)
        if weighed is None:
            return
        await self._settle(
            weighed,
            policy.judge_verification(weighed, order, finding, jitter=self._jitter()),
        )

    async def _weigh(
        self, record: RecoveryRecord, finding: Finding
    ) -> RecoveryRecord | None:
        """
        The row with what was found.

        Returns:
            `None` when the attempt is over: the crash brake has put the row to rest, or
            somebody else has changed it.
        """
        if not has_weight(record, finding):
            return transitions.noted(record, finding)
        return await self._weighing.write(record.id, (record, finding))

    async def _verify(self, record: RecoveryRecord) -> Finding:
        finding: Finding = NoAnswer("not asked")
        for pause in policy.VERIFICATION_PAUSES:
            await self._clock.sleep(pause)
            finding = await self._question(record)
            if not policy.is_worth_repeating(finding):
                break
        return finding

    async def _settle(self, record: RecoveryRecord, decision: Finish | Rest) -> None:
        if isinstance(decision, Finish):
            if self._peers.is_online(record.executor):
                # It came back while it was asked about: keep its record.
                decision = policy.hold_online()
            elif decision.is_verified and self._agreement.is_disputed(
                record.executor.application.id
            ):
                decision = policy.doubt(record, jitter=self._jitter())
        await self._settling.write(record.id, Settlement(record, decision))

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
        if peer := self._peers.find(ref):
            has_answered = isinstance(finding, Unanswerable) and peer.is_responsive
            is_settled = has_answered or peer.capabilities.recovers_by_reenqueue
            return None if is_settled else record.target
        executor = await written(self._clock, lambda: self._books.find_executor(ref))
        if executor is None or executor.status is ExecutorStatus.DEAD:
            return None
        sdk = Sdk(executor.language, executor.dbos_version)
        return None if capabilities_of(sdk).recovers_by_reenqueue else record.target

    def _list_able(
        self, record: RecoveryRecord, finding: Finding
    ) -> Sequence[Candidate]:
        """The candidates that can see the work, as far as that is known."""
        candidates = self._list_candidates(record)
        application = record.executor.application
        if not isinstance(finding, WorkRemains) or not self._agreement.is_disputed(
            application.id
        ):
            return candidates
        seen_by = ExecutorRef(application, finding.answered_by)
        return [
            candidate
            for candidate in candidates
            if self._agreement.may_agree(
                seen_by, ExecutorRef(application, candidate.executor_id)
            )
        ]

    def _list_candidates(self, record: RecoveryRecord) -> Sequence[Candidate]:
        """
        Who is connected: everybody, or of many enough to choose from.

        Where hundreds of the right version are, looking at all of them for each death
        would take longer than everything else.
        """
        peers = self._peers.list_peers(record.executor.application.id)
        start = next(self._looks) % max(1, len(peers))
        candidates: list[Candidate] = []
        usable = 0
        for peer in chain(islice(peers, start, None), islice(peers, start)):
            if peer.ref.executor_id == record.executor.executor_id:
                continue
            candidate = Candidate(
                executor_id=peer.ref.executor_id,
                app_version=peer.info.application_version,
                in_flight=peer.in_flight,
                is_responsive=peer.is_responsive,
            )
            candidates.append(candidate)
            usable += (
                candidate.is_responsive and candidate.app_version == record.app_version
            )
            if usable == CHOSEN_AMONG:
                break
        return candidates
