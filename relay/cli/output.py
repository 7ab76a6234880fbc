"""
How commands print: aligned columns for people, one JSON object a line for programs.

The objects have the names of REST, so that a script may read either.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import typer

from relay.census import CensusReport
from relay.records import (
    AuditEntry,
    AuditRecord,
    KeyRecord,
    RecoveryRecord,
    application_target,
)
from relay.recovery import Suspect
from relay.recovery.inquiry import LISTING_LIMIT
from relay.telemetry import show_controls


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their widest cell; the header alone when there are no rows."""
    lines = [
        tuple(header),
        *(tuple(show_controls(cell) for cell in row) for row in rows),
    ]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def print_object(value: Mapping[str, Any]) -> None:
    """One line, so that a list is one object a line."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def show_instant(instant: datetime | None) -> str:
    """To the second, in UTC; `-` for never."""
    return "-" if instant is None else f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def audit_line(record: AuditRecord) -> str:
    """An audit entry as one line."""
    entry = record.entry
    words = [
        show_instant(record.emitted_at),
        f"{entry.operation:<20}",
        f"{entry.status.value:<7}",
        entry.subject.display,
    ]
    if entry.target is not None:
        words.append(f"{entry.target.kind}={entry.target.id}")
    if entry.source_ip:
        words.append(f"from={entry.source_ip}")
    words.extend(
        f"{key}={_show(value)}"
        for key, value in entry.details.items()
        if not _repeats_target(entry, key)
    )
    return show_controls("  ".join(words))


def audit_object(record: AuditRecord) -> Mapping[str, Any]:
    """An audit entry."""
    entry = record.entry
    shown = {
        "id": record.id,
        "emitTime": _instant(record.emitted_at),
        "operation": entry.operation,
        "status": entry.status.value,
        "subject": {
            "type": entry.subject.kind,
            "id": entry.subject.id,
            "display": entry.subject.display,
        },
        "sourceIp": entry.source_ip,
        "details": dict(entry.details),
    }
    if entry.target is not None:
        shown["target"] = {"type": entry.target.kind, "id": entry.target.id}
    return shown


def key_object(
    record: KeyRecord, applications: Sequence[str] | None
) -> Mapping[str, Any]:
    """A key without its secret; `applications` is `None` for all of them."""
    return {
        "name": record.name,
        "createdAt": _instant(record.created_at),
        "lastUsedAt": _instant(record.last_used_at),
        "permissions": sorted(record.permissions),
        "applications": applications,
    }


def census_object(report: CensusReport) -> Mapping[str, Any]:
    """The last count of an application's pending work."""
    taken, dispute = report.census, report.dispute
    return {
        "application": report.application.name,
        "takenAt": _instant(taken.taken_at) if taken else None,
        "answeredBy": taken.answered_by if taken else None,
        "pendingCount": taken.pending_count if taken else None,
        "complete": taken.is_complete if taken else None,
        "owners": [
            {
                "executorId": record.owner.executor_id,
                "appVersion": record.owner.app_version,
                "kind": record.kind.value,
                "pendingCount": record.pending_count,
                "firstSeenAt": _instant(record.first_seen_at),
                "lastSeenAt": _instant(record.last_seen_at),
            }
            for record in report.owners
        ],
        "reopened": [
            {
                "executorId": record.executor.executor_id,
                "appVersion": record.app_version,
                "deletedAt": _instant(record.deleted_at),
                "reopenedAt": _instant(record.reopened_at),
            }
            for record in report.reopened
        ],
        "dispute": {
            "since": _instant(dispute.since),
            "sides": [sorted(side.executor_ids) for side in dispute.sides],
        }
        if dispute
        else None,
    }


def recovery_object(
    record: RecoveryRecord, suspects: Sequence[Suspect]
) -> Mapping[str, Any]:
    """A recovery, and its suspects of the crash brake."""
    return {
        "id": record.id,
        "application": record.executor.application.name,
        "executorId": record.executor.executor_id,
        "appVersion": record.app_version,
        "state": record.state.value,
        "lostAt": _instant(record.lost_at),
        "openedAt": _instant(record.opened_at),
        "updatedAt": _instant(record.updated_at),
        "closedAt": _instant(record.closed_at),
        "nextAttemptAt": _instant(record.next_attempt_at),
        "attempts": record.attempts,
        "target": record.target,
        "orderedAt": _instant(record.ordered_at),
        "orderDeadline": _instant(record.order_deadline),
        "acknowledgedAt": _instant(record.acknowledged_at),
        "pendingCount": record.pending_count,
        "pendingIds": list(record.pending_ids),
        "suspects": [
            {
                "workflowId": suspect.workflow_id,
                "name": suspect.name,
                "losses": suspect.losses,
                "lastLostAt": _instant(suspect.last_lost_at),
            }
            for suspect in suspects
        ],
        "brakeLevel": record.brake_level,
        "triedVersions": list(record.tried_versions),
        "reason": record.reason,
        "verified": record.is_verified,
    }


def recovery_facts(
    record: RecoveryRecord, suspects: Sequence[Suspect]
) -> Sequence[tuple[str, str]]:
    """A recovery for people: what each fact is called, and the fact in words."""
    return [
        ("recovery", record.id),
        ("application", record.executor.application.name),
        ("executor", record.executor.executor_id),
        ("version", record.app_version),
        ("state", record.state.value),
        ("reason", record.reason or "-"),
        ("next attempt", show_instant(record.next_attempt_at)),
        ("lost", show_instant(record.lost_at)),
        ("opened", show_instant(record.opened_at)),
        ("updated", show_instant(record.updated_at)),
        ("closed", show_instant(record.closed_at)),
        ("orders sent", str(record.attempts)),
        ("last order to", record.target or "-"),
        ("ordered at", show_instant(record.ordered_at)),
        ("answer due", show_instant(record.order_deadline)),
        ("acknowledged", show_instant(record.acknowledged_at)),
        ("pending workflows", show_pending(record)),
        ("their ids", ", ".join(record.pending_ids) or "-"),
        *(("suspect", _show_suspect(suspect)) for suspect in suspects),
        ("other versions tried", ", ".join(record.tried_versions) or "-"),
        ("verified", _show_answer(is_yes=record.is_verified)),
    ]


def show_pending(record: RecoveryRecord) -> str:
    """How many workflows are pending; `-` if nobody could say."""
    if record.pending_count is None:
        return "-"
    if record.pending_count >= LISTING_LIMIT:
        return f"more than {LISTING_LIMIT - 1}"
    return str(record.pending_count)


def _show_suspect(suspect: Suspect) -> str:
    name = f" ({suspect.name})" if suspect.name else ""
    if suspect.losses is None:
        return f"{suspect.workflow_id}{name}"
    return (
        f"{suspect.workflow_id}{name}: {suspect.losses} executors lost in a row, the"
        f" last at {show_instant(suspect.last_lost_at)}"
    )


def _show_answer(*, is_yes: bool | None) -> str:
    if is_yes is None:
        return "-"
    return "yes" if is_yes else "no"


def _repeats_target(entry: AuditEntry, key: str) -> bool:
    return (
        key == "application_name"
        and entry.target is not None
        and entry.target == application_target(entry.details[key])
    )


def _instant(instant: datetime | None) -> str | None:
    if instant is None:
        return None
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _show(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(_show(item) for item in value) or "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text else text
