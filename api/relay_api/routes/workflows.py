"""Reading workflows: `/v2/orgs/{orgName}/apps/{appName}/workflows`."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.operations import Listing
from relay.protocol.workflows import (
    EventRow,
    NotificationRow,
    StepRow,
    StreamRow,
    WorkflowFilter,
    WorkflowRow,
)
from relay.registry import Actor
from relay_api.answers import Mirror, answer_list, answer_object, dump
from relay_api.bodies import json_body
from relay_api.dependencies import (
    ApplicationName,
    ServerHere,
    WorkflowId,
    reads_application,
)
from relay_api.matching import WorkflowMatching, to_filter
from relay_api.paging import Passed
from relay_api.shapes import (
    Answer,
    Count,
    Flag,
    Instant,
    schema_address,
    schema_property,
)
from relay_api.waiting import while_connected

router = APIRouter(prefix="/v2/orgs/{orgName}/apps/{appName}/workflows")

Reader = Annotated[Actor, reads_application(Permission.APPLICATION_READ)]


class Workflow(Answer):
    """
    A workflow.

    What it was given and what it returned is text for people, in the style of its
    language; so are `roles` and `attributes`.
    """

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    workflow_id: str
    status: str
    workflow_name: str | None
    workflow_class: str | None
    workflow_config: str | None
    user: str | None
    assumed_role: str | None
    roles: str | None
    input: str | None
    output: str | None
    error: str | None
    created_at: Instant
    updated_at: Instant
    queue_name: str | None
    app_version: str | None
    executor_id: str | None
    timeout_ms: int | None
    deadline: Instant | None
    deduplication_id: str | None
    priority: int
    queue_partition_key: str | None
    forked_from: str | None
    was_forked_from: bool
    parent_workflow_id: str | None
    dequeued_at: Instant | None
    delay_until: Instant | None
    completed_at: Instant | None
    attributes: str | None
    schedule_name: str | None
    application_name: str | None


class Step(Answer):
    """A step that has ended."""

    step_id: int
    step_name: str
    output: str | None
    error: str | None
    child_workflow_id: str | None
    started_at: Instant | None
    completed_at: Instant | None


class Event(Answer):
    """The current value of an event."""

    key: str
    value: str


class Notification(Answer):
    """A message that was sent to a workflow."""

    topic: str | None
    message: str
    created_at: Instant
    consumed: bool


class StreamEntry(Answer):
    """A stream and its values in order."""

    key: str
    values: list[str]


class ExportWorkflowOutputBody(Answer):
    """A workflow that an application in the same language can import."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    serialized_workflow: str


class WorkflowSearchBody(WorkflowMatching):
    """Which workflows, in which order, and how much of each; 0 is no limit."""

    limit: Count = 0
    offset: Count = 0
    sort_desc: bool = False
    queues_only: bool = False
    load_input: bool = False
    load_output: bool = False


_WORKFLOW = Mirror(Workflow, WorkflowRow)
_STEP = Mirror(Step, StepRow)
_EVENT = Mirror(Event, EventRow)
_NOTIFICATION = Mirror(Notification, NotificationRow)
_STREAM = Mirror(StreamEntry, StreamRow)


@router.get("", operation_id="listWorkflows", response_model=list[Workflow])
async def list_workflows(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    status: str = "",
    workflow_name: Annotated[str, Query(alias="workflowName")] = "",
    limit: Passed = 0,
    offset: Passed = 0,
    sort_desc: Annotated[Flag, Query(alias="sortDesc")] = False,
    load_input: Annotated[Flag, Query(alias="loadInput")] = False,
    load_output: Annotated[Flag, Query(alias="loadOutput")] = False,
) -> Response:
    """The workflows that match, by age; a blank filter is none, and 0 no limit."""
    listing = Listing(
        limit=limit or None,
        offset=offset or None,
        newest_first=sort_desc,
        load_input=load_input,
        load_output=load_output,
    )
    matching = WorkflowFilter(status=(status,), workflow_name=(workflow_name,))
    rows = await while_connected(
        request, server.operations.workflows.search(name, matching, listing)
    )
    return await answer_list(server.clock, rows, _WORKFLOW)


@router.post("/search", operation_id="searchWorkflows", response_model=list[Workflow])
async def search_workflows(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[WorkflowSearchBody, json_body(WorkflowSearchBody, required=False)],
) -> Response:
    """The workflows that match, by age: all of them, unless there is a limit."""
    listing = Listing(
        limit=body.limit or None,
        offset=body.offset or None,
        newest_first=body.sort_desc,
        queues_only=body.queues_only,
        load_input=body.load_input,
        load_output=body.load_output,
    )
    rows = await while_connected(
        request, server.operations.workflows.search(name, to_filter(body), listing)
    )
    return await answer_list(server.clock, rows, _WORKFLOW)


@router.get("/{workflowId}", operation_id="getWorkflow", response_model=Workflow)
async def get_workflow(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
) -> Response:
    """One workflow with what it was given and what it returned."""
    row = await while_connected(
        request, server.operations.workflows.get(name, workflow_id)
    )
    address = schema_property(server.settings, "Workflow")
    return await answer_object(server.clock, {**address, **_WORKFLOW(row)})


@router.get(
    "/{workflowId}/steps", operation_id="listWorkflowSteps", response_model=list[Step]
)
async def list_steps(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
    limit: Passed = 0,
    offset: Passed = 0,
) -> Response:
    """The steps that have ended, by number; 0 is no limit."""
    rows = await while_connected(
        request,
        server.operations.workflows.list_steps(
            name, workflow_id, limit=limit or None, offset=offset or None
        ),
    )
    return await answer_list(server.clock, rows, _STEP)


@router.get(
    "/{workflowId}/events",
    operation_id="listWorkflowEvents",
    response_model=list[Event],
)
async def list_events(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
) -> Response:
    """The events that the workflow has set."""
    rows = await while_connected(
        request, server.operations.workflows.list_events(name, workflow_id)
    )
    return await answer_list(server.clock, rows, _EVENT)


@router.get(
    "/{workflowId}/notifications",
    operation_id="listWorkflowNotifications",
    response_model=list[Notification],
)
async def list_notifications(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
) -> Response:
    """The messages that were sent to the workflow."""
    rows = await while_connected(
        request, server.operations.workflows.list_notifications(name, workflow_id)
    )
    return await answer_list(server.clock, rows, _NOTIFICATION)


@router.get(
    "/{workflowId}/streams",
    operation_id="listWorkflowStreams",
    response_model=list[StreamEntry],
)
async def list_streams(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
) -> Response:
    """What the workflow has written to its streams."""
    rows = await while_connected(
        request, server.operations.workflows.list_streams(name, workflow_id)
    )
    return await answer_list(server.clock, rows, _STREAM)


@router.get(
    "/{workflowId}/export",
    operation_id="exportWorkflow",
    response_model=ExportWorkflowOutputBody,
)
async def export_workflow(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
    export_children: Annotated[Flag, Query(alias="exportChildren")] = False,
) -> Response:
    """The workflow as text that only applications in its language understand."""
    text = await while_connected(
        request,
        server.operations.workflows.export(
            name, workflow_id, with_children=export_children
        ),
    )
    address = schema_address(server.settings, "ExportWorkflowOutputBody")
    exported = ExportWorkflowOutputBody(serialized_workflow=text, **address)
    return await answer_object(server.clock, dump(exported))
