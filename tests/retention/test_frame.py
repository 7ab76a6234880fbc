"""From the settings of an application to the frame."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay.ids import RequestId
from relay.protocol.envelope import encode
from relay.records import ApplicationRecord
from relay.retention import make_request
from tests.retention.room import HOUR, settings_of


def frame_of(application: ApplicationRecord, now: datetime) -> dict[str, Any]:
    request = make_request(application, now)
    assert request is not None
    frame: dict[str, Any] = json.loads(encode(request, RequestId("r-1")))
    return frame


def test_frame_holds_cut_offs_in_milliseconds() -> None:
    """Now minus each setting, since 1970; the batch size is always the same."""
    now = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
    now_ms = 1767323045678
    application = settings_of(
        age=timedelta(days=30), rows=5000, overdue=timedelta(hours=2)
    )

    frame = frame_of(application, now)

    assert frame == {
        "type": "retention",
        "request_id": "r-1",
        "body": {
            "gc_cutoff_epoch_ms": now_ms - 30 * 24 * 60 * 60 * 1000,
            "gc_rows_threshold": 5000,
            "timeout_cutoff_epoch_ms": now_ms - 2 * 60 * 60 * 1000,
            "gc_batch_size": 10000,
        },
    }


def test_one_millisecond_is_one_millisecond() -> None:
    """Nothing on the way counts in seconds."""
    now = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    millisecond = timedelta(milliseconds=1)

    body = frame_of(settings_of(age=millisecond, overdue=2 * millisecond), now)["body"]

    assert body["gc_cutoff_epoch_ms"] == 999
    assert body["timeout_cutoff_epoch_ms"] == 998


@pytest.mark.parametrize(
    ("application", "key"),
    [
        (settings_of(age=HOUR), "gc_cutoff_epoch_ms"),
        (settings_of(rows=1), "gc_rows_threshold"),
        (settings_of(overdue=HOUR), "timeout_cutoff_epoch_ms"),
    ],
)
def test_three_keys_are_always_there(application: ApplicationRecord, key: str) -> None:
    """Python fails without one; what is off is null."""
    body = frame_of(application, datetime(2026, 1, 1, tzinfo=UTC))["body"]

    keys = {"gc_cutoff_epoch_ms", "gc_rows_threshold", "timeout_cutoff_epoch_ms"}
    assert keys <= body.keys()
    assert {k for k in keys if body[k] is not None} == {key}


@pytest.mark.parametrize(
    "application",
    [settings_of(), settings_of(age=timedelta(0), rows=0, overdue=timedelta(0))],
)
def test_nothing_is_sent_when_all_is_off(application: ApplicationRecord) -> None:
    """Zero is off like null: "keep nothing" is never meant."""
    assert make_request(application, datetime(2026, 1, 1, tzinfo=UTC)) is None
