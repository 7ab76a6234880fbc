"""
What to do about a dead executor: whom to order, when to look again, when it is done.

Pure. Facts come in as closed unions (`Finding`: what the question brought,
`OrderOutcome`: what became of an order), a `Decision` comes out; the shell carries it
out. Chance is handed in as `jitter` (0 ≤ jitter < 1), time not at all: decisions hold
spans, and the store adds them to its own clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias, assert_never

from relay.ids import AppVersion, ExecutorId, WorkflowId
from relay.records import RecoveryRecord, VersionPolicy

BACKOFF_FIRST = timedelta(seconds=1)
BACKOFF_LIMIT = timedelta(seconds=60)
STRANDED_LOOK = timedelta(minutes=5)
ONLINE_PAUSE = timedelta(seconds=1)
"""How long a row rests whose executor has a socket: HEALTHY is about to close it."""

BUSY_PAUSE = timedelta(seconds=1)

VERIFICATION_PAUSES = (
    timedelta(0),
    timedelta(seconds=1),
    timedelta(seconds=2),
    timedelta(seconds=3),
    timedelta(seconds=4),
)
"""
Rests before each asking after a `success`, 10 s together.

An SDK that starts work directly shows the new owner a moment after its answer.
"""


# --- facts ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A connected executor of the application, other than the dead one."""

    executor_id: ExecutorId
    app_version: AppVersion
    in_flight: int
    is_responsive: bool


@dataclass(frozen=True, slots=True)
class NothingPending:
    """An executor on the same database sees nothing left of the dead one's work."""

    answered_by: ExecutorId


@dataclass(frozen=True, slots=True)
class WorkRemains:
    """
    The dead executor still owns pending work.

    `count` is `None` when the listing failed; the first ids may be fewer than it.
    `names` are those of their workflows, as far as the executor told them.
    """

    answered_by: ExecutorId
    count: int | None
    ids: tuple[WorkflowId, ...]
    names: Mapping[WorkflowId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """No connected SDK knows how to answer."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Executors were asked and did not answer usefully."""

    reason: str


@dataclass(frozen=True, slots=True)
class NobodyToAsk:
    """No executor of the application is connected."""


@dataclass(frozen=True, slots=True)
class NobodyResponsive:
    """Executors are connected, and none of them has answered lately."""


Finding: TypeAlias = (
    NothingPending
    | WorkRemains
    | Unanswerable
    | NoAnswer
    | NobodyToAsk
    | NobodyResponsive
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The target answered `success: true`, which proves nothing yet."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The target answered that it failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The order may have arrived; lost, late, or an answer that says nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The order certainly never left this process."""

    reason: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The executor came back before the order was written."""


OrderOutcome: TypeAlias = Acknowledged | Refused | Unanswered | Undelivered | Withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    Everything but the finding that a decision rests on.

    `hold` is what is left of the time after Relay's start in which nothing is ordered.
    `unsettled` is the target of an earlier order that may still be carrying it out.
    `spread` is any number; equal candidates are taken in turns by it.
    """

    record: RecoveryRecord
    candidates: Sequence[Candidate]
    version_policy: VersionPolicy
    hold: timedelta
    unsettled: ExecutorId | None
    spread: int


# --- decisions -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finish:
    """
    Close the row as DONE.

    Only a verified end deletes the executor's record: unknown is not "nothing".
    """

    is_verified: bool


@dataclass(frozen=True, slots=True)
class Order:
    """Have `target` take the pending work over. `is_foreign`: of another version."""

    target: ExecutorId
    app_version: AppVersion
    is_foreign: bool


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask whether the order did what its answer claims."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Rest until an executor of the application connects or answers again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Strand:
    """Rest until an executor of the right version connects, but look after `delay`."""

    delay: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class BackOff:
    """The attempt failed; the next one starts with the question, after `delay`."""

    delay: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing failed, it is only too early; go on after `delay`."""

    delay: timedelta
    reason: str


Rest: TypeAlias = Wait | Strand | BackOff | Hold
"""A row that comes to rest, still open."""

Decision: TypeAlias = Finish | Order | Rest


# --- the rules -----------------------------------------------------------------------


def presume(candidates: Sequence[Candidate]) -> Finding | None:
    """What is known without asking, or `None` when the question is worth asking."""
    if not candidates:
        return NobodyToAsk()
    if not any(candidate.is_responsive for candidate in candidates):
        return NobodyResponsive()
    return None


def decide(situation: Situation, finding: Finding, *, jitter: float) -> Decision:
    """What to do now that the question has been asked."""
    match finding:
        case NothingPending():
            return Finish(is_verified=True)
        case NobodyToAsk() | NobodyResponsive():
            return _wait(finding)
        case NoAnswer(reason):
            return back_off(situation.record, reason, jitter=jitter)
        case WorkRemains() | Unanswerable():
            return _place(situation, jitter=jitter)
        case _:
            assert_never(finding)


def judge_outcome(
    record: RecoveryRecord, outcome: OrderOutcome, *, jitter: float
) -> Verify | BackOff | Hold:
    """What to do now that an order was answered, or will not be."""
    match outcome:
        case Acknowledged():
            return Verify()
        case Refused(reason) | Unanswered(reason) | Undelivered(reason):
            return back_off(record, reason, jitter=jitter)
        case Withdrawn():
            return hold_online()
        case _:
            assert_never(outcome)


def judge_verification(
    record: RecoveryRecord, order: Order, finding: Finding, *, jitter: float
) -> Finish | BackOff | Wait:
    """What to do with the last answer to the question after an acknowledged order."""
    match finding:
        case NothingPending():
            return Finish(is_verified=True)
        case WorkRemains():
            return back_off(record, "work remains", jitter=jitter)
        case Unanswerable():
            # An executor of another version acknowledges what it does not touch.
            if order.is_foreign:
                reason = "no executor can tell whether another version took the work"
                return back_off(record, reason, jitter=jitter)
            return Finish(is_verified=False)
        case NoAnswer(reason):
            return back_off(record, f"not verified: {reason}", jitter=jitter)
        case NobodyToAsk() | NobodyResponsive():
            return _wait(finding)
        case _:
            assert_never(finding)


def is_worth_repeating(finding: Finding) -> bool:
    """Whether asking again in a moment may bring another answer."""
    return isinstance(finding, WorkRemains | NoAnswer)


def hold_online() -> Hold:
    """The executor has a socket: nothing may be ordered or deleted now."""
    return Hold(ONLINE_PAUSE, "the executor is connected")


def hold_busy() -> Hold:
    """An earlier attempt at the same executor still runs, perhaps with an order out."""
    return Hold(BUSY_PAUSE, "an earlier attempt has not ended yet")


def doubt(record: RecoveryRecord, *, jitter: float) -> BackOff:
    """Nothing is pending in the database of an executor whose word does not count."""
    reason = "executors of the application read different databases"
    return back_off(record, reason, jitter=jitter)


def back_off(record: RecoveryRecord, reason: str, *, jitter: float) -> BackOff:
    """One more failure: at most 1 s, doubling to 60 s, with full jitter."""
    doublings = min(record.failures, 16)
    return BackOff(min(BACKOFF_FIRST * 2**doublings, BACKOFF_LIMIT) * jitter, reason)


def may_share_an_order(record: RecoveryRecord) -> bool:
    """
    Whether one order may name this executor together with others.

    Once only. One row that breaks fails the call for all of them, and nobody can tell
    which one it was: whoever was ordered before, with whatever outcome, goes alone, and
    so does whoever holds a suspect of the crash brake.
    """
    return record.attempts == 0 and not record.suspect_ids


def choose_target(situation: Situation) -> Order | None:
    """
    The executor to order, or `None` when there is none that may be.

    Executors of the dead one's version come first, those that answer before those
    that do not: if all of a version are silent, one of them is asked anyway. Under
    `VersionPolicy.ANY` each other version gets one order before the row is stranded;
    there, silent executors are left alone.
    """
    record = situation.record
    same = [c for c in situation.candidates if c.app_version == record.app_version]
    if same:
        return _pick(same, situation.spread, is_foreign=False)
    if situation.version_policy is VersionPolicy.SAME:
        return None
    others = [
        c
        for c in situation.candidates
        if c.is_responsive and c.app_version not in record.tried_versions
    ]
    return _pick(others, situation.spread, is_foreign=True) if others else None


def _place(situation: Situation, *, jitter: float) -> Decision:
    record = situation.record
    # Before stranding, too: the right executors may be redialling after our start.
    if situation.hold > timedelta(0):
        return Hold(situation.hold, "no orders yet: Relay has just started")
    if situation.unsettled is not None:
        reason = f"executor {situation.unsettled} may still carry out the last order"
        return back_off(record, reason, jitter=jitter)
    if not situation.candidates:
        return _wait(NobodyToAsk())
    if order := choose_target(situation):
        return order
    reason = f"no executor of version {record.app_version!r} is connected"
    return Strand(STRANDED_LOOK, reason)


def _pick(candidates: Sequence[Candidate], spread: int, *, is_foreign: bool) -> Order:
    ranks = [(not c.is_responsive, c.in_flight) for c in candidates]
    best = [c for c, rank in zip(candidates, ranks, strict=True) if rank == min(ranks)]
    chosen = best[spread % len(best)]
    return Order(chosen.executor_id, chosen.app_version, is_foreign=is_foreign)


def _wait(finding: NobodyToAsk | NobodyResponsive) -> Wait:
    match finding:
        case NobodyToAsk():
            return Wait("no executor of the application is connected")
        case NobodyResponsive():
            return Wait("no connected executor of the application answers")
        case _:
            assert_never(finding)
