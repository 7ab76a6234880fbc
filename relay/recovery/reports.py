"""What is told of a recovery: entries of the audit log, and alarms."""

from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from relay.audit import engine_entry
from relay.records import (
    AuditEntry,
    AuditStatus,
    RecoveryRecord,
    RecoveryState,
)
from relay.recovery.policy import BackOff, Finish, Hold, Rest, Strand

logger = structlog.get_logger(__name__)

_SHOWN_IDS: Final = 10
"""Workflow ids in an audit entry; the row holds up to a hundred."""


def entry_of(
    operation: str,
    record: RecoveryRecord,
    status: AuditStatus,
    *,
    now: datetime,
    **details: object,
) -> AuditEntry:
    """
    An entry with the facts of the row as it is now.

    Args:
        details: more facts; what is `None` is left out.
    """
    facts = {
        "app_version": record.app_version,
        "state": record.state.value,
        "attempt": record.attempts,
        "target": record.target,
        "pending_count": record.pending_count,
        "pending_ids": list(record.pending_ids[:_SHOWN_IDS]),
        "elapsed_seconds": round((now - record.opened_at).total_seconds(), 3),
        **details,
    }
    entry = engine_entry(
        operation, record.executor, status=status, recovery_id=record.id
    )
    known = {name: value for name, value in facts.items() if value is not None}
    return replace(entry, details={**entry.details, **known})


def entry_of_end(
    record: RecoveryRecord, finish: Finish, *, now: datetime
) -> AuditEntry:
    """What is told of a row that is DONE."""
    return entry_of(
        "recovery.verify",
        record,
        AuditStatus.SUCCESS if finish.is_verified else AuditStatus.FAILURE,
        now=now,
        is_verified=finish.is_verified,
        reason=record.reason,
    )


def find_entry_of_rest(
    before: RecoveryRecord, after: RecoveryRecord, rest: Rest, *, now: datetime
) -> AuditEntry | None:
    """What is told of a row that comes to rest; `None` when that is no news."""
    was_ordered = before.state is RecoveryState.ORDERED
    match rest:
        case Strand():
            if before.state is RecoveryState.STRANDED:
                return None
            operation, status = "recovery.strand", AuditStatus.FAILURE
        case Hold():
            if not was_ordered:
                return None
            operation, status = "recovery.release", AuditStatus.SUCCESS
        case _:
            # A question that fails for an hour is told once.
            is_new = isinstance(rest, BackOff) and rest.reason != before.reason
            if not was_ordered and not is_new:
                return None
            operation, status = "recovery.fail", AuditStatus.FAILURE
    return entry_of(operation, after, status, now=now, reason=rest.reason)


def raise_alarm(event: str, record: RecoveryRecord) -> None:
    """One ERROR a row that will not go on by itself."""
    application = record.executor.application
    logger.error(
        event,
        organization=application.organization,
        application=application.name,
        executor_id=record.executor.executor_id,
        app_version=record.app_version,
        recovery_id=record.id,
        pending_count=record.pending_count,
        reason=record.reason,
    )
