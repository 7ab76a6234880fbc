"""
A world in which only the two pure cores decide: liveness, and what to do about a death.

It stands in for everything around them: sockets that come and go before anybody has
written it down, an inbox that is read late, rows with guards, executors that lose their
work or take over that of others, answers that do not come. Every shortcut that the real
shells may not take is refused here too, so that a law broken in this world is broken by
the cores.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    AppVersion,
    ConnectionId,
    Epoch,
    ExecutorId,
    ExecutorRef,
    InstanceId,
    OrgName,
    RecoveryId,
    WorkflowId,
)
from relay.liveness.effects import (
    OpenRecovery,
    RecordDisconnected,
    RecordHealthy,
    ReturnFromRecovery,
)
from relay.liveness.events import (
    ConnectionLost,
    Event,
    ExecutorConnected,
    GraceElapsed,
    OwnerLost,
)
from relay.liveness.machine import step
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import Dead, Disconnected, State, Unknown
from relay.records import (
    RecoveryRecord,
    RecoveryState,
    VersionPolicy,
    WorkflowLossRecord,
)
from relay.recovery import brake, policy, transitions
from relay.recovery.policy import (
    Acknowledged,
    Candidate,
    Finish,
    NoAnswer,
    NothingPending,
    Order,
    OrderOutcome,
    Refused,
    Rest,
    Unanswered,
    Undelivered,
    Verify,
    Withdrawn,
    WorkRemains,
)
from tests.laws_attempts import Attempt

SECOND = timedelta(seconds=1)
LIVENESS = LivenessPolicy(grace=30 * SECOND, fault_grace=60 * SECOND)
ORDER_TIMEOUT = 300 * SECOND
ME = InstanceId("me")
APPLICATION = ApplicationRef(
    ApplicationId("application"), OrgName("local"), AppName("orders")
)


class World:
    """Executors with their versions, their pending work, and what Relay has written."""

    def __init__(self, versions: dict[str, str]) -> None:
        self.versions = dict(versions)
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.sockets: dict[str, ConnectionId] = {}
        self.inbox: list[tuple[str, ConnectionId, bool]] = []
        self.beliefs: dict[str, State] = dict.fromkeys(versions, Unknown())
        self.work: dict[WorkflowId, str] = {}
        self.work_versions: dict[WorkflowId, str] = {}
        self.ledger: dict[RecoveryId, RecoveryRecord] = {}
        self.lost_at: dict[str, datetime] = {}
        self.losses: dict[WorkflowId, WorkflowLossRecord] = {}
        self.attempts: dict[RecoveryId, Attempt] = {}
        self.outstanding: dict[tuple[str, Epoch], RecoveryId] = {}
        self._numbers = count(1)

    # --- executors -------------------------------------------------------------------

    def connect(self, name: str) -> None:
        self.sockets[name] = ConnectionId(f"c{next(self._numbers)}")
        self.inbox.append((name, self.sockets[name], True))
        for attempt in self.attempts.values():
            if attempt.name == name:
                attempt.knows_truth = False

    def lose(self, name: str) -> None:
        self.inbox.append((name, self.sockets.pop(name), False))

    def start_work(self, name: str) -> None:
        workflow = WorkflowId(f"w{next(self._numbers)}")
        self.work[workflow] = name
        self.work_versions[workflow] = self.versions[name]

    def pending_of(self, name: str, version: str) -> list[WorkflowId]:
        return [
            workflow
            for workflow, owner in self.work.items()
            if owner == name and self.work_versions[workflow] == version
        ]

    # --- what the monitor does -------------------------------------------------------

    def read_inbox(self) -> None:
        """Write the oldest piece of news down."""
        name, connection, is_arrival = self.inbox.pop(0)
        if is_arrival:
            self.tell(name, ExecutorConnected(at=self.at, connection_id=connection))
        else:
            self.tell(
                name,
                ConnectionLost(at=self.at, connection_id=connection, is_fault=False),
            )

    def let_grace_elapse(self, name: str) -> None:
        """The sweep: whoever has a socket is not judged."""
        belief = self.beliefs[name]
        assert isinstance(belief, Disconnected)
        self.at = max(self.at, belief.grace.deadline)
        if name not in self.sockets:
            self.tell(name, GraceElapsed(at=self.at, deadline=belief.grace.deadline))

    def restart(self) -> None:
        """
        Relay is killed: sockets, noted losses and attempts are gone, rows are not.

        Arrivals are written first. An executor that claims work and is gone before
        anybody has written that it exists is for the census to find.
        """
        self.inbox = [news for news in self.inbox if news[2]]
        while self.inbox:
            self.read_inbox()
        self.sockets.clear()
        self.attempts.clear()
        self.outstanding.clear()
        for name, belief in self.beliefs.items():
            if not isinstance(belief, Unknown):
                self.tell(name, OwnerLost(at=self.at, epoch=belief.epoch))

    def tell(self, name: str, event: Event) -> None:
        result = step(self.beliefs[name], event, LIVENESS)
        self.beliefs[name] = result.state
        for effect in result.effects:
            match effect:
                case RecordHealthy():
                    self._wake(self.versions[name])
                case RecordDisconnected():
                    self.lost_at[name] = self.at
                case OpenRecovery(epoch=epoch):
                    assert self.open_row(name) is None
                    record = transitions.open_recovery(
                        recovery_id=RecoveryId(f"r{next(self._numbers)}"),
                        executor=ExecutorRef(APPLICATION, ExecutorId(name)),
                        app_version=AppVersion(self.versions[name]),
                        epoch=epoch,
                        lost_at=self.lost_at[name],
                        now=self.at,
                    )
                    self.ledger[record.id] = record
                case ReturnFromRecovery():
                    if row := self.open_row(name):
                        self.save(transitions.returned(row, now=self.at))
                case _:
                    pass

    def open_row(self, name: str) -> RecoveryRecord | None:
        for record in self.ledger.values():
            if record.executor.executor_id == name and record.closed_at is None:
                return record
        return None

    def _wake(self, version: str) -> None:
        for record in list(self.ledger.values()):
            if record.state is RecoveryState.WAITING or (
                record.state is RecoveryState.STRANDED and record.app_version == version
            ):
                self.save(
                    replace(
                        record,
                        state=RecoveryState.READY,
                        next_attempt_at=self.at,
                        claimed_by=None,
                    )
                )

    # --- what the recovery engine does -----------------------------------------------

    def save(self, record: RecoveryRecord) -> RecoveryRecord | None:
        """Write a row of the ledger, guarded by the revision it was read at."""
        if self.ledger[record.id].revision != record.revision:
            return None
        self.ledger[record.id] = replace(record, revision=record.revision + 1)
        return self.ledger[record.id]

    def survey(self) -> None:
        """Free what no attempt works on, and wake what waits for somebody present."""
        for record in list(self.ledger.values()):
            if record.claimed_by and record.id not in self.attempts:
                self.save(transitions.orphaned(record, now=self.at))
        for name in self.sockets:
            self._wake(self.versions[name])

    def list_due(self) -> list[RecoveryRecord]:
        working_on = {attempt.name for attempt in self.attempts.values()}
        return [
            record
            for record in self.ledger.values()
            if record.closed_at is None
            and record.claimed_by is None
            and record.next_attempt_at is not None
            and record.next_attempt_at <= self.at
            and record.executor.executor_id not in working_on
        ]

    def begin(self, record: RecoveryRecord) -> None:
        claimed = self.save(replace(record, claimed_by=ME))
        assert claimed is not None
        self.attempts[record.id] = Attempt(claimed)

    def go_on(
        self, attempt: Attempt, *, answers: bool, takes_over: bool, outcome: str
    ) -> None:
        """
        Take the next step of an attempt.

        Args:
            answers: whether an executor that is asked answers.
            takes_over: whether the target of an order does what it was told.
            outcome: what the target says: `yes`, `no` or nothing.
        """
        match attempt.stage:
            case "ask" if attempt.name in self.sockets:
                self._rest(attempt, policy.hold_online())
            case "ask" | "verify":
                self._ask(attempt, answers=answers)
            case "decide":
                self._decide(attempt)
            case "send":
                self._send(attempt, takes_over=takes_over, outcome=outcome)
            case "reply":
                self._hear(attempt)
            case "judge":
                self._judge(attempt)
            case _:
                raise AssertionError(attempt.stage)

    def _ask(self, attempt: Attempt, *, answers: bool) -> None:
        record = attempt.record
        candidates = self._candidates(attempt)
        finding = policy.presume(candidates)
        if finding is None and not answers:
            finding = NoAnswer("silence")
        if finding is None:
            pending = self.pending_of(attempt.name, record.app_version)
            by = candidates[0].executor_id
            attempt.knows_truth = True
            finding = (
                WorkRemains(by, len(pending), tuple(pending))
                if pending
                else NothingPending(by)
            )
        attempt.finding = finding
        attempt.record = transitions.noted(record, finding)
        attempt.stage = "decide" if attempt.stage == "ask" else "judge"
        if isinstance(finding, WorkRemains | NothingPending):
            self._weigh(attempt)

    def _weigh(self, attempt: Attempt) -> None:
        """The crash brake may put the row to rest, which ends the attempt."""
        counters = brake.count_loss(attempt.record, {}, self.losses)
        saved = self.save(brake.applied(attempt.record, counters, now=self.at))
        if saved is None:
            self._drop(attempt)
            return
        self.losses |= counters
        if saved.claimed_by is None:
            assert saved.state is RecoveryState.BRAKED
            self._drop(attempt)
        attempt.record = saved

    def _hand_on(self, record: RecoveryRecord) -> None:
        for id_ in record.pending_ids:
            if id_ in self.losses:
                self.losses[id_] = replace(self.losses[id_], handed_on_at=self.at)

    def _decide(self, attempt: Attempt) -> None:
        assert attempt.finding is not None
        situation = policy.Situation(
            record=attempt.record,
            candidates=self._candidates(attempt),
            version_policy=VersionPolicy.SAME,
            hold=timedelta(0),
            unsettled=None,
            spread=0,
        )
        decision = policy.decide(situation, attempt.finding, jitter=0.5)
        if isinstance(decision, Order):
            self._order(attempt, decision)
        else:
            self._settle(attempt, decision)

    def _order(self, attempt: Attempt, order: Order) -> None:
        assert attempt.finding is not None, "an order without the question before it"
        if not self._is_dead(attempt):
            return
        ordered = transitions.ordered(
            attempt.record, order, timeout=ORDER_TIMEOUT, now=self.at
        )
        saved = self.save(ordered)
        if saved is None:
            self._drop(attempt)
            return
        self._hand_on(saved)
        if saved.suspect_ids:
            assert saved.brake_level > attempt.record.brake_level
        attempt.before, attempt.record, attempt.order = attempt.record, saved, order
        attempt.finding = None
        attempt.stage = "send"

    def _send(self, attempt: Attempt, *, takes_over: bool, outcome: str) -> None:
        assert attempt.order is not None
        target = attempt.order.target
        attempt.stage = "reply"
        if target not in self.sockets:
            attempt.outcome = Undelivered("gone")
            return
        if attempt.name in self.sockets:
            attempt.outcome = Withdrawn()
            return

        # The byte is written here.
        assert isinstance(self.beliefs[attempt.name], Dead)
        death = (attempt.name, attempt.record.epoch)
        assert death not in self.outstanding, "a second order for the same death"
        self.outstanding[death] = attempt.record.id
        if takes_over:
            for workflow in self.pending_of(attempt.name, self.versions[target]):
                self.work[workflow] = target
        outcomes: dict[str, OrderOutcome] = {
            "yes": Acknowledged(),
            "no": Refused("an error"),
            "nothing": Unanswered("a time-out"),
        }
        attempt.outcome = outcomes[outcome]

    def _hear(self, attempt: Attempt) -> None:
        assert attempt.before is not None
        assert attempt.outcome is not None
        self.outstanding.pop((attempt.name, attempt.record.epoch), None)
        attempt.record = transitions.settled(
            attempt.record, attempt.before, attempt.outcome
        )
        decision = policy.judge_outcome(attempt.record, attempt.outcome, jitter=0.5)
        if not isinstance(decision, Verify):
            self._rest(attempt, decision)
            return
        saved = self.save(transitions.acknowledged(attempt.record, now=self.at))
        if saved is None:
            self._drop(attempt)
            return
        self._hand_on(saved)
        attempt.record, attempt.stage = saved, "verify"

    def _judge(self, attempt: Attempt) -> None:
        assert attempt.order is not None
        assert attempt.finding is not None
        self._settle(
            attempt,
            policy.judge_verification(
                attempt.record, attempt.order, attempt.finding, jitter=0.5
            ),
        )

    def _settle(self, attempt: Attempt, decision: Finish | Rest) -> None:
        if not isinstance(decision, Finish):
            self._rest(attempt, decision)
        elif attempt.name in self.sockets:
            self._rest(attempt, policy.hold_online())
        elif self._is_dead(attempt):
            self._finish(attempt, decision)

    def _finish(self, attempt: Attempt, decision: Finish) -> None:
        record = transitions.finished(attempt.record, decision, now=self.at)
        self._drop(attempt)
        if self.save(record) is None:
            return

        # The executor's record is deleted here.
        assert decision.is_verified
        assert isinstance(attempt.finding, NothingPending)
        if attempt.knows_truth:
            assert not self.pending_of(attempt.name, record.app_version)
        self.beliefs[attempt.name] = Unknown()

    def _rest(self, attempt: Attempt, rest: Rest) -> None:
        self._drop(attempt)
        self.save(transitions.rested(attempt.record, rest, now=self.at))

    def _is_dead(self, attempt: Attempt) -> bool:
        """Whether the row is still about this death; if not, the attempt is over."""
        belief = self.beliefs[attempt.name]
        if isinstance(belief, Dead) and belief.epoch == attempt.record.epoch:
            return True
        self._drop(attempt)
        self.save(transitions.returned(attempt.record, now=self.at))
        return False

    def _drop(self, attempt: Attempt) -> None:
        del self.attempts[attempt.record.id]

    def _candidates(self, attempt: Attempt) -> list[Candidate]:
        return [
            Candidate(
                executor_id=ExecutorId(name),
                app_version=AppVersion(self.versions[name]),
                in_flight=0,
                is_responsive=True,
            )
            for name in self.sockets
            if name != attempt.name
        ]
