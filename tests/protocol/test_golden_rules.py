"""
What every frame that Relay sends has to satisfy, whoever reads it.

Each rule stands for an SDK that drops the connection, does not answer or ends its
application without it.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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

REQUIRED = {
    "executor_info": set(),
    "recovery": {"executor_ids"},
    "exist_pending_workflows": {"executor_id", "application_version"},
    "list_workflows": {
        "body",
        "body.sort_desc",
        "body.load_input",
        "body.load_output",
        "body.queues_only",
        "body.limit",
    },
    "get_workflow_aggregates": {
        "body",
        "body.group_by_executor_id",
        "body.group_by_application_version",
        "body.group_by_application_name",
        "body.select_count",
        "body.status",
    },
    "retention": {
        "body",
        "body.gc_cutoff_epoch_ms",
        "body.gc_rows_threshold",
        "body.timeout_cutoff_epoch_ms",
    },
}
"""Keys without which Python, TypeScript, Go or Java misbehaves."""

NULLABLE = {
    "retention": {
        "body.gc_cutoff_epoch_ms",
        "body.gc_rows_threshold",
        "body.timeout_cutoff_epoch_ms",
    }
}
"""Keys that every SDK reads as "off" when they are null."""

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


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value below `value`, with its dotted path."""
    items: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = ((index, item) for index, item in enumerate(value))
    for key, item in items:
        below = f"{path}.{key}" if path else str(key)
        yield below, item
        yield from walk(item, below)


def forbid_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


@given(requests)
def test_every_frame_follows_the_golden_rules(request: Request[Any]) -> None:
    """Whatever Relay asks, all four SDKs can read it."""
    request_id = RequestId(new_id())

    text = encode(request, request_id)

    frame = json.loads(text, object_pairs_hook=forbid_repeated_keys)
    found = dict(walk(frame))
    message_type = request.message_type
    assert list(frame)[:2] == ["type", "request_id"]
    assert (frame["type"], frame["request_id"]) == (message_type, request_id)
    assert found.keys() >= REQUIRED[message_type]
    assert not [
        path
        for path, value in found.items()
        if value is None and path not in NULLABLE.get(message_type, ())
    ]
    assert not [path for path, value in found.items() if value == []]
    assert not [path for path, value in found.items() if isinstance(value, float)]
    assert isinstance(frame.get("body", {}), dict)
    assert text.isascii()
    assert '"import_workflow"' not in text
