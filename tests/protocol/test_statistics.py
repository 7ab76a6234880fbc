"""Asking for counts and measures, and reading them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay.errors import InvalidInputError
from relay.ids import AppName, RequestId
from relay.protocol import FrameError, Request, encode
from relay.protocol.statistics import (
    AggregateRow,
    GetMetricsRequest,
    MetricRow,
    StepAggregateRow,
    StepAggregatesRequest,
    StepFilter,
    StepGrouping,
    StepSelection,
    WorkflowAggregatesRequest,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.protocol.workflows import WorkflowFilter
from tests.protocol.fields import reply, written

SHOP = AppName("shop")
MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def workflows(
    grouping: WorkflowGrouping | None = None,
    selection: WorkflowSelection | None = None,
    chosen: WorkflowFilter | None = None,
    bucket: timedelta | None = None,
) -> WorkflowAggregatesRequest:
    return WorkflowAggregatesRequest(
        application=SHOP,
        grouping=grouping or WorkflowGrouping(),
        selection=selection or WorkflowSelection(),
        filter=chosen or WorkflowFilter(),
        time_bucket_size=bucket,
    )


def steps(
    grouping: StepGrouping | None = None,
    selection: StepSelection | None = None,
    chosen: StepFilter | None = None,
    bucket: timedelta | None = None,
) -> StepAggregatesRequest:
    return StepAggregatesRequest(
        application=SHOP,
        grouping=grouping or StepGrouping(),
        selection=selection or StepSelection(),
        filter=chosen or StepFilter(),
        time_bucket_size=bucket,
    )


METRICS = GetMetricsRequest(application=SHOP, start=NOON, end=NOON + MINUTE)
COUNTS = (workflows(bucket=MINUTE), steps(bucket=MINUTE))


# get_workflow_aggregates


def test_every_flag_of_workflows_is_sent() -> None:
    """Java takes no null for one; a bucket is a grouping, and no choice the count."""
    assert written(workflows(bucket=MINUTE)) == {
        "body": {
            "group_by_status": False,
            "group_by_name": False,
            "group_by_queue_name": False,
            "group_by_executor_id": False,
            "group_by_application_version": False,
            "group_by_application_name": False,
            "select_count": True,
            "select_min_created_at": False,
            "select_max_queue_wait_ms": False,
            "select_max_total_latency_ms": False,
            "time_bucket_size_ms": 60_000,
            "application_name": ["shop"],
        }
    }


def test_what_is_chosen_is_chosen_and_nothing_else() -> None:
    """The count only if it is asked for, beside something else."""
    request = workflows(
        WorkflowGrouping(by_workflow_name=True, by_app_version=True),
        WorkflowSelection(max_queue_wait_ms=True),
    )

    chosen = {name for name, value in written(request)["body"].items() if value is True}

    assert chosen == {
        "group_by_name",
        "group_by_application_version",
        "select_max_queue_wait_ms",
    }


def test_workflow_filters_have_names_of_their_own_in_counts() -> None:
    """Two have two names, for TypeScript 4; all are lists, for Java."""
    request = workflows(
        chosen=WorkflowFilter(
            workflow_ids=("w1", ""),
            workflow_name=("ship_order",),
            user=("ann",),
            status=("ERROR", "PENDING"),
            app_version=("v1",),
            queue_name=(" ",),
            executor_id=("e",),
            start_time=NOON,
            has_parent=False,
            attributes={"weight": 1.5, "tags": []},
        ),
        bucket=MINUTE,
    )

    body = written(request)["body"]

    named = {
        name: value
        for name, value in body.items()
        if not name.startswith(("group_by", "select", "time_bucket"))
    }
    assert named == {
        "workflow_ids": ["w1"],
        "workflow_uuids": ["w1"],
        "name": ["ship_order"],
        "user": ["ann"],
        "authenticated_user": ["ann"],
        "status": ["ERROR", "PENDING"],
        "app_version": ["v1"],
        "executor_id": ["e"],
        "start_time": "2026-11-01T12:00:00.000+00:00",
        "has_parent": False,
        "attributes": {"weight": 1.5, "tags": []},
        "application_name": ["shop"],
    }


def test_options_of_workflow_counts_are_named_as_in_rest() -> None:
    """So that a caller can be told which of them an SDK does not know."""
    request = workflows(
        WorkflowGrouping(
            by_status=True,
            by_workflow_name=True,
            by_queue_name=True,
            by_executor_id=True,
            by_app_version=True,
            by_application_name=True,
        ),
        WorkflowSelection(
            count=True,
            min_created_at=True,
            max_queue_wait_ms=True,
            max_total_latency_ms=True,
        ),
        WorkflowFilter(user=("ann",), queue_name=("",), was_forked_from=False),
        MINUTE,
    )

    assert request.used_options() == (
        "user",
        "was_forked_from",
        "group_by_status",
        "group_by_workflow_name",
        "group_by_queue_name",
        "group_by_executor_id",
        "group_by_app_version",
        "group_by_application_name",
        "select_count",
        "select_min_created_at",
        "select_max_queue_wait_ms",
        "select_max_total_latency_ms",
        "time_bucket_size_ms",
    )
    assert workflows().used_options() == ()


def test_workflow_counts_are_read_group_by_group() -> None:
    """The keys of a group are the SDK's; what was not selected is null or missing."""
    frame = reply(
        output=[
            {
                "group": {"status": "ERROR", "queue_name": None},
                "count": 3,
                "min_created_at": 1_790_000_000_123,
                "max_queue_wait_ms": "35",
                "max_total_latency_ms": 126.0,
            },
            {"group": {"queue_name": ""}, "count": None},
        ]
    )

    assert COUNTS[0].decode_reply(frame) == (
        AggregateRow(
            group={"status": "ERROR", "queue_name": None},
            count=3,
            min_created_at=datetime(2026, 9, 21, 14, 13, 20, 123_000, tzinfo=UTC),
            max_queue_wait_ms=35,
            max_total_latency_ms=126,
        ),
        AggregateRow(
            group={"queue_name": ""},
            count=None,
            min_created_at=None,
            max_queue_wait_ms=None,
            max_total_latency_ms=None,
        ),
    )


def test_a_group_is_made_harmless() -> None:
    """Names in it are an application's own, and numbers are somebody's version."""
    frame = reply(
        output=[{"group": {"na\0me": "a\ud800b", "app": 3, "odd": ["x"]}, "count": 1}]
    )

    (row,) = COUNTS[0].decode_reply(frame)

    assert row.group == {"name": "ab", "app": "3", "odd": None}


# get_step_aggregates


def test_every_flag_of_steps_is_sent() -> None:
    """As it is for workflows."""
    assert written(steps(bucket=MINUTE)) == {
        "body": {
            "group_by_function_name": False,
            "group_by_status": False,
            "select_count": True,
            "select_max_duration_ms": False,
            "time_bucket_size_ms": 60_000,
            "application_name": ["shop"],
        }
    }


def test_step_filters_are_lists_too() -> None:
    """A step's name has another name on the wire."""
    request = steps(
        StepGrouping(by_status=True),
        StepSelection(max_duration_ms=True),
        StepFilter(
            step_name=("charge_card",),
            status=("",),
            workflow_id_prefix=("order-", "mail-"),
            completed_before=NOON,
        ),
    )

    assert written(request)["body"] == {
        "group_by_function_name": False,
        "group_by_status": True,
        "select_count": False,
        "select_max_duration_ms": True,
        "function_name": ["charge_card"],
        "workflow_id_prefix": ["order-", "mail-"],
        "completed_before": "2026-11-01T12:00:00.000+00:00",
        "application_name": ["shop"],
    }
    assert request.used_options() == (
        "step_name",
        "workflow_id_prefix",
        "completed_before",
        "group_by_status",
        "select_max_duration_ms",
    )


def test_step_counts_are_read_group_by_group() -> None:
    """A bucket's start is text like all that is grouped by."""
    group = {"function_name": "charge_card", "time_bucket": "1789999980000"}
    frame = reply(output=[{"group": group, "count": 2, "max_duration_ms": 12}])

    assert COUNTS[1].decode_reply(frame) == (
        StepAggregateRow(group=group, count=2, max_duration_ms=12),
    )


# both


@pytest.mark.parametrize("request_", [workflows(), steps()], ids=["workflows", "steps"])
def test_counts_without_a_grouping_are_refused(request_: Request[Any]) -> None:
    """SDKs fail at them; the caller learns it here, and sooner."""
    with pytest.raises(InvalidInputError, match="at least one grouping"):
        encode(request_, RequestId("r"))


@pytest.mark.parametrize(
    "bucket", [timedelta(0), timedelta(microseconds=999), -MINUTE], ids=str
)
def test_a_bucket_is_a_millisecond_at_least(bucket: timedelta) -> None:
    """SDKs refuse anything less."""
    for request in (workflows(bucket=bucket), steps(bucket=bucket)):
        with pytest.raises(InvalidInputError) as refusal:
            encode(request, RequestId("r"))

        assert refusal.value.location.endswith("body.time_bucket_size_ms")


@pytest.mark.parametrize("request_", COUNTS, ids=["workflows", "steps"])
@pytest.mark.parametrize("fields", [{}, {"output": None}, {"output": []}])
def test_no_groups_are_an_empty_list(
    request_: Request[Any], fields: dict[str, Any]
) -> None:
    """Nothing passed the filter."""
    assert request_.decode_reply(reply(**fields)) == ()


@pytest.mark.parametrize("request_", COUNTS, ids=["workflows", "steps"])
@pytest.mark.parametrize(
    "output", [{}, "none", [3], [{"count": 3}], [{"group": "ERROR", "count": 3}]]
)
def test_a_count_of_nothing_in_particular_is_refused(
    request_: Request[Any], output: object
) -> None:
    """A number without its group could be anything."""
    with pytest.raises(FrameError):
        request_.decode_reply(reply(output=output))


# get_metrics


def test_metrics_are_asked_for_a_window() -> None:
    """There is one class of metrics; the owner is a list for Go."""
    assert written(METRICS) == {
        "start_time": "2026-11-01T12:00:00.000+00:00",
        "end_time": "2026-11-01T12:01:00.000+00:00",
        "metric_class": "workflow_step_count",
        "application_name": ["shop"],
    }


def test_metrics_are_read_one_by_one() -> None:
    """Go counts in fractions, and a name may be missing."""
    frame = reply(
        metrics=[
            {"metric_type": "workflow_count", "metric_name": "ship_order", "value": 3},
            {"metric_type": "step_count", "metric_name": None, "value": 2.0},
        ]
    )

    assert METRICS.decode_reply(frame) == (
        MetricRow(metric_type="workflow_count", metric_name="ship_order", value=3),
        MetricRow(metric_type="step_count", metric_name="", value=2),
    )


@pytest.mark.parametrize("fields", [{}, {"metrics": None}, {"metrics": []}])
def test_a_quiet_window_has_no_metrics(fields: dict[str, Any]) -> None:
    """Go writes null."""
    assert METRICS.decode_reply(reply(**fields)) == ()


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        ["step_count"],
        [{"metric_type": "step_count"}],
        [{"metric_type": "step_count", "value": True}],
        [{"metric_type": "step_count", "value": "many"}],
        [{"value": 3}],
    ],
)
def test_an_incomplete_metric_is_refused(metrics: object) -> None:
    """A series with holes would look like a quiet one."""
    with pytest.raises(FrameError):
        METRICS.decode_reply(reply(metrics=metrics))
