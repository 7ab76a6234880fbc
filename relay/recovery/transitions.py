"""
How a row of the ledger changes: pure functions from one reading to the next.

Each returns a new record and writes nothing; the caller saves it, guarded by the
revision that it read. `now` is the database's clock.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from relay.ids import AppVersion, Epoch, ExecutorRef, RecoveryId
from relay.records import RecoveryRecord, RecoveryState
from relay.recovery import brake
from relay.recovery.policy import (
    Acknowledged,
    BackOff,
    Finding,
    Finish,
    Hold,
    NoAnswer,
    NobodyResponsive,
    NobodyToAsk,
    NothingPending,
    Order,
    OrderOutcome,
    Refused,
    Rest,
    Strand,
    Unanswerable,
    Unanswered,
    Undelivered,
    Wait,
    Withdrawn,
    WorkRemains,
)


def open_recovery(
    *,
    recovery_id: RecoveryId,
    executor: ExecutorRef,
    app_version: AppVersion,
    epoch: Epoch,
    lost_at: datetime | None,
    now: datetime,
) -> RecoveryRecord:
    """
    The row of a new death, due at once.

    Args:
        lost_at: when the executor's last connection ended, if that is known.
    """
    return RecoveryRecord(
        id=recovery_id,
        executor=executor,
        app_version=app_version,
        epoch=epoch,
        state=RecoveryState.READY,
        revision=0,
        opened_at=now,
        lost_at=lost_at,
        updated_at=now,
        next_attempt_at=now,
        attempts=0,
        failures=0,
        claimed_by=None,
        target=None,
        ordered_at=None,
        order_deadline=None,
        acknowledged_at=None,
        pending_count=None,
        pending_ids=(),
        suspect_ids=(),
        brake_level=0,
        tried_versions=(),
        reason=None,
        is_verified=None,
        closed_at=None,
    )


def noted(record: RecoveryRecord, finding: Finding) -> RecoveryRecord:
    """What the question found; an answer that says nothing changes nothing."""
    match finding:
        case NothingPending():
            return replace(record, pending_count=0, pending_ids=())
        case WorkRemains(count=count, ids=ids):
            return replace(record, pending_count=count, pending_ids=ids)
        case Unanswerable() | NoAnswer() | NobodyToAsk() | NobodyResponsive():
            return record
        case _:
            assert_never(finding)


def ordered(
    record: RecoveryRecord, order: Order, *, timeout: timedelta, now: datetime
) -> RecoveryRecord:
    """An order is about to be written; the claim stays until it is settled."""
    tried = record.tried_versions
    return replace(
        record,
        state=RecoveryState.ORDERED,
        attempts=record.attempts + 1,
        target=order.target,
        ordered_at=now,
        order_deadline=now + timeout,
        tried_versions=(*tried, order.app_version) if order.is_foreign else tried,
        brake_level=record.brake_level + 1 if record.suspect_ids else 0,
        next_attempt_at=None,
        reason=None,
    )


def settled(
    record: RecoveryRecord, before: RecoveryRecord, outcome: OrderOutcome
) -> RecoveryRecord:
    """
    What became of the order, in the row as it is since the order was recorded.

    Args:
        before: the row as it was until then: an order that never left leaves no trace.
    """
    match outcome:
        case Acknowledged() | Refused():
            return replace(record, order_deadline=None)
        case Unanswered():
            return record
        case Undelivered() | Withdrawn():
            return replace(
                record,
                attempts=before.attempts,
                target=before.target,
                ordered_at=before.ordered_at,
                order_deadline=before.order_deadline,
                tried_versions=before.tried_versions,
                brake_level=before.brake_level,
            )
        case _:
            assert_never(outcome)


def acknowledged(record: RecoveryRecord, *, now: datetime) -> RecoveryRecord:
    """The target of the order says that it has taken the work over."""
    return replace(record, order_deadline=None, acknowledged_at=now)


def rested(record: RecoveryRecord, rest: Rest, *, now: datetime) -> RecoveryRecord:
    """
    The attempt is over, the row stays open and belongs to nobody.

    A row with suspects rests as BRAKED unless it waits for an executor, and after an
    order in any case, as long as the brake says.
    """
    free = replace(record, claimed_by=None, reason=rest.reason)
    is_braked = bool(record.suspect_ids)
    was_ordered = record.state is RecoveryState.ORDERED
    # A hold after an order means that the executor is back, and the row at its end.
    if is_braked and was_ordered and not isinstance(rest, Hold):
        return _spaced(free, now=now)
    match rest:
        case Wait():
            return replace(
                free, state=RecoveryState.WAITING, next_attempt_at=None, failures=0
            )
        case Strand(delay=delay):
            return replace(
                free,
                state=RecoveryState.STRANDED,
                next_attempt_at=now + delay,
                failures=0,
            )
        case BackOff(delay=delay):
            return replace(
                free,
                state=RecoveryState.BRAKED if is_braked else RecoveryState.BACKOFF,
                next_attempt_at=now + delay,
                failures=record.failures + 1,
            )
        case Hold(delay=delay):
            return replace(
                free,
                state=RecoveryState.BRAKED if is_braked else RecoveryState.READY,
                next_attempt_at=now + delay,
            )
        case _:
            assert_never(rest)


def finished(
    record: RecoveryRecord, finish: Finish, *, now: datetime
) -> RecoveryRecord:
    """DONE; without proof when no connected SDK could give it."""
    closed = _closed(record, RecoveryState.DONE, now=now)
    reason = None
    if not finish.is_verified:
        reason = "no connected SDK can verify it"
    elif record.lost_at is None and record.attempts == 0:
        # No death has told the version: it may be a slip of whoever asked for it.
        reason = (
            f"nothing of version {record.app_version} is pending; nobody was asked"
            " about other versions"
        )
    return replace(closed, is_verified=finish.is_verified, reason=reason)


def returned(record: RecoveryRecord, *, now: datetime) -> RecoveryRecord:
    """The executor's row is no longer about this death."""
    return replace(
        _closed(record, RecoveryState.RETURNED, now=now),
        reason="the executor is no longer dead",
    )


def abandoned(record: RecoveryRecord, reason: str, *, now: datetime) -> RecoveryRecord:
    """An operator gave up on it."""
    return replace(_closed(record, RecoveryState.ABANDONED, now=now), reason=reason)


def released(record: RecoveryRecord, *, now: datetime) -> RecoveryRecord:
    """An operator wants it tried now, as if for the first time."""
    return replace(
        record,
        state=RecoveryState.READY,
        next_attempt_at=now,
        failures=0,
        tried_versions=(),
        suspect_ids=(),
        brake_level=0,
        reason=None,
    )


def migrating(record: RecoveryRecord, app_version: AppVersion) -> RecoveryRecord:
    """Its work is being moved to `app_version`: nobody is ordered meanwhile."""
    return replace(
        record,
        state=RecoveryState.MIGRATING,
        claimed_by=None,
        next_attempt_at=None,
        failures=0,
        reason=f"its work is being moved to version {app_version}",
    )


def migrated(record: RecoveryRecord, *, now: datetime) -> RecoveryRecord:
    """What could be moved was: due at once, to see what is left."""
    return replace(record, state=RecoveryState.READY, next_attempt_at=now, reason=None)


def orphaned(record: RecoveryRecord, *, now: datetime) -> RecoveryRecord:
    """
    Its attempt ended without a word, with the process or in an error.

    The order, if there was one, may have been carried out: the deadline stays, and the
    next attempt starts with the question like every other.
    """
    free = replace(record, claimed_by=None)
    if record.state is not RecoveryState.ORDERED:
        return free
    after = replace(free, reason="the attempt ended while its order was out")
    if record.suspect_ids:
        return _spaced(after, now=now)
    return replace(after, state=RecoveryState.BACKOFF, next_attempt_at=now)


def _spaced(record: RecoveryRecord, *, now: datetime) -> RecoveryRecord:
    """A braked row after an order, whatever became of that."""
    return replace(
        record,
        state=RecoveryState.BRAKED,
        next_attempt_at=now + brake.spacing(record.brake_level),
        failures=0,
    )


def _closed(
    record: RecoveryRecord, state: RecoveryState, *, now: datetime
) -> RecoveryRecord:
    return replace(
        record,
        state=state,
        claimed_by=None,
        next_attempt_at=None,
        order_deadline=None,
        closed_at=now,
    )
