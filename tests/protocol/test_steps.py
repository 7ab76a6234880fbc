"""Long replies: read a step at a time, with the same result as in one go."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from relay.ids import AppName, AppVersion, ExecutorId
from relay.protocol import FrameError
from relay.protocol.messages import ExistPendingWorkflowsRequest
from relay.protocol.queues import ListQueuesRequest
from relay.protocol.statistics import (
    GetMetricsRequest,
    StepAggregatesRequest,
    StepFilter,
    StepGrouping,
    StepSelection,
    WorkflowAggregatesRequest,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.protocol.steps import LongReply, Steps, build_each, finish, read_in_steps
from relay.protocol.versions import ListApplicationVersionsRequest
from relay.protocol.workflows import (
    GetWorkflowEventsRequest,
    ListStepsRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
)

ROWS = 20
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def frame(key: str, row: dict[str, Any]) -> bytes:
    return json.dumps({"type": "t", "request_id": "r", key: [row] * ROWS}).encode()


def take_all(steps: Steps[object]) -> tuple[int, object]:
    """How many steps there were, and what was read."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (
            SearchWorkflowsRequest(filter=WorkflowFilter(), application=None),
            frame("output", {"WorkflowUUID": "w"}),
        ),
        (ListStepsRequest(workflow_id="w"), frame("output", {"function_id": 1})),
        (GetWorkflowEventsRequest(workflow_id="w"), frame("events", {"key": "k"})),
        (ListQueuesRequest(AppName("shop")), frame("output", {"name": "q"})),
        (
            WorkflowAggregatesRequest(
                application=AppName("shop"),
                grouping=WorkflowGrouping(by_status=True),
                selection=WorkflowSelection(count=True),
                filter=WorkflowFilter(),
            ),
            frame("output", {"group": {"status": "SUCCESS"}, "count": 1}),
        ),
        (
            StepAggregatesRequest(
                application=AppName("shop"),
                grouping=StepGrouping(by_status=True),
                selection=StepSelection(count=True),
                filter=StepFilter(),
            ),
            frame("output", {"group": {"status": "SUCCESS"}, "count": 1}),
        ),
        (
            GetMetricsRequest(application=AppName("shop"), start=NOW, end=NOW),
            frame("metrics", {"metric_type": "step_count", "value": 1}),
        ),
        (
            ListApplicationVersionsRequest(),
            frame("output", {"version_id": "i", "version_name": "v"}),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_listing_is_read_in_a_step_a_row(
    request_: LongReply[tuple[object, ...]], reply: bytes
) -> None:
    """Between them others get their turn."""
    steps, read = take_all(request_.decode_in_steps(reply))

    assert steps >= ROWS
    assert read == request_.decode_reply(reply)
    assert isinstance(read, tuple)
    assert len(read) == ROWS


def test_reply_without_steps_is_read_in_one() -> None:
    request = ExistPendingWorkflowsRequest(ExecutorId("e"), AppVersion("v"))

    assert take_all(read_in_steps(request, b'{"exist": true}')) == (0, True)


def test_listing_of_any_request_is_read_in_its_steps() -> None:
    reply = frame("output", {"function_id": 1})
    request = ListStepsRequest(workflow_id="w")

    steps, read = take_all(read_in_steps(request, reply))

    assert steps == ROWS
    assert read == request.decode_reply(reply)


def test_error_in_a_row_ends_the_reading() -> None:
    """And what was built before it is let go."""
    with pytest.raises(FrameError):
        finish(ListStepsRequest(workflow_id="w").decode_in_steps(frame("output", {})))


def test_nothing_is_built_after_the_last_step_that_is_taken() -> None:
    built: list[int] = []
    steps = build_each(range(5), built.append)
    next(steps)
    next(steps)

    steps.close()

    assert built == [0, 1]
