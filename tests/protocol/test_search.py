"""Searching workflows: what is asked, and how lists of them are read."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from relay.errors import InvalidInputError
from relay.ids import AppName, RequestId
from relay.protocol import FrameError, Request, encode
from relay.protocol.workflows import (
    ListStepsRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
)
from tests.protocol.fields import reply, written

NOON = datetime(2026, 9, 21, 12, 0, 0, tzinfo=UTC)


def search(
    *, matching: WorkflowFilter | None = None, **options: Any
) -> SearchWorkflowsRequest:
    return SearchWorkflowsRequest(
        filter=matching or WorkflowFilter(), application=AppName("shop"), **options
    )


def body_of(**conditions: Any) -> dict[str, Any]:
    """What a search with these conditions writes."""
    fields: dict[str, Any] = written(search(matching=WorkflowFilter(**conditions)))
    body: dict[str, Any] = fields["body"]
    return body


# the question


def test_search_always_sends_every_flag_and_its_application() -> None:
    """SDKs disagree about what a missing flag means, and share databases."""
    assert written(search()) == {
        "body": {
            "sort_desc": False,
            "load_input": False,
            "load_output": False,
            "queues_only": False,
            "application_name": ["shop"],
        }
    }


def test_search_by_id_may_look_beyond_its_application() -> None:
    """With the name of one, SDKs leave out what belongs to another; a null is none."""
    request = SearchWorkflowsRequest(
        filter=WorkflowFilter(workflow_ids=("w1", "w2")), application=None
    )

    assert "application_name" not in written(request)["body"]


def test_search_writes_every_condition_under_its_name_on_the_wire() -> None:
    """The words of REST are ours, those of the wire are not."""
    body = body_of(
        workflow_ids=("w1",),
        workflow_name=("pack", "ship"),
        user=("ada",),
        status=("PENDING",),
        app_version=("v1", "v2"),
        forked_from=("w0",),
        parent_workflow_id=("p",),
        queue_name=("q",),
        executor_id=("e",),
        schedule_name=("s",),
        workflow_id_prefix=("w",),
        start_time=NOON,
        end_time=NOON,
        completed_after=NOON,
        completed_before=NOON,
        dequeued_after=NOON,
        dequeued_before=NOON,
        has_parent=False,
        was_forked_from=True,
        attributes={"buyer": "ada"},
    )

    instant = "2026-09-21T12:00:00.000+00:00"
    assert (
        body.items()
        >= {
            "workflow_uuids": ["w1"],
            "workflow_name": ["pack", "ship"],
            "authenticated_user": "ada",
            "status": "PENDING",
            "application_version": ["v1", "v2"],
            "forked_from": "w0",
            "parent_workflow_id": "p",
            "queue_name": "q",
            "executor_id": "e",
            "schedule_name": "s",
            "workflow_id_prefix": "w",
            "start_time": instant,
            "end_time": instant,
            "completed_after": instant,
            "completed_before": instant,
            "dequeued_after": instant,
            "dequeued_before": instant,
            "has_parent": False,
            "was_forked_from": True,
            "attributes": {"buyer": "ada"},
        }.items()
    )


def test_blank_conditions_are_none() -> None:
    """An empty list is invalid SQL to one SDK and no condition to another."""
    blank = body_of(
        workflow_ids=("", " "), status=(), user=("",), attributes={}, has_parent=None
    )

    assert blank == body_of()
    assert body_of(user=("", "ada"))["authenticated_user"] == "ada"


def test_attributes_are_sent_as_they_are() -> None:
    """They are data: fractions, nulls and empty lists mean something there."""
    attributes = {"weight": 1.5, "gone": None, "tags": [], "deep": [{"a": [True, 7]}]}

    assert body_of(attributes=attributes)["attributes"] == attributes


@pytest.mark.parametrize(
    "attributes",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 2**53},
        {"a": ["x\0"]},
        {"a\ud800": 1},
    ],
)
def test_attributes_that_would_arrive_changed_are_refused(
    attributes: dict[str, Any],
) -> None:
    """A search for something else than was written is a wrong answer."""
    with pytest.raises(InvalidInputError) as refusal:
        body_of(attributes=attributes)

    assert refusal.value.location.startswith("list_workflows.body.attributes")


def test_attributes_may_not_be_nested_without_end() -> None:
    """No stack of any reader is to overflow."""
    nested: list[Any] = []
    for _ in range(40):
        nested = [nested]

    with pytest.raises(InvalidInputError, match="deeper than 32"):
        body_of(attributes={"a": nested})


@pytest.mark.parametrize(
    "instant",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_instant_outside_the_calendar_is_refused(instant: datetime) -> None:
    """In UTC it has no year."""
    with pytest.raises(InvalidInputError, match="years 1 and 9999") as refusal:
        body_of(start_time=instant)

    assert refusal.value.location == "list_workflows.body.start_time"


@pytest.mark.parametrize("request_", [search(limit=0, offset=0), search()])
def test_limit_of_zero_is_no_limit(request_: SearchWorkflowsRequest) -> None:
    """Zero is everything to two SDKs and nothing to the others."""
    assert written(request_)["body"].keys().isdisjoint({"limit", "offset"})


def test_search_pages_and_orders() -> None:
    """By age, from the oldest or the newest."""
    body = written(search(limit=5, offset=10, newest_first=True, queues_only=True))

    assert (
        body["body"].items()
        >= {
            "limit": 5,
            "offset": 10,
            "sort_desc": True,
            "queues_only": True,
        }.items()
    )


@pytest.mark.parametrize(
    ("request_", "location"),
    [
        (search(limit=-1), "list_workflows.limit"),
        (search(offset=-1), "list_workflows.offset"),
        (ListStepsRequest(workflow_id="w", limit=-1), "list_steps.limit"),
        (search(limit=2**53), "list_workflows.body.limit"),
    ],
)
def test_page_that_does_not_exist_is_refused(
    request_: Request[Any], location: str
) -> None:
    """Nothing is sent."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(request_, RequestId("r"))

    assert refusal.value.location == location


def test_search_names_the_options_that_are_set() -> None:
    """By which it is told whether an SDK would leave one out of account."""
    request = search(
        matching=WorkflowFilter(
            has_parent=False, attributes={"a": 1}, user=("",), workflow_ids=("w",)
        ),
        limit=5,
        offset=0,
        newest_first=True,
        queues_only=True,
        load_input=True,
    )

    assert request.used_options() == (
        "workflow_ids",
        "has_parent",
        "attributes",
        "limit",
        "sort_desc",
        "queues_only",
    )
    assert search().used_options() == ()


# the answer


def test_search_takes_no_more_rows_than_it_asked_for() -> None:
    """Not even wrong ones."""
    rows = [{"WorkflowUUID": "a"}, {"WorkflowUUID": "b"}, {"Status": "PENDING"}]

    listed = search(limit=2).decode_reply(reply(output=rows))

    assert [row.workflow_id for row in listed] == ["a", "b"]


def test_half_a_character_in_a_large_listing_costs_nothing_but_itself() -> None:
    """However large the listing, its other workflows are all there."""
    rows = [{"WorkflowUUID": f"w{index}", "Input": "x" * 1024} for index in range(2048)]
    rows[7]["Output"] = "half \ud800"

    listed = search().decode_reply(reply(output=rows))

    assert len(listed) == 2048
    assert listed[7].output == "half "


@pytest.mark.parametrize("output", [None, []])
def test_null_search_is_an_empty_one(output: object) -> None:
    """An SDK may write an empty list as null."""
    assert search().decode_reply(reply(output=output)) == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "no list"),
        ({"output": {}}, "no list"),
        ({"output": "none"}, "no list"),
        ({"output": [{"WorkflowUUID": "w"}, {"Status": "PENDING"}]}, "without an id"),
        ({"output": [{"WorkflowUUID": ""}]}, "without an id"),
        ({"output": [{"WorkflowUUID": {}}]}, "without an id"),
        ({"output": ["w"]}, "not a JSON object"),
        ({"output": [None]}, "not a JSON object"),
    ],
)
def test_incomplete_search_is_never_a_short_one(
    fields: dict[str, Any], reason: str
) -> None:
    """Missing workflows must not pass for no workflows."""
    with pytest.raises(FrameError, match=reason):
        search().decode_reply(reply(**fields))
