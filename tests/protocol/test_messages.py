"""Each request's fields, and how its replies are read in the forms they take."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relay.errors import InvalidInputError
from relay.ids import AppName, AppVersion, ExecutorId, RequestId, WorkflowId
from relay.protocol import FrameError, Request, encode
from relay.protocol.messages import (
    IDENTITY_LIMIT_CHARS,
    LISTED_ROW_LIMIT_BYTES,
    Acknowledgement,
    ExecutorInfo,
    ExecutorInfoRequest,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
    WorkflowStatus,
    WorkflowSummary,
)
from relay.protocol.sanitising import METADATA_LIMIT_BYTES

LISTING = ListWorkflowsRequest((), (), (), 101)
EXISTENCE = ExistPendingWorkflowsRequest(ExecutorId("dead"), AppVersion("v1"))
ORDER = RecoveryRequest((ExecutorId("dead"),))
RETENTION = RetentionRequest(
    gc_cutoff=None, gc_rows_threshold=None, timeout_cutoff=None
)

any_text = st.text(st.characters(categories=None))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
)


def reply(**fields: Any) -> bytes:
    """A frame as Python executors write it, NaN tokens included."""
    return json.dumps({"type": "any", "request_id": "r", **fields}).encode()


def written(request: Request[Any]) -> dict[str, Any]:
    """The fields of a request as they arrive."""
    frame: dict[str, Any] = json.loads(encode(request, RequestId("r")))
    del frame["type"], frame["request_id"]
    return frame


def list_parts(value: Any) -> Iterator[Any]:
    """Every key and value in decoded JSON."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from list_parts(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_parts(item)
    else:
        yield value


def read_info(**fields: Any) -> ExecutorInfo:
    return ExecutorInfoRequest().decode_reply(reply(**fields))


# executor_info


def test_executor_info_is_asked_bare() -> None:
    """The question has no fields."""
    assert written(ExecutorInfoRequest()) == {}


def test_minimal_executor_info_is_accepted() -> None:
    """The oldest SDKs say no more than their id."""
    assert read_info(executor_id="e") == ExecutorInfo(
        executor_id=ExecutorId("e"),
        application_version=AppVersion(""),
        hostname=None,
        language=None,
        dbos_version=None,
        metadata=None,
    )


def test_identity_may_be_a_number() -> None:
    """A configured number stays recognisable."""
    info = read_info(executor_id=7, application_version=12)

    assert (info.executor_id, info.application_version) == ("7", "12")


@pytest.mark.parametrize("executor_id", [None, "", "\0", "\ud800"])
def test_executor_without_an_id_is_refused(executor_id: str | None) -> None:
    """Nobody could be declared dead, or recovered."""
    with pytest.raises(FrameError, match="names no executor id"):
        read_info(executor_id=executor_id)


@pytest.mark.parametrize("name", ["executor_id", "application_version"])
@pytest.mark.parametrize("value", [True, 1.5, ["e"], {"id": "e"}])
def test_identity_that_is_no_text_is_refused(name: str, value: object) -> None:
    """A guessed id or version would be asked about, and have nothing pending."""
    with pytest.raises(FrameError, match="is no text"):
        read_info(**{"executor_id": "e", name: value})


@pytest.mark.parametrize("name", ["executor_id", "application_version"])
def test_identity_is_never_cut(name: str) -> None:
    """A shortened id or version would name somebody else."""
    fields = {"executor_id": "e", name: "x" * (IDENTITY_LIMIT_CHARS + 1)}

    with pytest.raises(FrameError, match="longer than") as error:
        read_info(**fields)

    assert "xx" not in str(error.value)


@pytest.mark.parametrize("name", ["hostname", "language", "dbos_version"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\0b", "ab"),
        ("x" * 600, "x" * IDENTITY_LIMIT_CHARS),
        (42, "42"),
        ("", None),
        (None, None),
        (True, None),
        (1.5, None),
        ({"a": 1}, None),
    ],
)
def test_labels_are_made_presentable(
    name: str, value: object, expected: str | None
) -> None:
    """What only people read is cut and cleaned, and never costs the connection."""
    assert getattr(read_info(executor_id="e", **{name: value}), name) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"a": float("nan")}, {"a": "NaN"}),
        ({"a": [float("inf"), float("-inf")]}, {"a": ["Infinity", "-Infinity"]}),
        ({"k\0ey": "v\0alue"}, {"key": "value"}),
        ({"a": "\udc00!"}, {"a": "!"}),
        ({"a": 2**70}, {"a": str(2**70)}),
        ({"a": 1, "b": None, "c": True, "d": 0.5}, None),
        ({}, {}),
    ],
)
def test_metadata_is_made_storable(
    metadata: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """What no database or JSON can hold becomes text or vanishes; the rest stays."""
    info = read_info(executor_id="e", executor_metadata=metadata)

    assert info.metadata == (metadata if expected is None else expected)


@pytest.mark.parametrize("metadata", [None, [1], "text", 5])
def test_metadata_that_is_no_mapping_is_ignored(metadata: object) -> None:
    """It costs nothing but itself."""
    assert read_info(executor_id="e", executor_metadata=metadata).metadata is None


def test_infinite_float_of_strict_json_becomes_text() -> None:
    """A number can overflow without being spelled as infinite."""
    info = ExecutorInfoRequest().decode_reply(
        b'{"executor_id": "e", "executor_metadata": {"a": [1e999, -1e999]}}'
    )

    assert info.metadata == {"a": ["Infinity", "-Infinity"]}


def test_large_metadata_is_replaced_by_a_remark() -> None:
    """The executor is kept, and its owner can see why the metadata is not."""
    kept = read_info(
        executor_id="e", executor_metadata={"a": "x" * (METADATA_LIMIT_BYTES - 8)}
    )
    dropped = read_info(
        executor_id="e", executor_metadata={"a": "x" * (METADATA_LIMIT_BYTES - 7)}
    )

    assert kept.metadata == {"a": "x" * (METADATA_LIMIT_BYTES - 8)}
    assert dropped.metadata == {
        "dropped": "larger than 65536 bytes",
        "size_bytes": METADATA_LIMIT_BYTES + 1,
    }


def test_huge_metadata_is_not_even_built() -> None:
    """A frame of megabytes costs no more than finding the identity in it."""
    frame = reply(
        executor_id="e", hostname="box", executor_metadata={"a": ["x"] * 500_000}
    )

    info = ExecutorInfoRequest().decode_reply(frame)

    assert (info.executor_id, info.hostname) == ("e", "box")
    assert info.metadata is not None
    assert info.metadata["size_bytes"] == len(frame)


def test_deep_metadata_ends_in_a_remark() -> None:
    """Depth is bounded far below what readers can take."""
    nested: dict[str, Any] = {}
    for _ in range(40):
        nested = {"a": [nested]}

    info = read_info(executor_id="e", executor_metadata=nested)

    assert json.dumps(info.metadata).count("(nested too deeply)") == 1
    assert json.dumps(info.metadata).count("[") == 16


@settings(deadline=None)  # building a large example may take long on a busy machine
@given(
    executor_id=st.just("e") | any_json,
    others=st.dictionaries(
        st.sampled_from(
            ["application_version", "hostname", "language", "dbos_version"]
        ),
        any_json,
    ),
    metadata=any_json | st.dictionaries(any_text, any_json),
    is_ascii=st.booleans(),
)
def test_any_executor_info_is_harmless_or_refused(
    executor_id: Any, others: dict[str, Any], metadata: Any, *, is_ascii: bool
) -> None:
    """Whatever an executor says of itself can be stored, logged and sent on."""
    fields = {"executor_id": executor_id, "executor_metadata": metadata, **others}
    text = json.dumps(fields, ensure_ascii=is_ascii)

    try:
        info = ExecutorInfoRequest().decode_reply(text.encode("utf-8", "surrogatepass"))
    except FrameError:
        return

    assert info.executor_id
    for part in list_parts(asdict(info)):
        assert not isinstance(part, str) or "\0" not in part
    # Neither NaN nor half a character is left.
    assert json.dumps(asdict(info), ensure_ascii=False, allow_nan=False).encode()


@settings(deadline=None)  # the deep examples are large
@given(st.integers(1, 3000), st.sampled_from([("[", "]"), ('{"a":', "}")]))
@example(100_000, ("[", "]"))
@example(20_000, ('{"a":', "}"))
def test_deep_executor_info_is_harmless_or_refused(
    depth: int, brackets: tuple[str, str]
) -> None:
    """No depth brings the process down."""
    opening, closing = brackets
    inner = opening * depth + "1" + closing * depth
    frame = f'{{"executor_id": "e", "executor_metadata": {{"a": {inner}}}}}'

    try:
        info = ExecutorInfoRequest().decode_reply(frame.encode())
    except FrameError:
        return

    assert json.dumps(info.metadata)


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
