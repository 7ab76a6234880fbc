"""Executors of an application: as in the contract, and all that Relay knows."""

from typing import Annotated, Any

from fastapi import APIRouter
from starlette.responses import Response

from relay.access import Permission
from relay.liveness.states import ExecutorStatus
from relay.registry import Actor, ExecutorView
from relay_api.answers import Properties, answer_list, dump
from relay_api.dependencies import ApplicationName, ServerHere, reads_application
from relay_api.shapes import Answer, Instant

router = APIRouter()


class Executor(Answer):
    """An executor; `updatedAt` is its last sign of life."""

    executor_id: str
    app_id: str
    app_version: str
    status: ExecutorStatus
    host_id: str | None
    hostname: str | None
    created_at: Instant
    updated_at: Instant
    language: str | None
    dbos_version: str | None
    executor_metadata: dict[str, Any] | None


class ExecutorDetail(Answer):
    """
    An executor with what the contract's closed shape has no room for.

    `since` dates the status, `deadAfter` is when a DISCONNECTED one becomes DEAD.
    `inFlight` counts requests that it has not answered yet. `collision`: several live
    processes use its id. `flapping`: its connection is cut again and again.
    `recoverable` is false for an SDK so old that recovering its workflows may repeat
    finished steps. `warnings` are sentences for people, one for each thing that an
    operator should change.
    """

    executor_id: str
    app_version: str
    status: ExecutorStatus
    since: Instant
    dead_after: Instant | None
    created_at: Instant
    last_seen_at: Instant
    hostname: str | None
    peer_address: str
    language: str | None
    dbos_version: str | None
    in_flight: int
    unresponsive: bool
    collision: bool
    flapping: bool
    recoverable: bool
    warnings: list[str]
    last_error: str | None


@router.get(
    "/v2/orgs/{orgName}/apps/{appName}/executors",
    operation_id="listExecutors",
    response_model=list[Executor],
)
async def list_executors(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> Response:
    """All executors that are not forgotten yet, DEAD ones included, oldest first."""
    views = await server.registry.list_executors(name)
    return await answer_list(server.clock, views, _to_executor)


@router.get(
    "/relay/v1/orgs/{orgName}/apps/{appName}/executors",
    operation_id="listRelayExecutors",
    response_model=list[ExecutorDetail],
)
async def list_executor_details(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> Response:
    """The same executors, with all that Relay knows of them."""
    views = await server.registry.list_executors(name)
    return await answer_list(server.clock, views, _to_detail)


def _to_executor(view: ExecutorView) -> Properties:
    record = view.record
    executor = Executor(
        executor_id=record.ref.executor_id,
        app_id=record.ref.application.id,
        app_version=record.app_version,
        status=record.status,
        host_id=None,
        hostname=record.hostname,
        created_at=record.created_at,
        updated_at=view.last_seen_at,
        language=record.language,
        dbos_version=record.dbos_version,
        executor_metadata=None if record.metadata is None else dict(record.metadata),
    )
    return dump(executor)


def _to_detail(view: ExecutorView) -> Properties:
    record = view.record
    detail = ExecutorDetail(
        executor_id=record.ref.executor_id,
        app_version=record.app_version,
        status=record.status,
        since=record.status_since,
        dead_after=record.dead_after,
        created_at=record.created_at,
        last_seen_at=view.last_seen_at,
        hostname=record.hostname,
        peer_address=record.peer_address,
        language=record.language,
        dbos_version=record.dbos_version,
        in_flight=view.in_flight,
        unresponsive=not view.is_responsive,
        collision=view.is_collision,
        flapping=view.is_flapping,
        recoverable=view.is_safe,
        warnings=list(view.warnings),
        last_error=record.last_error,
    )
    return dump(detail)
