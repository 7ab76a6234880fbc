"""The audit log, in the contract's form and in the older one of `/v1alpha1`."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from relay.access import Permission
from relay.records import AuditRecord, AuditStatus
from relay.registry import Actor, AuditQuery
from relay_api.dependencies import ServerHere, reads_organization
from relay_api.paging import DEFAULT_LIMIT, ContractLimit, Offset, check_limit
from relay_api.shapes import Answer, Instant, InstantText

router = APIRouter()


class AuditSubject(Answer):
    """Who did it."""

    type: str
    id: str
    display: str


class AuditTarget(Answer):
    """What it was done to."""

    type: str
    id: str


class AuditLogEntry(Answer):
    """One thing that was done, refused or failed."""

    id: str
    emit_time: Instant
    operation: str
    status: AuditStatus
    subject: AuditSubject
    target: AuditTarget | None = None
    source_ip: str
    details: dict[str, Any] | None


class OldAuditLogEntry(BaseModel):
    """The same, in snake case and without empty details."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    emit_time: Instant
    operation: str
    status: AuditStatus
    subject: AuditSubject
    target: AuditTarget | None = None
    source_ip: str
    details: dict[str, Any] | None = None


class OldAuditLogPage(BaseModel):
    """A page of the older form."""

    entries: list[OldAuditLogEntry]


@router.get(
    "/v2/orgs/{orgName}/audit-logs",
    operation_id="listAuditLogs",
    response_model_exclude_unset=True,
)
async def list_audit_logs(
    _: Annotated[Actor, reads_organization(Permission.ORGANIZATION_READ)],
    server: ServerHere,
    start_time: Annotated[InstantText | None, Query(alias="startTime")] = None,
    end_time: Annotated[InstantText | None, Query(alias="endTime")] = None,
    operation: str | None = None,
    subject: str | None = None,
    target: str | None = None,
    limit: ContractLimit = DEFAULT_LIMIT,
    offset: Offset = 0,
) -> list[AuditLogEntry]:
    """The entries that match all filters, newest first; a blank filter is none."""
    records = await server.registry.list_audit(
        AuditQuery(
            start=start_time,
            end=end_time,
            operation=operation or None,
            subject=subject or None,
            target=target or None,
            limit=check_limit(limit),
            offset=offset,
        )
    )
    return [AuditLogEntry(**_to_fields(record)) for record in records]


@router.get(
    "/v1alpha1/api/{orgName}/audit-logs",
    operation_id="listAuditLogsV1alpha1",
    response_model_exclude_unset=True,
)
async def list_old_audit_logs(
    _: Annotated[Actor, reads_organization(Permission.ORGANIZATION_READ)],
    server: ServerHere,
    start: InstantText | None = None,
    end: InstantText | None = None,
    operation: str | None = None,
    subject: str | None = None,
    target: str | None = None,
    page_size: ContractLimit = DEFAULT_LIMIT,
    offset: Offset = 0,
) -> OldAuditLogPage:
    """The same log in the form that older clients know."""
    records = await server.registry.list_audit(
        AuditQuery(
            start=start,
            end=end,
            operation=operation or None,
            subject=subject or None,
            target=target or None,
            limit=check_limit(page_size),
            offset=offset,
        )
    )
    return OldAuditLogPage(entries=[_to_old_entry(record) for record in records])


def _to_old_entry(record: AuditRecord) -> OldAuditLogEntry:
    fields = _to_fields(record)
    if not fields["details"]:
        del fields["details"]
    return OldAuditLogEntry(**fields)


def _to_fields(record: AuditRecord) -> dict[str, Any]:
    """The properties both forms have; `target` is left out when there is none."""
    entry = record.entry
    fields: dict[str, Any] = {
        "id": record.id,
        "emit_time": record.emitted_at,
        "operation": entry.operation,
        "status": entry.status,
        "subject": AuditSubject(
            type=entry.subject.kind, id=entry.subject.id, display=entry.subject.display
        ),
        "source_ip": entry.source_ip,
        "details": dict(entry.details) or None,
    }
    if entry.target is not None:
        fields["target"] = AuditTarget(type=entry.target.kind, id=entry.target.id)
    return fields
