"""
Why workflows do not move, and which versions may be retired: under `/relay/v1`.

The codes are those of `relay.diagnosis`; they are stable.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.diagnosis import Code, Diagnosed, VersionStanding
from relay.diagnosis.drain import VersionWork
from relay.liveness.states import ExecutorStatus
from relay.registry import Actor
from relay_api.answers import Properties, answer_object, dump
from relay_api.dependencies import (
    ApplicationName,
    ServerHere,
    WorkflowId,
    reads_application,
)
from relay_api.paging import DEFAULT_LIMIT, Limit, Passed
from relay_api.shapes import Answer, Instant, format_instant
from relay_api.waiting import while_connected

router = APIRouter(prefix="/relay/v1/orgs/{orgName}/apps/{appName}")

Reader = Annotated[Actor, reads_application(Permission.APPLICATION_READ)]


class WorkflowDiagnosis(Answer):
    """
    A workflow and why it does not move, for people (`sentence`) and machines (`code`).

    - `finished`: it has ended. `running`: its executor is connected and answers.
    - `owner_unresponsive`: its executor is connected and silent.
      `owner_disconnected`: its executor may come back until `deadAfter`.
      `owner_other_version`: its executor has another version now. `owner_unknown`: it
      has no executor, or one that Relay has never seen.
    - `recovery_scheduled`, `recovery_waiting` (for an executor to take over),
      `recovery_ordered`, `recovery_braked` (the details name the suspects),
      `recovery_stranded` (no executor of its version), `recovery_migrating`: its
      executor is dead, and its recovery stands so. `recovery_ended`: it is over, and
      the workflow is pending all the same. `recovery_abandoned`: an operator gave up.
    - `version_absent`: enqueued, and no executor of its version is connected.
      `delayed`: until `until`. `queue_full`: a limit (`limit`: `global`, `worker` or
      `partition`) is reached. `rate_limited`: until `until`. `queue_waiting`: `ahead`
      older ones go first.
    - `unknown`: the sentence says why.

    `details` holds the facts by name, those that are known; `unknown` in it lists what
    could not be found out. `since` is when it began to be so, or null.
    """

    workflow_id: str
    workflow_name: str | None
    status: str
    created_at: Instant
    app_version: str | None
    executor_id: str | None
    queue_name: str | None
    code: Code
    sentence: str
    since: Instant | None
    details: dict[str, Any]


class Attention(Answer):
    """
    Unfinished workflows that do not move, oldest first.

    `scanned` of them were looked at for this page, of which `moving` run in an executor
    that answers; the rest are the `items`. `nextOffset` is the offset of the next page,
    null after the last one. What ends or begins meanwhile moves the pages.
    """

    items: list[WorkflowDiagnosis]
    scanned: int
    moving: int
    next_offset: int | None


class ExecutorCounts(Answer):
    """The executors of a version, by status."""

    healthy: int
    disconnected: int
    dead: int


class VersionState(Answer):
    """
    A version, what is left of its work, and whether its executors may be stopped.

    `pending`, `enqueued` and `delayed` are null when no executor could count, and
    `isLatest` when none could say. `lastSeenAt` is the last sign of life of any of its
    executors, null if Relay remembers none. `safeToRetire` is true only if all of it is
    known; `reason` says why it is, or why not.
    """

    app_version: str
    executors: ExecutorCounts
    pending: int | None
    enqueued: int | None
    delayed: int | None
    last_seen_at: Instant | None
    is_latest: bool | None
    safe_to_retire: bool
    reason: str


class VersionDrainage(Answer):
    """
    The versions of an application, by name.

    `unversioned` counts the unfinished workflows that have no version: they go to the
    latest one.
    """

    latest_version: str | None
    unversioned: int | None
    versions: list[VersionState]


@router.get(
    "/workflows/{workflowId}/diagnosis",
    operation_id="diagnoseWorkflow",
    response_model=WorkflowDiagnosis,
)
async def diagnose_workflow(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
) -> Response:
    """Why one workflow does not move."""
    diagnosed = await while_connected(
        request, server.diagnosis.explain(name, workflow_id)
    )
    return await answer_object(server.clock, _to_diagnosis(diagnosed))


@router.get("/attention", operation_id="getAttention", response_model=Attention)
async def get_attention(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    limit: Limit = DEFAULT_LIMIT,
    offset: Passed = 0,
) -> Response:
    """The workflows that do not move, of the next `limit` that are unfinished."""
    page = await while_connected(
        request,
        server.diagnosis.list_attention(name, limit=limit, offset=offset),
    )
    return await answer_object(
        server.clock,
        {
            "items": [_to_diagnosis(diagnosed) for diagnosed in page.items],
            "scanned": page.scanned,
            "moving": page.moving,
            "nextOffset": page.next_offset,
        },
    )


@router.get("/versions", operation_id="getVersionDrain", response_model=VersionDrainage)
async def get_version_drain(
    request: Request, _: Reader, server: ServerHere, name: ApplicationName
) -> Response:
    """Each version: its executors, what is left of its work, and may it be retired."""
    drain = await while_connected(request, server.diagnosis.drain(name))
    left = drain.unversioned
    drainage = VersionDrainage(
        latest_version=drain.latest,
        unversioned=None if left is None else left.total,
        versions=[_to_version(standing) for standing in drain.versions],
    )
    return await answer_object(server.clock, dump(drainage))


def _to_diagnosis(diagnosed: Diagnosed) -> Properties:
    row, finding = diagnosed.workflow, diagnosed.finding
    return dump(
        WorkflowDiagnosis(
            workflow_id=row.workflow_id,
            workflow_name=row.workflow_name,
            status=row.status,
            created_at=row.created_at,
            app_version=row.app_version,
            executor_id=row.executor_id,
            queue_name=row.queue_name,
            code=finding.code,
            sentence=finding.sentence,
            since=finding.since,
            details=_plain(finding.details),
        )
    )


def _plain(details: Mapping[str, object]) -> dict[str, object]:
    return {
        name: format_instant(value) if isinstance(value, datetime) else value
        for name, value in details.items()
    }


def _to_version(standing: VersionStanding) -> VersionState:
    statuses = standing.crew.by_status
    work: VersionWork | None = standing.work
    return VersionState(
        app_version=standing.version,
        executors=ExecutorCounts(
            healthy=statuses.get(ExecutorStatus.HEALTHY, 0),
            disconnected=statuses.get(ExecutorStatus.DISCONNECTED, 0),
            dead=statuses.get(ExecutorStatus.DEAD, 0),
        ),
        pending=None if work is None else work.pending,
        enqueued=None if work is None else work.enqueued,
        delayed=None if work is None else work.delayed,
        last_seen_at=standing.crew.last_seen_at,
        is_latest=standing.is_latest,
        safe_to_retire=standing.is_safe,
        reason=standing.reason,
    )
