"""How pending work is counted by its owners."""

import json
from typing import Any

import pytest

from relay.ids import AppName, AppVersion, ExecutorId, RequestId
from relay.protocol import FrameError, encode
from relay.protocol.aggregates import (
    COUNTS_LIMIT_BYTES,
    GetWorkflowAggregatesRequest,
    PendingCount,
)

COUNT = GetWorkflowAggregatesRequest(AppName("shop"))


def reply(*rows: Any) -> bytes:
    return json.dumps({"type": "any", "request_id": "r", "output": rows}).encode()


def row(count: Any = 1, **group: Any) -> dict[str, Any]:
    return {"group": group, "count": count}


def counted(executor: str | None, version: str | None, count: int) -> PendingCount:
    return PendingCount(
        ExecutorId(executor) if executor else None,
        AppVersion(version) if version else None,
        count,
    )


def test_pending_work_of_one_application_is_grouped_by_owner() -> None:
    """Every grouping flag is sent, because Java takes no null for one."""
    body = json.loads(encode(COUNT, RequestId("r")))["body"]

    assert body == {
        "group_by_status": False,
        "group_by_name": False,
        "group_by_queue_name": False,
        "group_by_executor_id": True,
        "group_by_application_version": True,
        "group_by_application_name": True,
        "select_count": True,
        "status": ["PENDING"],
        "application_name": ["shop"],
    }


def test_rows_of_one_owner_and_version_are_one_count() -> None:
    """Its own rows and those that belong to no application are both its work."""
    frame = reply(
        row(2, executor_id="e", application_version="v1", application_name="shop"),
        row(3, executor_id="e", application_version="v1", application_name=None),
        row(4, executor_id="e", application_version="v2", application_name="shop"),
    )

    assert COUNT.decode_reply(frame) == (
        counted("e", "v1", 5),
        counted("e", "v2", 4),
    )


def test_rows_of_another_application_are_left_out() -> None:
    """What an SDK says to belong elsewhere is not counted here."""
    frame = reply(
        row(2, executor_id="e", application_version="v1", application_name="billing"),
        row(1, executor_id="e", application_version="v1"),
    )

    assert COUNT.decode_reply(frame) == (counted("e", "v1", 1),)


def test_work_without_an_owner_is_counted_as_nobodys() -> None:
    """Null and empty are the same, and the keys may be missing."""
    frame = reply(row(1, executor_id=None, application_version=""), row(2))

    assert COUNT.decode_reply(frame) == (counted(None, None, 3),)


def test_identities_are_made_harmless() -> None:
    """They will be stored and shown; numbers are somebody's ids."""
    frame = reply(row(executor_id="e\0", application_version=3))

    assert COUNT.decode_reply(frame) == (counted("e", "3", 1),)


def test_an_absurd_count_fits_the_store() -> None:
    """JSON has larger numbers than a column."""
    frame = reply(row(10**30, executor_id="e", application_version="v1"))

    assert COUNT.decode_reply(frame) == (counted("e", "v1", 2**63 - 1),)


def test_a_null_list_counts_nothing() -> None:
    """An SDK may write an empty list as null."""
    frame = json.dumps({"type": "any", "request_id": "r", "output": None}).encode()

    assert COUNT.decode_reply(frame) == ()


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b'{"type":"any","request_id":"r"}', "no list"),
        (b'{"output":{}}', "no list"),
        (reply("e"), "without saying what"),
        (reply({"count": 1}), "without saying what"),
        (reply({"group": [], "count": 1}), "without saying what"),
        (reply({"group": {}}), "without a count"),
        (reply(row(None)), "without a count"),
        (reply(row(True)), "without a count"),
        (reply(row("5")), "without a count"),
        (reply(row(-1)), "without a count"),
    ],
)
def test_an_incomplete_count_is_never_a_small_one(frame: bytes, reason: str) -> None:
    """Work that is missing would vanish from what the operator is shown."""
    with pytest.raises(FrameError, match=reason):
        COUNT.decode_reply(frame)


def test_a_count_of_everything_is_not_built() -> None:
    """A million groups would stop the loop for seconds."""
    with pytest.raises(FrameError, match="no count of pending"):
        COUNT.decode_reply(b'{"output":[' + b" " * COUNTS_LIMIT_BYTES + b"]}")
