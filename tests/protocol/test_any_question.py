"""
Queues, schedules, versions and statistics, whatever anybody writes.

A user may ask for anything and an executor may answer anything: what leaves Relay is
still a frame that four SDKs can read, and text that REST can carry.
"""

import contextlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import InvalidInputError
from relay.ids import AppName, RequestId, new_id
from relay.protocol import FrameError, Request, encode
from relay.protocol.queues import GetQueueRequest, ListQueuesRequest
from relay.protocol.schedules import (
    BackfillScheduleRequest,
    GetScheduleRequest,
    ListSchedulesRequest,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    TriggerScheduleRequest,
)
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
from relay.protocol.versions import (
    ListApplicationVersionsRequest,
    SetLatestApplicationVersionRequest,
)
from relay.protocol.workflows import WorkflowFilter
from tests.protocol.catalogue import check_frame

SHOP = AppName("shop")
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

# what a user writes

applications = st.sampled_from([SHOP, AppName("import_workflow")])
texts = st.text(max_size=8) | st.sampled_from(["", " ", "import_workflow", "\ud800"])
several = st.lists(texts, max_size=3).map(tuple)
zones = st.sampled_from(
    [UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=9))]
)
instants = st.datetimes(timezones=zones)
maybe_instants = st.none() | instants
maybe_flags = st.none() | st.booleans()
buckets = st.none() | st.timedeltas() | st.just(MINUTE)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda items: (
        st.lists(items, max_size=3) | st.dictionaries(texts, items, max_size=3)
    ),
    max_leaves=8,
)
filters = st.builds(
    WorkflowFilter,
    **dict.fromkeys(
        (
            "workflow_ids",
            "workflow_name",
            "user",
            "status",
            "app_version",
            "forked_from",
            "parent_workflow_id",
            "queue_name",
            "executor_id",
            "schedule_name",
            "workflow_id_prefix",
        ),
        several,
    ),
    **dict.fromkeys(
        (
            "start_time",
            "end_time",
            "completed_after",
            "completed_before",
            "dequeued_after",
            "dequeued_before",
        ),
        maybe_instants,
    ),
    has_parent=maybe_flags,
    was_forked_from=maybe_flags,
    attributes=st.none() | st.dictionaries(texts, data, max_size=3),
)
workflow_counts = st.builds(
    WorkflowAggregatesRequest,
    application=applications,
    grouping=st.builds(
        WorkflowGrouping,
        **dict.fromkeys(
            (
                "by_status",
                "by_workflow_name",
                "by_queue_name",
                "by_executor_id",
                "by_app_version",
                "by_application_name",
            ),
            st.booleans(),
        ),
    ),
    selection=st.builds(
        WorkflowSelection,
        count=st.booleans(),
        min_created_at=st.booleans(),
        max_queue_wait_ms=st.booleans(),
        max_total_latency_ms=st.booleans(),
    ),
    filter=filters,
    time_bucket_size=buckets,
)
step_counts = st.builds(
    StepAggregatesRequest,
    application=applications,
    grouping=st.builds(
        StepGrouping, by_function_name=st.booleans(), by_status=st.booleans()
    ),
    selection=st.builds(
        StepSelection, count=st.booleans(), max_duration_ms=st.booleans()
    ),
    filter=st.builds(
        StepFilter,
        step_name=several,
        status=several,
        workflow_id_prefix=several,
        completed_after=maybe_instants,
        completed_before=maybe_instants,
    ),
    time_bucket_size=buckets,
)
questions: st.SearchStrategy[Request[Any]] = st.one_of(
    st.builds(ListQueuesRequest, applications),
    st.builds(GetQueueRequest, texts),
    st.builds(
        ListSchedulesRequest,
        application=applications,
        status=several,
        workflow_name=several,
        schedule_name_prefix=several,
        load_context=st.booleans(),
    ),
    st.builds(GetScheduleRequest, texts, load_context=st.booleans()),
    st.builds(PauseScheduleRequest, texts),
    st.builds(ResumeScheduleRequest, texts),
    st.builds(TriggerScheduleRequest, texts),
    st.builds(BackfillScheduleRequest, texts, instants, instants),
    st.builds(ListApplicationVersionsRequest),
    st.builds(SetLatestApplicationVersionRequest, texts),
    st.builds(
        GetMetricsRequest, application=applications, start=instants, end=instants
    ),
    workflow_counts,
    step_counts,
)


@given(questions)
def test_any_question_is_sent_by_the_rules_or_refused(request: Request[Any]) -> None:
    """Nothing that a user can write ends an application or its connection."""
    try:
        text = encode(request, RequestId(new_id()))
    except InvalidInputError as refusal:
        assert refusal.location.startswith(f"{request.message_type}.")  # noqa: PT017 - one of two good ends
        return

    assert check_frame(text)["type"] == request.message_type


@given(workflow_counts)
def test_both_names_of_a_filter_say_the_same(
    request: WorkflowAggregatesRequest,
) -> None:
    """TypeScript 4 reads one of them, all others the other one."""
    try:
        body = json.loads(encode(request, RequestId("r")))["body"]
    except InvalidInputError:
        return

    assert body.get("workflow_ids") == body.get("workflow_uuids")
    assert body.get("user") == body.get("authenticated_user")


@given(workflow_counts | step_counts)
def test_every_option_that_is_named_is_sent(
    request: WorkflowAggregatesRequest | StepAggregatesRequest,
) -> None:
    """What an SDK is judged by is what it gets."""
    try:
        body = json.loads(encode(request, RequestId("r")))["body"]
    except InvalidInputError:
        return
    second_names = {"workflow_uuids", "authenticated_user"}

    sent = {
        name
        for name, value in body.items()
        if value is not False or name in ("has_parent", "was_forked_from")
    } - second_names
    chosen = set(request.used_options()) | {"application_name"}

    assert len(sent - {"select_count"}) == len(chosen - {"select_count"})


# what an executor answers

SETTLED: tuple[Request[Any], ...] = (
    ListQueuesRequest(SHOP),
    GetQueueRequest("q"),
    ListSchedulesRequest(application=SHOP, load_context=True),
    GetScheduleRequest("s", load_context=True),
    PauseScheduleRequest("s"),
    ResumeScheduleRequest("s"),
    TriggerScheduleRequest("s"),
    BackfillScheduleRequest("s", NOON, NOON + MINUTE),
    ListApplicationVersionsRequest(),
    SetLatestApplicationVersionRequest("v"),
    GetMetricsRequest(application=SHOP, start=NOON, end=NOON + MINUTE),
    WorkflowAggregatesRequest(
        application=SHOP,
        grouping=WorkflowGrouping(by_status=True),
        selection=WorkflowSelection(),
        filter=WorkflowFilter(),
    ),
    StepAggregatesRequest(
        application=SHOP,
        grouping=StepGrouping(by_status=True),
        selection=StepSelection(),
        filter=StepFilter(),
    ),
)
RESULTS = ("output", "metrics", "workflow_ids", "workflow_id", "success")
IDENTITIES = (
    *("name", "schedule_id", "schedule_name", "version_id", "version_name"),
    "metric_type",
)
OTHERS = (
    *("concurrency", "rate_limit_max", "rate_limit_period_sec", "priority_enabled"),
    *("polling_interval_sec", "application_name", "schedule", "status", "context"),
    *("last_fired_at", "cron_timezone", "workflow_class_name", "version_timestamp"),
    *("created_at", "count", "min_created_at", "max_queue_wait_ms", "metric_name"),
    "max_duration_ms",
)
hostile_texts = (
    st.text(max_size=6)
    | st.text("\0\ud800\udfffé\U0001f600", max_size=4)
    | st.integers().map(str)
    | st.datetimes(timezones=st.none() | zones).map(datetime.isoformat)
    | st.sampled_from(["9" * 5000, "1e999", "NaN", "0001-01-01T00:00:00+23:59"])
)
hostile_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 10**400, 10**18])
    | st.floats()
    | hostile_texts
)
hostile_values = (
    hostile_scalars
    | st.lists(hostile_scalars, max_size=2)
    | st.dictionaries(hostile_texts, hostile_scalars, max_size=2)
)
likely_rows = st.builds(
    lambda named, others: {**others, **named},
    st.fixed_dictionaries(
        {
            **dict.fromkeys(IDENTITIES, hostile_texts.map("x{}".format)),
            "value": st.integers() | st.floats(),
            "group": st.dictionaries(hostile_texts, hostile_scalars, max_size=2),
        }
    ),
    st.dictionaries(st.sampled_from(OTHERS), hostile_values, max_size=4),
)
rows = likely_rows | hostile_values
results = rows | st.lists(likely_rows, max_size=2) | st.lists(rows, max_size=2)
frames = st.builds(
    lambda result: json.dumps(dict.fromkeys(RESULTS, result)).encode(), results
)


@given(frames | st.binary(max_size=64))
def test_any_answer_is_read_or_refused(frame: bytes) -> None:
    """What is read is JSON in valid UTF-8 without NUL; what is not is a FrameError."""
    for request in SETTLED:
        try:
            answer = request.decode_reply(frame)
        except FrameError:
            continue

        text = msgspec.json.encode(answer).decode()

        assert "\\u0000" not in text


@pytest.mark.parametrize("request_", SETTLED, ids=lambda request: request.message_type)
def test_an_answer_that_is_nested_without_end_is_read_or_refused(
    request_: Request[Any],
) -> None:
    """It would otherwise take the stack with it."""
    depth = 100_000
    nested = b"[" * depth + b"]" * depth

    for name in RESULTS:
        row = b'{"name":"q","group":%b,"value":%b}' % (nested, nested)
        frame = b'{"%b":[%b]}' % (name.encode(), row)
        with contextlib.suppress(FrameError):
            request_.decode_reply(frame)
