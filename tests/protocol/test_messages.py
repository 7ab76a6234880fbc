"""Each request's fields, and how its replies are read in the forms they take."""

from datetime import UTC, datetime
from typing import Any

import pytest

from relay.errors import InvalidInputError
from relay.ids import AppName, AppVersion, ExecutorId, RequestId, WorkflowId
from relay.protocol import FrameError, Request, encode
from relay.protocol.messages import (
    LISTED_ROW_LIMIT_BYTES,
    Acknowledgement,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
    WorkflowStatus,
    WorkflowSummary,
)
from tests.protocol.fields import reply, written

LISTING = ListWorkflowsRequest((), (), (), 101)
EXISTENCE = ExistPendingWorkflowsRequest(ExecutorId("dead"), AppVersion("v1"))
ORDER = RecoveryRequest((ExecutorId("dead"),))
RETENTION = RetentionRequest(
    gc_cutoff=None, gc_rows_threshold=None, timeout_cutoff=None
)


# recovery


def test_recovery_names_the_dead() -> None:
    """One order may name several executors."""
    order = RecoveryRequest((ExecutorId("a"), ExecutorId("b")))

    assert written(order) == {"executor_ids": ["a", "b"]}


def test_recovery_of_nobody_is_refused() -> None:
    """An empty order would succeed everywhere and mean nothing."""
    with pytest.raises(InvalidInputError, match="must not be empty"):
        encode(RecoveryRequest(()), RequestId("r"))


@pytest.mark.parametrize("request_", [ORDER, RETENTION], ids=["recovery", "retention"])
@pytest.mark.parametrize(
    ("fields", "success"),
    [
        ({"success": True}, True),
        ({"success": True, "error_message": None}, True),
        ({"success": False}, False),
        ({"success": None}, False),
        ({"success": "true"}, False),
        ({"success": 1}, False),
        ({}, False),
    ],
)
def test_only_a_plain_yes_is_an_acknowledgement(
    request_: Request[Acknowledgement], fields: dict[str, Any], *, success: bool
) -> None:
    """A reply without a result is a failure, with or without a message."""
    assert request_.decode_reply(reply(**fields)) == Acknowledgement(success)


# exist_pending_workflows


def test_existence_is_asked_of_one_executor_and_version() -> None:
    """Both values are those of the dead executor."""
    assert written(EXISTENCE) == {"executor_id": "dead", "application_version": "v1"}


@pytest.mark.parametrize("exist", [True, False])
def test_existence_is_a_plain_yes_or_no(*, exist: bool) -> None:
    """The answer on which a record is kept or deleted."""
    assert EXISTENCE.decode_reply(reply(exist=exist)) is exist


@pytest.mark.parametrize(
    "fields", [{}, {"exist": None}, {"exist": 0}, {"exist": "false"}, {"exist": []}]
)
def test_unclear_existence_is_never_a_no(fields: dict[str, Any]) -> None:
    """A no deletes the record of the work's owner; silence must not."""
    with pytest.raises(FrameError, match="does not say"):
        EXISTENCE.decode_reply(reply(**fields))


# list_workflows


def test_listing_always_sends_every_flag() -> None:
    """SDKs disagree about what a missing flag means."""
    assert written(LISTING) == {
        "body": {
            "sort_desc": False,
            "load_input": False,
            "load_output": False,
            "queues_only": False,
            "limit": 101,
        }
    }


def test_listing_filters_by_what_it_is_given() -> None:
    """A single value is sent bare, for SDKs without lists; the owner is a list."""
    listing = ListWorkflowsRequest(
        executor_ids=(ExecutorId("a"),),
        app_versions=(AppVersion("v1"), AppVersion("v2")),
        statuses=(WorkflowStatus.PENDING,),
        limit=5,
        application=AppName("shop"),
    )

    body = written(listing)["body"]

    assert body["executor_id"] == "a"
    assert body["application_version"] == ["v1", "v2"]
    assert body["status"] == "PENDING"
    assert body["application_name"] == ["shop"]


def test_listing_by_id_is_a_list_and_scoped_to_no_application() -> None:
    """Reads by id reach rows of every owner, as long as no owner is named."""
    listing = ListWorkflowsRequest((), (), (), 1, workflow_ids=(WorkflowId("w"),))

    body = written(listing)["body"]

    assert body["workflow_uuids"] == ["w"]
    assert "application_name" not in body


def test_listing_may_begin_with_the_newest() -> None:
    """Its order is always by age."""
    listing = ListWorkflowsRequest((), (), (), 1, newest_first=True)

    assert written(listing)["body"]["sort_desc"] is True


@pytest.mark.parametrize("limit", [0, -1])
def test_listing_needs_a_positive_limit(limit: int) -> None:
    """Zero is everything to some SDKs and nothing to others."""
    with pytest.raises(InvalidInputError) as refusal:
        encode(ListWorkflowsRequest((), (), (), limit), RequestId("r"))

    assert refusal.value.location == "list_workflows.limit"


def test_listing_reads_rows_of_any_sdk() -> None:
    """Keys may be absent or null, and unknown ones are ignored."""
    rows = [
        {"WorkflowUUID": "w1", "Status": None, "Request": None, "ExecutorID": ""},
        {
            "WorkflowUUID": 2,
            "Status": "FROZEN",
            "WorkflowName": "n",
            "ExecutorID": "e",
            "ApplicationVersion": 3,
            "CreatedAt": "1790000000123",
        },
    ]

    assert LISTING.decode_reply(reply(output=rows)) == (
        WorkflowSummary(WorkflowId("w1"), None, None, None, None),
        WorkflowSummary(
            WorkflowId("2"),
            "n",
            "FROZEN",
            ExecutorId("e"),
            AppVersion("3"),
            "1790000000123",
        ),
    )


def test_listing_takes_no_more_rows_than_it_asked_for() -> None:
    """An SDK that ignores the limit must not have us build what nobody reads."""
    rows = [{"WorkflowUUID": f"w{number}"} for number in range(LISTING.limit)]

    listed = LISTING.decode_reply(reply(output=[*rows, {"Status": "PENDING"}]))

    assert [row.id for row in listed] == [row["WorkflowUUID"] for row in rows]


def test_listing_that_ignores_the_limit_is_not_built() -> None:
    """A million rows would stop the loop for seconds, and with it every pong."""
    row = b'{"WorkflowUUID":"w"}'
    size = LISTING.limit * LISTED_ROW_LIMIT_BYTES // len(row)

    with pytest.raises(FrameError, match="no listing of 101 rows"):
        LISTING.decode_reply(b'{"output":[' + b",".join([row] * size) + b"]}")


@pytest.mark.parametrize("output", [None, []])
def test_null_listing_is_an_empty_one(output: object) -> None:
    """An SDK may write an empty list as null."""
    assert LISTING.decode_reply(reply(output=output)) == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "no list"),
        ({"output": {}}, "no list"),
        ({"output": "none"}, "no list"),
        ({"output": [{"WorkflowUUID": "w"}, {"Status": "PENDING"}]}, "without an id"),
        ({"output": [{"WorkflowUUID": ""}]}, "without an id"),
        ({"output": ["w"]}, "without an id"),
    ],
)
def test_incomplete_listing_is_never_a_short_one(
    fields: dict[str, Any], reason: str
) -> None:
    """Missing work must not pass for no work."""
    with pytest.raises(FrameError, match=reason):
        LISTING.decode_reply(reply(**fields))


# retention


def test_retention_always_sends_its_three_keys() -> None:
    """Python fails without a key, so "off" is null."""
    assert written(RETENTION) == {
        "body": {
            "gc_cutoff_epoch_ms": None,
            "gc_rows_threshold": None,
            "timeout_cutoff_epoch_ms": None,
            "gc_batch_size": 10_000,
        }
    }


def test_retention_cuts_off_at_whole_milliseconds() -> None:
    """Rounded down: never later than asked, so that never more is deleted."""
    retention = RetentionRequest(
        gc_cutoff=datetime(2026, 1, 1, 0, 0, 0, 1999, tzinfo=UTC),
        gc_rows_threshold=1,
        timeout_cutoff=datetime(1970, 1, 1, tzinfo=UTC),
    )

    assert written(retention)["body"] == {
        "gc_cutoff_epoch_ms": 1_767_225_600_001,
        "gc_rows_threshold": 1,
        "timeout_cutoff_epoch_ms": 0,
        "gc_batch_size": 10_000,
    }


@pytest.mark.parametrize("threshold", [0, -5])
def test_retention_never_keeps_nothing(threshold: int) -> None:
    """Zero rows would be everything deleted, or an error in the log of an app."""
    retention = RetentionRequest(
        gc_cutoff=None, gc_rows_threshold=threshold, timeout_cutoff=None
    )

    with pytest.raises(InvalidInputError) as refusal:
        encode(retention, RequestId("r"))

    assert refusal.value.location == "retention.gc_rows_threshold"
