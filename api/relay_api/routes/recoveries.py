"""Recoveries: `/relay/v1/orgs/{orgName}/apps/{appName}/recoveries`."""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.ids import ApplicationRef, AppVersion, ExecutorId, RecoveryId
from relay.records import AuditRecord, AuditStatus, RecoveryRecord, RecoveryState
from relay.recovery import RecoveryStory, Suspect
from relay.recovery.ledger import IDENTITY_LIMIT_CHARS, REASON_LIMIT_CHARS
from relay.registry import Actor
from relay.server import Server
from relay_api.bodies import describe_body, json_body
from relay_api.dependencies import (
    ApplicationName,
    RecoveryPathId,
    ServerHere,
    changes_application,
    reads_application,
)
from relay_api.paging import DEFAULT_LIMIT, Limit, Offset
from relay_api.shapes import Answer, Instant, Order

router = APIRouter(prefix="/relay/v1/orgs/{orgName}/apps/{appName}/recoveries")


class SuspectWorkflow(Answer):
    """
    A pending workflow that seems to kill its executors.

    `losses` is how many of them were lost in a row while it was pending in them. All
    but the id is null once nothing has been lost for a day.
    """

    workflow_id: str
    name: str | None
    losses: int | None
    last_lost_at: Instant | None


class Recovery(Answer):
    """
    One death of one executor, and where its recovery stands.

    `lostAt` is when its last connection ended, a grace period before its death; null
    for a recovery that was ordered by hand. `pendingCount` is what the last question
    found: null before the first one, 101 for "more than 100"; `pendingIds` are the
    first of them. `target` is the executor that was last ordered to take over,
    `acknowledgedAt` when one last said that it had. `verified` is false when no
    connected SDK could tell whether work remains.

    As long as there are `suspects`, the crash brake spaces the orders: one, two, then
    five minutes, by `brakeLevel` 0, 1, 2 and above.
    """

    id: str
    executor_id: str
    app_version: str
    state: RecoveryState
    lost_at: Instant | None
    opened_at: Instant
    updated_at: Instant
    closed_at: Instant | None
    next_attempt_at: Instant | None
    attempts: int
    target: str | None
    ordered_at: Instant | None
    order_deadline: Instant | None
    acknowledged_at: Instant | None
    pending_count: int | None
    pending_ids: list[str]
    suspects: list[SuspectWorkflow]
    brake_level: int
    tried_versions: list[str]
    reason: str | None
    verified: bool | None


class Happening(Answer):
    """One entry of a recovery's story."""

    time: Instant
    operation: str
    status: AuditStatus
    subject: str
    details: dict[str, Any]


class RecoveryDetail(Recovery):
    """A recovery with everything that happened, oldest first."""

    story: list[Happening]


def _text(longest_chars: int) -> Any:
    """Says of a text in the documents what the ledger checks: it is not blank."""
    return Field(json_schema_extra={"pattern": r"\S", "maxLength": longest_chars})


VersionText = Annotated[str, _text(IDENTITY_LIMIT_CHARS)]
"""An application version in an order."""


class RecoveryOrder(Order):
    """Whose work to recover."""

    executor_id: Annotated[str, _text(IDENTITY_LIMIT_CHARS)]
    app_version: VersionText


class Abandonment(Order):
    """Why nobody is to finish the work."""

    reason: Annotated[str, _text(REASON_LIMIT_CHARS)]


_FOLLOWED_BY = {
    operation: {
        "operationId": operation,
        "parameters": {
            "orgName": "$request.path.orgName",
            "appName": "$request.path.appName",
            "recoveryId": "$response.body#/id",
        },
    }
    for operation in (
        "getRecovery",
        "retryRecovery",
        "abandonRecovery",
        "migrateRecovery",
        "getMigration",
    )
}
"""The links of an answer that is a recovery."""


@router.get("", operation_id="listRecoveries")
async def list_recoveries(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
    state: Annotated[list[RecoveryState] | None, Query()] = None,
    limit: Limit = DEFAULT_LIMIT,
    offset: Offset = 0,
) -> list[Recovery]:
    """The recoveries of an application, newest first; `state` may be repeated."""
    records = await server.ledger.list_recoveries(
        await _application(server, name),
        states=frozenset(state) if state else None,
        limit=limit,
        offset=offset,
    )
    return await _show(server, *records)


@router.post(
    "",
    operation_id="orderRecovery",
    status_code=201,
    responses={201: {"links": _FOLLOWED_BY}},
    openapi_extra=describe_body(RecoveryOrder),
)
async def order_recovery(
    request: Request,
    response: Response,
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "recovery.request")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[RecoveryOrder, json_body(RecoveryOrder)],
) -> Recovery:
    """
    Have the work of an executor recovered that no death has put into the ledger.

    For executors that Relay never saw or has forgotten, and for those whose recovery
    was abandoned.
    """
    record = await server.ledger.order(
        await _application(server, name),
        ExecutorId(body.executor_id),
        AppVersion(body.app_version),
        by=caller.subject,
        source_ip=caller.source_ip,
    )
    response.headers["Location"] = f"{request.url.path}/{quote(record.id, safe='')}"
    [recovery] = await _show(server, record)
    return recovery


@router.get(
    "/{recoveryId}",
    operation_id="getRecovery",
    responses={200: {"links": _FOLLOWED_BY}},
)
async def get_recovery(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
    recovery_id: RecoveryPathId,
) -> RecoveryDetail:
    """One recovery with its whole story."""
    story = await server.ledger.get(
        RecoveryId(recovery_id), application=await _application(server, name)
    )
    return _to_detail(story)


@router.post(
    "/{recoveryId}/retry",
    operation_id="retryRecovery",
    responses={200: {"links": _FOLLOWED_BY}},
)
async def retry_recovery(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "recovery.release")
    ],
    server: ServerHere,
    name: ApplicationName,
    recovery_id: RecoveryPathId,
) -> Recovery:
    """Make an open recovery due now, whatever it waits for."""
    record = await server.ledger.retry(
        RecoveryId(recovery_id),
        by=caller.subject,
        source_ip=caller.source_ip,
        application=await _application(server, name),
    )
    [recovery] = await _show(server, record)
    return recovery


@router.post(
    "/{recoveryId}/abandon",
    operation_id="abandonRecovery",
    responses={200: {"links": _FOLLOWED_BY}},
    openapi_extra=describe_body(Abandonment),
)
async def abandon_recovery(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "recovery.abandon")
    ],
    server: ServerHere,
    name: ApplicationName,
    recovery_id: RecoveryPathId,
    body: Annotated[Abandonment, json_body(Abandonment)],
) -> Recovery:
    """Close an open recovery for good; its work stays where it is."""
    record = await server.ledger.abandon(
        RecoveryId(recovery_id),
        body.reason,
        by=caller.subject,
        source_ip=caller.source_ip,
        application=await _application(server, name),
    )
    [recovery] = await _show(server, record)
    return recovery


async def _show(server: Server, *records: RecoveryRecord) -> list[Recovery]:
    suspects = await server.ledger.find_suspects(records)
    return [Recovery(**_to_fields(record, suspects[record.id])) for record in records]


async def _application(server: Server, name: str) -> ApplicationRef:
    view = await server.registry.applications.get(name)
    return view.record.ref


def _to_detail(story: RecoveryStory) -> RecoveryDetail:
    return RecoveryDetail(
        **_to_fields(story.record, story.suspects),
        story=[_to_happening(record) for record in story.entries],
    )


def _to_happening(record: AuditRecord) -> Happening:
    entry = record.entry
    return Happening(
        time=record.emitted_at,
        operation=entry.operation,
        status=entry.status,
        subject=entry.subject.display,
        details=dict(entry.details),
    )


def _to_fields(record: RecoveryRecord, suspects: Sequence[Suspect]) -> dict[str, Any]:
    return {
        "id": record.id,
        "executor_id": record.executor.executor_id,
        "app_version": record.app_version,
        "state": record.state,
        "lost_at": record.lost_at,
        "opened_at": record.opened_at,
        "updated_at": record.updated_at,
        "closed_at": record.closed_at,
        "next_attempt_at": record.next_attempt_at,
        "attempts": record.attempts,
        "target": record.target,
        "ordered_at": record.ordered_at,
        "order_deadline": record.order_deadline,
        "acknowledged_at": record.acknowledged_at,
        "pending_count": record.pending_count,
        "pending_ids": list(record.pending_ids),
        "suspects": [_to_suspect(suspect) for suspect in suspects],
        "brake_level": record.brake_level,
        "tried_versions": list(record.tried_versions),
        "reason": record.reason,
        "verified": record.is_verified,
    }


def _to_suspect(suspect: Suspect) -> SuspectWorkflow:
    return SuspectWorkflow(
        workflow_id=suspect.workflow_id,
        name=suspect.name,
        losses=suspect.losses,
        last_lost_at=suspect.last_lost_at,
    )
