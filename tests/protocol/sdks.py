"""SDKs, and the questions that they are judged by."""

from datetime import UTC, datetime, timedelta
from typing import Any

from relay.ids import AppName
from relay.protocol.sdk import Sdk
from relay.protocol.statistics import (
    StepAggregatesRequest,
    StepFilter,
    StepGrouping,
    StepSelection,
    WorkflowAggregatesRequest,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.protocol.workflows import (
    SearchWorkflowsRequest,
    WorkflowFilter,
)

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SHOP = AppName("shop")
LANGUAGES = ("python", "typescript", "go", "java")
FIRST = {"0.23.0", "2.6.0", "0.5.4-beta", "0.5.0"}
"""The first release of each language that connects at all."""

NEWEST = (
    Sdk("python", "3.2.0"),
    Sdk("typescript", "5.2.11"),
    Sdk("go", "v1.2.0"),
    Sdk("java", "1.2.0"),
)
EVERY_FILTER = WorkflowFilter(
    workflow_ids=("w",),
    workflow_name=("n",),
    user=("u",),
    status=("ERROR",),
    app_version=("v",),
    forked_from=("f",),
    parent_workflow_id=("p",),
    queue_name=("q",),
    executor_id=("e",),
    schedule_name=("s",),
    workflow_id_prefix=("x",),
    start_time=NOON,
    end_time=NOON,
    completed_after=NOON,
    completed_before=NOON,
    dequeued_after=NOON,
    dequeued_before=NOON,
    has_parent=False,
    was_forked_from=False,
    attributes={"a": 1},
)


def search(**filters: Any) -> SearchWorkflowsRequest:
    return SearchWorkflowsRequest(filter=WorkflowFilter(**filters), application=SHOP)


def count(**filters: Any) -> WorkflowAggregatesRequest:
    return WorkflowAggregatesRequest(
        application=SHOP,
        grouping=WorkflowGrouping(by_status=True),
        selection=WorkflowSelection(count=True),
        filter=WorkflowFilter(**filters),
    )


def count_steps(**filters: Any) -> StepAggregatesRequest:
    return StepAggregatesRequest(
        application=SHOP,
        grouping=StepGrouping(by_status=True),
        selection=StepSelection(max_duration_ms=True),
        filter=StepFilter(**filters),
    )


WINDOWS = ("completed_after", "completed_before", "dequeued_after", "dequeued_before")
EVERY_COUNT = WorkflowAggregatesRequest(
    application=SHOP,
    grouping=WorkflowGrouping(
        by_status=True,
        by_workflow_name=True,
        by_queue_name=True,
        by_executor_id=True,
        by_app_version=True,
        by_application_name=True,
    ),
    selection=WorkflowSelection(
        count=True,
        min_created_at=True,
        max_queue_wait_ms=True,
        max_total_latency_ms=True,
    ),
    filter=EVERY_FILTER,
    time_bucket_size=timedelta(minutes=1),
)


# knows_message
