"""
Queues, schedules, versions and statistics, whatever anybody writes.

A user may ask for anything and an executor may answer anything: what leaves Relay is
still a frame that four SDKs can read, and text that REST can carry.
"""

import contextlib
import json
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Vocabulary:
    """What texts, moments, spans and JSON values somebody writes."""

    texts: st.SearchStrategy[str]
    instants: st.SearchStrategy[datetime]
    buckets: st.SearchStrategy[timedelta]
    leaves: st.SearchStrategy[object]

    def several(self) -> st.SearchStrategy[tuple[str, ...]]:
        return st.lists(self.texts, max_size=3).map(tuple)

    def filters(self) -> st.SearchStrategy[WorkflowFilter]:
        flags = st.none() | st.booleans()
        data = st.recursive(
            self.leaves,
            lambda items: (
                st.lists(items, max_size=3)
                | st.dictionaries(self.texts, items, max_size=3)
            ),
            max_leaves=8,
        )
        return st.builds(
            WorkflowFilter,
            **dict.fromkeys(FILTERS, self.several()),
            **dict.fromkeys(MOMENTS, st.none() | self.instants),
            has_parent=flags,
            was_forked_from=flags,
            attributes=st.none() | st.dictionaries(self.texts, data, max_size=3),
        )

    def step_filters(self) -> st.SearchStrategy[StepFilter]:
        return st.builds(
            StepFilter,
            step_name=self.several(),
            status=self.several(),
            workflow_id_prefix=self.several(),
            completed_after=st.none() | self.instants,
            completed_before=st.none() | self.instants,
        )

    def workflow_counts(self) -> st.SearchStrategy[WorkflowAggregatesRequest]:
        """Whether or not they say by what to count."""
        return st.builds(
            WorkflowAggregatesRequest,
            application=applications,
            grouping=st.builds(
                WorkflowGrouping, **dict.fromkeys(GROUPINGS, st.booleans())
            ),
            selection=st.builds(
                WorkflowSelection, **dict.fromkeys(SELECTIONS, st.booleans())
            ),
            filter=self.filters(),
            time_bucket_size=st.none() | self.buckets,
        )

    def step_counts(self) -> st.SearchStrategy[StepAggregatesRequest]:
        """The same of steps."""
        return st.builds(
            StepAggregatesRequest,
            application=applications,
            grouping=st.builds(
                StepGrouping, by_function_name=st.booleans(), by_status=st.booleans()
            ),
            selection=st.builds(
                StepSelection, count=st.booleans(), max_duration_ms=st.booleans()
            ),
            filter=self.step_filters(),
            time_bucket_size=st.none() | self.buckets,
        )


FILTERS = (
    *("workflow_ids", "workflow_name", "user", "status", "app_version"),
    *("forked_from", "parent_workflow_id", "queue_name", "executor_id"),
    *("schedule_name", "workflow_id_prefix"),
)
MOMENTS = (
    *("start_time", "end_time", "completed_after", "completed_before"),
    *("dequeued_after", "dequeued_before"),
)
GROUPINGS = (
    *("by_status", "by_workflow_name", "by_queue_name", "by_executor_id"),
    *("by_app_version", "by_application_name"),
)
SELECTIONS = ("count", "min_created_at", "max_queue_wait_ms", "max_total_latency_ms")

applications = st.sampled_from([SHOP, AppName("import_workflow")])
zones = st.sampled_from(
    [UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=9))]
)
texts = st.text(max_size=8) | st.sampled_from(["", " ", "import_workflow", "\ud800"])
instants = st.datetimes(timezones=zones)
WILD = Vocabulary(
    texts=texts,
    instants=instants,
    buckets=st.timedeltas() | st.just(MINUTE),
    leaves=st.none() | st.booleans() | st.integers() | st.floats() | texts,
)
good_texts = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8
) | st.sampled_from(["", " ", "import_workflow"])
GOOD = Vocabulary(
    texts=good_texts,
    instants=st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
        timezones=zones,
    ),
    buckets=st.timedeltas(timedelta(milliseconds=1), timedelta(days=36_500)),
    leaves=st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | good_texts,
)


def says_by_what(request: WorkflowAggregatesRequest | StepAggregatesRequest) -> bool:
    return request.time_bucket_size is not None or any(
        request.grouping.flags().values()
    )


def by_something(
    request: WorkflowAggregatesRequest | StepAggregatesRequest,
) -> WorkflowAggregatesRequest | StepAggregatesRequest:
    """The same, by the minute if it does not say by what."""
    if says_by_what(request):
        return request
    return replace(request, time_bucket_size=MINUTE)


workflow_counts, step_counts = WILD.workflow_counts(), WILD.step_counts()
good_counts = (GOOD.workflow_counts() | GOOD.step_counts()).map(by_something)
several = WILD.several()
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


@given(good_counts)
def test_both_names_of_a_filter_say_the_same(
    request: WorkflowAggregatesRequest | StepAggregatesRequest,
) -> None:
    """TypeScript 4 reads one of them, all others the other one."""
    body = json.loads(encode(request, RequestId("r")))["body"]

    assert body.get("workflow_ids") == body.get("workflow_uuids")
    assert body.get("user") == body.get("authenticated_user")


ON_THE_WIRE = {
    "workflow_name": "name",
    "step_name": "function_name",
    "group_by_workflow_name": "group_by_name",
    "group_by_app_version": "group_by_application_version",
}
"""The options that are called otherwise than in REST."""

SECOND_NAMES = {"workflow_uuids", "authenticated_user"}
ALWAYS = {"application_name", "select_count"}
"""What is sent whether or not it was chosen: nothing chosen is the count."""


@given(good_counts)
def test_every_option_that_is_named_is_sent_and_no_other(
    request: WorkflowAggregatesRequest | StepAggregatesRequest,
) -> None:
    """What an SDK is judged by is what it gets."""
    body = json.loads(encode(request, RequestId("r")))["body"]

    sent = {
        name
        for name, value in body.items()
        if value is not False or name in ("has_parent", "was_forked_from")
    }
    chosen = {ON_THE_WIRE.get(name, name) for name in request.used_options()}

    assert sent - SECOND_NAMES - ALWAYS == chosen - ALWAYS
    assert body["application_name"] == [request.application]
    assert body["select_count"] is (
        "select_count" in chosen
        or not any(name.startswith("select_") for name in chosen)
    )


@given(
    (GOOD.workflow_counts() | GOOD.step_counts()).filter(lambda r: not says_by_what(r))
)
def test_a_count_by_nothing_is_refused(
    request: WorkflowAggregatesRequest | StepAggregatesRequest,
) -> None:
    """SDKs would refuse it, each in its own words."""
    with pytest.raises(InvalidInputError) as caught:
        encode(request, RequestId("r"))

    assert caught.value.location == f"{request.message_type}.body.group_by_status"


@given(
    GOOD.workflow_counts() | GOOD.step_counts(),
    st.timedeltas(max_value=timedelta(microseconds=999)),
)
def test_a_bucket_of_less_than_a_millisecond_is_refused(
    request: WorkflowAggregatesRequest | StepAggregatesRequest, size: timedelta
) -> None:
    """SDKs would divide by it."""
    with pytest.raises(InvalidInputError) as caught:
        encode(replace(request, time_bucket_size=size), RequestId("r"))

    assert caught.value.location == f"{request.message_type}.body.time_bucket_size_ms"


@given(
    GOOD.workflow_counts().map(by_something),
    st.sampled_from(["a\0", "\ud800", "b\udfff"]),
)
def test_a_filter_that_no_database_holds_is_refused(
    request: WorkflowAggregatesRequest | StepAggregatesRequest, text: str
) -> None:
    """By its place among the others."""
    assert isinstance(request, WorkflowAggregatesRequest)
    chosen = replace(request.filter, status=("SUCCESS", text))

    with pytest.raises(InvalidInputError) as caught:
        encode(replace(request, filter=chosen), RequestId("r"))

    assert caught.value.location == f"{request.message_type}.body.status[1]"


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
