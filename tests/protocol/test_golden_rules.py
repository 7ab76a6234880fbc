"""
What every frame that Relay sends has to satisfy, whoever reads it.

Each rule stands for an SDK that drops the connection, does not answer or ends its
application without it.
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relay.errors import InvalidInputError
from relay.ids import AppName, AppVersion, ExecutorId, RequestId, WorkflowId, new_id
from relay.protocol import Request, encode
from relay.protocol.aggregates import GetWorkflowAggregatesRequest
from relay.protocol.messages import (
    ExecutorInfoRequest,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
    WorkflowStatus,
)
from relay.protocol.workflow_orders import (
    CancelRequest,
    DeleteRequest,
    ExportWorkflowRequest,
    ForkFromFailureRequest,
    ForkWorkflowRequest,
    FromLastFailure,
    FromLastStep,
    FromStep,
    FromStepName,
    ImportWorkflowRequest,
    ResumeRequest,
    RewindWorkflowRequest,
)
from relay.protocol.workflows import (
    GetWorkflowEventsRequest,
    GetWorkflowNotificationsRequest,
    GetWorkflowRequest,
    GetWorkflowStreamsRequest,
    ListStepsRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
)
from tests.protocol.catalogue import check_frame

texts = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
) | st.just("import_workflow")
executor_ids = texts.map(ExecutorId)
app_versions = texts.map(AppVersion)
applications = st.sampled_from([AppName("shop"), AppName("import_workflow")])
instants = st.datetimes(
    min_value=datetime(1971, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
)
positive = st.integers(1, 2**53 - 1)

anything = st.text(max_size=8) | st.sampled_from(["", " ", "import_workflow", "\ud800"])
several = st.lists(anything, max_size=3).map(tuple)
any_instants = st.datetimes(timezones=st.timezones())
numbers = st.integers() | st.integers(-1, 100)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | anything,
    lambda items: (
        st.lists(items, max_size=3) | st.dictionaries(anything, items, max_size=3)
    ),
    max_leaves=8,
)
filters = st.builds(
    WorkflowFilter,
    workflow_ids=several,
    workflow_name=several,
    user=several,
    status=several,
    app_version=several,
    forked_from=several,
    parent_workflow_id=several,
    queue_name=several,
    executor_id=several,
    schedule_name=several,
    workflow_id_prefix=several,
    start_time=st.none() | any_instants,
    end_time=st.none() | any_instants,
    completed_after=st.none() | any_instants,
    completed_before=st.none() | any_instants,
    dequeued_after=st.none() | any_instants,
    dequeued_before=st.none() | any_instants,
    has_parent=st.none() | st.booleans(),
    was_forked_from=st.none() | st.booleans(),
    attributes=st.none() | st.dictionaries(anything, data, max_size=3),
)
modes = st.one_of(
    st.builds(FromLastFailure),
    st.builds(FromLastStep),
    st.builds(FromStep, numbers),
    st.builds(FromStepName, anything),
)

orders: st.SearchStrategy[Request[Any]] = st.one_of(
    st.builds(
        SearchWorkflowsRequest,
        filter=filters,
        application=st.none() | applications,
        limit=st.none() | numbers,
        offset=st.none() | numbers,
        newest_first=st.booleans(),
        queues_only=st.booleans(),
        load_input=st.booleans(),
        load_output=st.booleans(),
    ),
    st.builds(
        GetWorkflowRequest,
        workflow_id=anything,
        load_input=st.booleans(),
        load_output=st.booleans(),
    ),
    st.builds(
        ListStepsRequest,
        workflow_id=anything,
        limit=st.none() | numbers,
        offset=st.none() | numbers,
        load_output=st.booleans(),
    ),
    st.builds(GetWorkflowEventsRequest, workflow_id=anything),
    st.builds(GetWorkflowNotificationsRequest, workflow_id=anything),
    st.builds(GetWorkflowStreamsRequest, workflow_id=anything),
    st.builds(CancelRequest, workflow_ids=several, cancel_children=st.booleans()),
    st.builds(ResumeRequest, workflow_ids=several, queue_name=st.none() | anything),
    st.builds(DeleteRequest, workflow_ids=several, delete_children=st.booleans()),
    st.builds(
        ForkWorkflowRequest,
        workflow_id=anything,
        start_step=numbers,
        app_version=st.none() | anything,
        new_workflow_id=st.none() | anything,
        queue_name=st.none() | anything,
        queue_partition_key=st.none() | anything,
    ),
    st.builds(
        ForkFromFailureRequest,
        workflow_ids=several,
        mode=modes,
        app_version=st.none() | anything,
        queue_name=st.none() | anything,
        queue_partition_key=st.none() | anything,
    ),
    st.builds(
        RewindWorkflowRequest,
        workflow_id=anything,
        start_step=numbers,
        app_version=st.none() | anything,
        queue_name=st.none() | anything,
        queue_partition_key=st.none() | anything,
    ),
    st.builds(
        ExportWorkflowRequest, workflow_id=anything, export_children=st.booleans()
    ),
    st.builds(ImportWorkflowRequest, serialized_workflow=anything),
)
"""What callers of REST can ask for, good or bad."""

requests: st.SearchStrategy[Request[Any]] = st.one_of(
    st.builds(ExecutorInfoRequest),
    st.builds(
        RecoveryRequest,
        st.lists(executor_ids, min_size=1, max_size=100).map(tuple),
    ),
    st.builds(ExistPendingWorkflowsRequest, executor_ids, app_versions),
    st.builds(
        ListWorkflowsRequest,
        executor_ids=st.lists(executor_ids, max_size=3).map(tuple),
        app_versions=st.lists(app_versions, max_size=3).map(tuple),
        statuses=st.lists(st.sampled_from(WorkflowStatus), max_size=7).map(tuple),
        limit=positive,
        application=st.none() | applications,
        workflow_ids=st.lists(texts.map(WorkflowId), max_size=3).map(tuple),
        newest_first=st.booleans(),
    ),
    st.builds(GetWorkflowAggregatesRequest, applications),
    st.builds(
        RetentionRequest,
        gc_cutoff=st.none() | instants,
        gc_rows_threshold=st.none() | positive,
        timeout_cutoff=st.none() | instants,
    ),
)


BOUNDS: dict[type, set[str]] = {
    ListWorkflowsRequest: {"limit"},
    GetWorkflowAggregatesRequest: {"status", "application_name"},
}
"""What keeps the questions that Relay asks for itself from becoming endless."""


@given(requests)
def test_every_frame_follows_the_golden_rules(request: Request[Any]) -> None:
    """Whatever Relay asks, all four SDKs can read it."""
    request_id = RequestId(new_id())

    frame = check_frame(encode(request, request_id))

    assert (frame["type"], frame["request_id"]) == (request.message_type, request_id)
    assert frame.get("body", {}).keys() >= BOUNDS.get(type(request), set())


@given(orders)
def test_whatever_a_user_writes_is_sent_by_the_rules_or_refused(
    request: Request[Any],
) -> None:
    """Nothing a caller of REST can write ends an application or its connection."""
    try:
        text = encode(request, RequestId(new_id()))
    except InvalidInputError as refusal:
        assert refusal.location.startswith(request.message_type)  # noqa: PT017 - one of two good ends
        return

    check_frame(text)


LISTED = {
    "workflow_ids": "workflow_uuids",
    "user": "authenticated_user",
    "app_version": "application_version",
}
"""The filters of a list that are called otherwise on the wire than in REST."""


@given(filters)
def test_a_filter_names_what_it_sets(chosen: WorkflowFilter) -> None:
    """What is named is written, and nothing else is."""
    request = SearchWorkflowsRequest(filter=chosen, application=AppName("shop"))
    bare = SearchWorkflowsRequest(filter=WorkflowFilter(), application=AppName("shop"))

    body, without = request.fields()["body"], bare.fields()["body"]

    assert isinstance(body, dict)
    assert isinstance(without, dict)
    added = {name: body[name] for name in body.keys() - without.keys()}
    assert added.keys() == {LISTED.get(name, name) for name in request.used_options()}
    assert added == {
        LISTED.get(name, name): as_listed(name, value)
        for name, value in chosen.conditions().items()
    }
    assert {name: body[name] for name in without} == without


def as_listed(name: str, value: object) -> object:
    """One value goes without a list, which old SDKs do not read; ids never do."""
    match value:
        case (only,) if name != "workflow_ids":
            return only
        case _:
            return value
