"""A workflow and what belongs to it: how it is asked for, and how answers read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.ids import AppName
from relay.protocol import FrameError, Request
from relay.protocol.workflows import (
    EventRow,
    GetWorkflowEventsRequest,
    GetWorkflowNotificationsRequest,
    GetWorkflowRequest,
    GetWorkflowStreamsRequest,
    ListStepsRequest,
    NotificationRow,
    SearchWorkflowsRequest,
    StepRow,
    StreamRow,
    WorkflowFilter,
    WorkflowRow,
)
from tests.protocol.fields import reply, written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 9, 21, 12, 0, 0, tzinfo=UTC)
NOON_MS = "1789992000000"
LATER = NOON + timedelta(seconds=1)
LATER_MS = "1789992001000"

SEARCH = SearchWorkflowsRequest(filter=WorkflowFilter(), application=AppName("shop"))
GET = GetWorkflowRequest(workflow_id="w")
STEPS = ListStepsRequest(workflow_id="w")
EVENTS = GetWorkflowEventsRequest(workflow_id="w")
NOTIFICATIONS = GetWorkflowNotificationsRequest(workflow_id="w")
STREAMS = GetWorkflowStreamsRequest(workflow_id="w")


def found(**fields: Any) -> WorkflowRow:
    """The workflow that a reply with these fields holds."""
    row = GET.decode_reply(reply(output={"WorkflowUUID": "w", **fields}))
    assert row is not None
    return row


# a workflow


def test_workflow_has_all_its_fields() -> None:
    """Each under its name, in its type."""
    row = found(
        Status="SUCCESS",
        WorkflowName="pack",
        WorkflowClassName="Shop",
        WorkflowConfigName="main",
        AuthenticatedUser="ada",
        AssumedRole="clerk",
        AuthenticatedRoles="['clerk']",
        Input="(1,)",
        Output="",
        Error="boom",
        CreatedAt=NOON_MS,
        UpdatedAt=LATER_MS,
        QueueName="q",
        ApplicationVersion="v1",
        ExecutorID="e",
        WorkflowTimeoutMS="60000",
        WorkflowDeadlineEpochMS=LATER_MS,
        DeduplicationID="d",
        Priority="5",
        QueuePartitionKey="k",
        ForkedFrom="w0",
        WasForkedFrom=True,
        ParentWorkflowID="p",
        DequeuedAt=NOON_MS,
        DelayUntilEpochMS=LATER_MS,
        CompletedAt=LATER_MS,
        Attributes='{"a":1}',
        ScheduleName="s",
        ApplicationName="shop",
        Request=None,
    )

    assert row == WorkflowRow(
        workflow_id="w",
        status="SUCCESS",
        workflow_name="pack",
        workflow_class="Shop",
        workflow_config="main",
        user="ada",
        assumed_role="clerk",
        roles="['clerk']",
        input="(1,)",
        output="",
        error="boom",
        created_at=NOON,
        updated_at=LATER,
        queue_name="q",
        app_version="v1",
        executor_id="e",
        timeout_ms=60_000,
        deadline=LATER,
        deduplication_id="d",
        priority=5,
        queue_partition_key="k",
        forked_from="w0",
        was_forked_from=True,
        parent_workflow_id="p",
        dequeued_at=NOON,
        delay_until=LATER,
        completed_at=LATER,
        attributes='{"a":1}',
        schedule_name="s",
        application_name="shop",
    )


def test_workflow_may_lack_everything_but_its_id() -> None:
    """What REST cannot do without has a value all the same."""
    row = found()

    unset = {
        name: value
        for name, value in msgspec.structs.asdict(row).items()
        if value is not None
    }
    assert unset == {
        "workflow_id": "w",
        "status": "UNKNOWN",
        "created_at": EPOCH,
        "updated_at": EPOCH,
        "priority": 0,
        "was_forked_from": False,
    }


@pytest.mark.parametrize(
    ("fields", "created_at", "updated_at"),
    [
        ({"CreatedAt": NOON_MS}, NOON, NOON),
        ({"UpdatedAt": NOON_MS}, NOON, NOON),
        ({"CreatedAt": "soon", "UpdatedAt": NOON_MS}, NOON, NOON),
        ({"CreatedAt": int(NOON_MS), "UpdatedAt": float(LATER_MS)}, NOON, LATER),
    ],
)
def test_each_of_two_instants_stands_in_for_the_other(
    fields: dict[str, Any], created_at: datetime, updated_at: datetime
) -> None:
    """Neither may be missing in REST."""
    row = found(**fields)

    assert (row.created_at, row.updated_at) == (created_at, updated_at)


@pytest.mark.parametrize(
    ("timeout", "timeout_ms"),
    [("60000", 60_000), (60_000, 60_000), (2**63, None), ("never", None), (None, None)],
)
def test_timeout_fits_in_64_bits_or_is_none(
    timeout: object, timeout_ms: int | None
) -> None:
    """A number that clients cannot read is no answer."""
    assert found(WorkflowTimeoutMS=timeout).timeout_ms == timeout_ms


@pytest.mark.parametrize(
    ("priority", "kept"),
    [
        ("5", 5),
        (5, 5),
        (None, 0),
        ("high", 0),
        (2**40, 2**31 - 1),
        (-(2**40), -(2**31)),
    ],
)
def test_priority_fits_in_32_bits(priority: object, kept: int) -> None:
    """Beyond them the nearest one stands: first stays first, last stays last."""
    assert found(Priority=priority).priority == kept


def test_payloads_are_kept_as_they_are_but_valid() -> None:
    """They are for people; what no UTF-8 or database can hold is taken out."""
    row = found(Input="a\0b", Output="half \ud800", Error="über 💡\n")

    assert (row.input, row.output, row.error) == ("ab", "half ", "über 💡\n")


# get_workflow


def test_workflow_is_asked_for_with_its_payloads() -> None:
    """Both flags are sent; two SDKs do without, two do not."""
    assert written(GET) == {"workflow_id": "w", "load_input": True, "load_output": True}
    assert GET.used_options() == ()


def test_workflow_is_asked_for_without_payloads_in_private_mode() -> None:
    """Then nothing of them leaves the application."""
    request = GetWorkflowRequest(workflow_id="w", load_input=False, load_output=False)

    assert (
        written(request).items() >= {"load_input": False, "load_output": False}.items()
    )


@pytest.mark.parametrize("fields", [{}, {"output": None}, {"weight": float("nan")}])
def test_workflow_that_nobody_knows_is_none(fields: dict[str, Any]) -> None:
    """Python says null, the others say nothing."""
    assert GET.decode_reply(reply(**fields)) is None


@pytest.mark.parametrize("output", ["w", [], {}, {"WorkflowUUID": None}, 5, False])
def test_what_is_no_workflow_is_not_one_that_nobody_knows(output: object) -> None:
    """That it is not found is an answer, and this is none."""
    with pytest.raises(FrameError):
        GET.decode_reply(reply(output=output))


# list_steps


def test_steps_are_asked_for_in_pages() -> None:
    """The flag is always sent."""
    request = ListStepsRequest(workflow_id="w", limit=5, offset=2, load_output=False)

    assert written(STEPS) == {"workflow_id": "w", "load_output": True}
    assert written(request) == {
        "workflow_id": "w",
        "load_output": False,
        "limit": 5,
        "offset": 2,
    }
    assert request.used_options() == ("limit", "offset")
    assert STEPS.used_options() == ()


def test_steps_have_all_their_fields() -> None:
    """Instants are texts here, and nulls may be absent."""
    rows = [
        {
            "function_id": 1,
            "function_name": "pack",
            "output": "'done'",
            "error": None,
            "child_workflow_id": "c",
            "started_at_epoch_ms": NOON_MS,
            "completed_at_epoch_ms": LATER_MS,
        },
        {"function_id": "2", "function_name": None, "error": "boom"},
    ]

    assert STEPS.decode_reply(reply(output=rows)) == (
        StepRow(
            step_id=1,
            step_name="pack",
            output="'done'",
            error=None,
            child_workflow_id="c",
            started_at=NOON,
            completed_at=LATER,
        ),
        StepRow(
            step_id=2,
            step_name="",
            output=None,
            error="boom",
            child_workflow_id=None,
            started_at=None,
            completed_at=None,
        ),
    )


@pytest.mark.parametrize("step_id", [None, "one", 2**31, -(2**31) - 1, True, {}])
def test_step_has_a_number_of_32_bits(step_id: object) -> None:
    """Without it nobody can fork from there."""
    with pytest.raises(FrameError, match="without a number"):
        STEPS.decode_reply(reply(output=[{"function_id": step_id}]))


def test_steps_are_no_more_than_were_asked_for() -> None:
    """Python before 2.18 does not know the limit."""
    rows = [{"function_id": number, "function_name": "pack"} for number in range(5)]
    request = ListStepsRequest(workflow_id="w", limit=2)

    assert [row.step_id for row in request.decode_reply(reply(output=rows))] == [0, 1]


# events, notifications, streams


@pytest.mark.parametrize("request_", [EVENTS, NOTIFICATIONS, STREAMS])
def test_what_belongs_to_a_workflow_is_asked_for_by_its_id(
    request_: GetWorkflowEventsRequest,
) -> None:
    """Nothing else is needed."""
    assert written(request_) == {"workflow_id": "w"}
    assert request_.used_options() == ()


def test_events_are_read() -> None:
    """A value may be empty, and a key too."""
    events = [{"key": "state", "value": "'packed'"}, {"key": "", "value": None}]

    assert EVENTS.decode_reply(reply(events=events)) == (
        EventRow(key="state", value="'packed'"),
        EventRow(key="", value=""),
    )


def test_notifications_are_read() -> None:
    """The instant is a number here."""
    notifications = [
        {
            "topic": "orders",
            "message": "'go'",
            "created_at_epoch_ms": int(NOON_MS),
            "consumed": True,
        },
        {"topic": None, "message": ""},
    ]

    assert NOTIFICATIONS.decode_reply(reply(notifications=notifications)) == (
        NotificationRow(topic="orders", message="'go'", created_at=NOON, consumed=True),
        NotificationRow(topic=None, message="", created_at=EPOCH, consumed=False),
    )


def test_streams_are_read() -> None:
    """With their values in order; Go writes an empty one as null."""
    streams = [
        {"key": "log", "values": ["1", "", "ü"]},
        {"key": "none", "values": None},
    ]

    assert STREAMS.decode_reply(reply(streams=streams)) == (
        StreamRow(key="log", values=("1", "", "ü")),
        StreamRow(key="none", values=()),
    )


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (STEPS, "output"),
        (EVENTS, "events"),
        (NOTIFICATIONS, "notifications"),
        (STREAMS, "streams"),
    ],
)
def test_lists_may_be_absent_null_or_empty(request_: Request[Any], name: str) -> None:
    """All three mean that there is nothing."""
    assert request_.decode_reply(reply()) == ()
    assert request_.decode_reply(reply(**{name: None})) == ()
    assert request_.decode_reply(reply(**{name: []})) == ()


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (STEPS, {"output": {}}),
        (EVENTS, {"events": "none"}),
        (EVENTS, {"events": [{"value": "1"}]}),
        (EVENTS, {"events": [["key", "value"]]}),
        (NOTIFICATIONS, {"notifications": {}}),
        (NOTIFICATIONS, {"notifications": ["go"]}),
        (STREAMS, {"streams": 0}),
        (STREAMS, {"streams": [{"values": []}]}),
        (STREAMS, {"streams": [{"key": "log", "values": "1"}]}),
    ],
)
def test_what_is_no_list_of_such_rows_is_refused(
    request_: Request[Any], fields: dict[str, Any]
) -> None:
    """It answers another question."""
    with pytest.raises(FrameError):
        request_.decode_reply(reply(**fields))


# whatever comes

ROW_KEYS = [
    *("WorkflowUUID", "Status", "Input", "CreatedAt", "WorkflowTimeoutMS", "Priority"),
    *("WasForkedFrom", "function_id", "function_name", "started_at_epoch_ms", "key"),
    *("value", "values", "topic", "message", "created_at_epoch_ms", "consumed"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "\0", NOON_MS, "9" * 30])
)
anything = st.recursive(
    scalars,
    lambda items: (
        st.lists(items, max_size=3)
        | st.dictionaries(st.sampled_from(ROW_KEYS), items, max_size=6)
    ),
    max_leaves=12,
)
replies = st.dictionaries(
    st.sampled_from(["output", "events", "notifications", "streams"]),
    anything
    | st.lists(st.dictionaries(st.sampled_from(ROW_KEYS), scalars, min_size=5)),
    min_size=1,
)


@given(replies, st.sampled_from([SEARCH, GET, STEPS, EVENTS, NOTIFICATIONS, STREAMS]))
def test_any_reply_is_rows_that_can_be_sent_on_or_a_frame_error(
    fields: dict[str, Any], request_: Request[Any]
) -> None:
    """Nothing else comes of what an executor writes."""
    try:
        rows = request_.decode_reply(reply(**fields))
    except FrameError:
        return

    # Strict: a text that is no UTF-8, or a number beyond 64 bits, is refused.
    sent = msgspec.json.encode(rows)
    assert b"\\u0000" not in sent
