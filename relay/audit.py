"""
The one writer of the audit log.

Whoever changes something records it here, in the transaction that changes it: there is
no change without its entry and no entry of a change that was undone. What is recorded
is first made safe to store and to show: keys are masked, and values become JSON. Once
the transaction has committed, each entry is counted and written to the log, once.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from math import isfinite

import structlog

from relay.ids import ApplicationRef, ExecutorRef, RecoveryId
from relay.records import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditStatus,
    application_target,
)
from relay.store import UnitOfWork
from relay.telemetry import Metrics, mask

logger = structlog.get_logger(__name__)


class AuditWriter:
    """Records what happened, for every room that makes something happen."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def record(self, work: UnitOfWork, *entries: AuditEntry) -> None:
        """
        Add entries to the transaction of `work`, in this order.

        Raises:
            NotFoundError: an entry names an organization that does not exist.
            StoreUnavailableError: the database is gone, and the transaction with it.
            TypeError: details hold something that JSON has no form for.
        """
        if not entries:
            return
        safe = [_make_safe(entry) for entry in entries]
        await work.audit.append(safe)
        work.after_commit(lambda: self._tell(safe))

    def _tell(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            self._metrics.audit_entries.labels(
                entry.operation, entry.status.value
            ).inc()
            is_success = entry.status is AuditStatus.SUCCESS
            (logger.info if is_success else logger.warning)(
                "audit_recorded",
                operation=entry.operation,
                status=entry.status.value,
                organization=entry.organization,
                subject=entry.subject.display,
                target=entry.target.id if entry.target else None,
                source_ip=entry.source_ip,
                recovery_id=entry.recovery_id,
                details=entry.details,
            )


def engine_entry(
    operation: str,
    ref: ExecutorRef | ApplicationRef,
    *,
    status: AuditStatus = AuditStatus.SUCCESS,
    source_ip: str = "",
    recovery_id: RecoveryId | None = None,
    **details: object,
) -> AuditEntry:
    """
    An entry of something Relay did by itself to an application or its executor.

    Args:
        source_ip: the address of the executor, where one is involved.
        recovery_id: the recovery this is a part of.
        details: more facts, beside the names of the application and the executor.
    """
    names: dict[str, object] = {}
    if isinstance(ref, ExecutorRef):
        names["executor_id"] = ref.executor_id
        ref = ref.application
    return AuditEntry(
        organization=ref.organization,
        operation=operation,
        status=status,
        subject=RELAY_SUBJECT,
        target=application_target(ref.name),
        source_ip=source_ip,
        details={"application_name": ref.name, **names, **details},
        recovery_id=recovery_id,
    )


def _make_safe(entry: AuditEntry) -> AuditEntry:
    subject = replace(
        entry.subject,
        id=_to_text(entry.subject.id),
        display=_to_text(entry.subject.display),
    )
    target = entry.target and replace(entry.target, id=_to_text(entry.target.id))
    return replace(
        entry,
        subject=subject,
        target=target,
        source_ip=_to_text(entry.source_ip),
        details={
            _to_text(name): _to_json(value) for name, value in entry.details.items()
        },
    )


def _to_text(text: str) -> str:
    # PostgreSQL stores no NUL, and half of a surrogate pair has no UTF-8.
    return mask(text.replace("\0", "")).encode(errors="replace").decode()


def _to_json(value: object) -> object:
    match value:
        case Enum():
            return _to_json(value.value)
        case None | bool() | int():
            return value
        case float():
            return value if isfinite(value) else str(value)
        case str():
            return _to_text(value)
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {_to_text(str(name)): _to_json(part) for name, part in value.items()}
        case AbstractSet():
            return sorted((_to_json(part) for part in value), key=str)
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [_to_json(part) for part in value]
        case _:
            raise TypeError(f"{type(value).__name__} has no place in an audit entry")
