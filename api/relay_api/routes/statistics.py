"""Counting workflows and steps: `/v2/orgs/{orgName}/apps/{appName}/…/aggregates`."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.errors import InvalidInputError
from relay.protocol.statistics import (
    AggregateRow,
    StepAggregateRow,
    StepFilter,
    StepGrouping,
    StepSelection,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.registry import Actor
from relay_api.answers import Properties, answer_list, dump
from relay_api.bodies import json_body
from relay_api.dependencies import ApplicationName, ServerHere, reads_application
from relay_api.matching import WorkflowMatching, to_filter
from relay_api.shapes import (
    SAFE_INT_MAX,
    Answer,
    Instant,
    InstantText,
    NotNull,
    Order,
    Texts,
    WholeNumber,
)
from relay_api.waiting import while_connected

router = APIRouter(prefix="/v2/orgs/{orgName}/apps/{appName}")

Reader = Annotated[Actor, reads_application(Permission.APPLICATION_READ)]
BucketSize = Annotated[WholeNumber, Field(ge=1, le=SAFE_INT_MAX)]


class WorkflowAggregate(Answer):
    """What is known of one group of workflows; what was not asked for is absent."""

    group: dict[str, str | None]
    count: int = 0
    min_created_at: Instant | None = None
    max_queue_wait_ms: int = 0
    max_total_latency_ms: int = 0


class StepAggregate(Answer):
    """What is known of one group of steps; what was not asked for is absent."""

    group: dict[str, str | None]
    count: int = 0
    max_duration_ms: int = 0


class WorkflowAggregatesBody(WorkflowMatching):
    """
    What to count workflows by, what to say of each group, and which workflows.

    A grouping or a bucket is needed; nothing selected means the count.
    """

    group_by_status: bool = False
    group_by_workflow_name: bool = False
    group_by_queue_name: bool = False
    group_by_executor_id: bool = False
    group_by_app_version: bool = False
    group_by_application_name: bool = False
    select_count: bool = False
    select_min_created_at: bool = False
    select_max_queue_wait_ms: bool = False
    select_max_total_latency_ms: bool = False
    time_bucket_size_ms: Annotated[BucketSize | None, NotNull] = None


class StepAggregatesBody(Order):
    """The same for steps, which have fewer properties."""

    group_by_function_name: bool = False
    group_by_status: bool = False
    select_count: bool = False
    select_max_duration_ms: bool = False
    time_bucket_size_ms: Annotated[BucketSize | None, NotNull] = None
    step_name: Annotated[Texts | None, NotNull] = None
    status: Annotated[Texts | None, NotNull] = None
    workflow_id_prefix: Annotated[Texts | None, NotNull] = None
    completed_after: Annotated[InstantText | None, NotNull] = None
    completed_before: Annotated[InstantText | None, NotNull] = None


@router.post(
    "/workflows/aggregates",
    operation_id="getWorkflowAggregates",
    response_model=list[WorkflowAggregate],
)
async def get_workflow_aggregates(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[
        WorkflowAggregatesBody, json_body(WorkflowAggregatesBody, required=False)
    ],
) -> Response:
    """Counts and extremes of the workflows that match, a group each."""
    grouping = WorkflowGrouping(
        by_status=body.group_by_status,
        by_workflow_name=body.group_by_workflow_name,
        by_queue_name=body.group_by_queue_name,
        by_executor_id=body.group_by_executor_id,
        by_app_version=body.group_by_app_version,
        by_application_name=body.group_by_application_name,
    )
    selection = WorkflowSelection(
        count=body.select_count,
        min_created_at=body.select_min_created_at,
        max_queue_wait_ms=body.select_max_queue_wait_ms,
        max_total_latency_ms=body.select_max_total_latency_ms,
    )
    bucket_size = _to_span(body.time_bucket_size_ms)
    _demand_groups(any(grouping.flags().values()), bucket_size)
    rows = await while_connected(
        request,
        server.operations.workflows.aggregate(
            name,
            grouping=grouping,
            selection=selection,
            matching=to_filter(body),
            time_bucket_size=bucket_size,
        ),
    )
    return await answer_list(server.clock, rows, _to_workflow_aggregate)


@router.post(
    "/steps/aggregates",
    operation_id="getStepAggregates",
    response_model=list[StepAggregate],
)
async def get_step_aggregates(
    request: Request,
    _: Reader,
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[StepAggregatesBody, json_body(StepAggregatesBody, required=False)],
) -> Response:
    """Counts and extremes of the steps that match, a group each."""
    grouping = StepGrouping(
        by_function_name=body.group_by_function_name, by_status=body.group_by_status
    )
    selection = StepSelection(
        count=body.select_count, max_duration_ms=body.select_max_duration_ms
    )
    bucket_size = _to_span(body.time_bucket_size_ms)
    _demand_groups(any(grouping.flags().values()), bucket_size)
    rows = await while_connected(
        request,
        server.operations.workflows.aggregate_steps(
            name,
            grouping=grouping,
            selection=selection,
            matching=StepFilter(
                step_name=tuple(body.step_name or ()),
                status=tuple(body.status or ()),
                workflow_id_prefix=tuple(body.workflow_id_prefix or ()),
                completed_after=body.completed_after,
                completed_before=body.completed_before,
            ),
            time_bucket_size=bucket_size,
        ),
    )
    return await answer_list(server.clock, rows, _to_step_aggregate)


def _demand_groups(has_grouping: bool, bucket_size: timedelta | None) -> None:
    if not has_grouping and bucket_size is None:
        raise InvalidInputError(
            "body", "must have at least one groupBy… or a timeBucketSizeMs"
        )


def _to_span(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def _to_workflow_aggregate(row: AggregateRow) -> Properties:
    return dump(WorkflowAggregate(**_list_known(row)))


def _to_step_aggregate(row: StepAggregateRow) -> Properties:
    return dump(StepAggregate(**_list_known(row)))


def _list_known(row: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    return {name: value for name, value in fields.items() if value is not None}
