"""Asking for queues, and reading them in the forms in which SDKs tell them."""

from typing import Any

import pytest

from relay.ids import AppName
from relay.protocol import FrameError
from relay.protocol.queues import GetQueueRequest, ListQueuesRequest, QueueRow
from tests.protocol.fields import reply, written

LISTING = ListQueuesRequest(AppName("shop"))
QUESTION = GetQueueRequest("mail")
BARE = QueueRow(
    name="mail",
    concurrency=None,
    worker_concurrency=None,
    rate_limit_max=None,
    rate_limit_period_secs=None,
    priority_enabled=False,
    partition_queue=False,
    polling_interval_secs=1.0,
    application_name=None,
)


def read(**fields: Any) -> QueueRow:
    """The queue that a reply with these fields holds."""
    queue = QUESTION.decode_reply(reply(output={"name": "mail", **fields}))
    assert queue is not None
    return queue


def test_queues_are_listed_for_one_application() -> None:
    """The owner is named, so that a neighbour's queues stay out."""
    assert written(LISTING) == {"body": {"application_name": ["shop"]}}


def test_one_queue_is_asked_for_by_name() -> None:
    """The key is not the one in REST's path."""
    assert written(QUESTION) == {"name": "mail"}


def test_a_queue_without_settings_has_no_limits() -> None:
    """Keys may be missing or null, and unknown ones are ignored."""
    nothing = dict.fromkeys(["concurrency", "rate_limit_period_sec", "partition_queue"])

    assert read() == BARE
    assert read(**nothing, partition_concurrency=3) == BARE


def test_a_queue_keeps_its_settings() -> None:
    """Seconds gain a letter on their way, and may be whole numbers to JavaScript."""
    assert read(
        concurrency=20,
        worker_concurrency=5,
        rate_limit_max=100,
        rate_limit_period_sec=60,
        priority_enabled=True,
        partition_queue=True,
        polling_interval_sec=0.5,
        application_name="shop",
    ) == QueueRow(
        name="mail",
        concurrency=20,
        worker_concurrency=5,
        rate_limit_max=100,
        rate_limit_period_secs=60.0,
        priority_enabled=True,
        partition_queue=True,
        polling_interval_secs=0.5,
        application_name="shop",
    )


@pytest.mark.parametrize(
    ("told", "limit"),
    [
        (0, 0),
        ("7", 7),
        (7.0, 7),
        (2**40, 2**31 - 1),
        (True, None),
        ("many", None),
        ([7], None),
        (float("nan"), None),
    ],
)
def test_a_limit_is_a_number_of_32_bits_or_none(
    told: object, limit: int | None
) -> None:
    """Whatever stands in its place, REST answers what its contract says."""
    assert read(concurrency=told).concurrency == limit


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (1.5, 1.5),
        ("1.5", 1.5),
        (True, None),
        ("soon", None),
        ({}, None),
        (float("inf"), None),
        (10**400, None),
    ],
)
def test_seconds_are_a_finite_number_or_none(
    told: object, seconds: float | None
) -> None:
    """JSON has no word for anything else."""
    assert read(rate_limit_period_sec=told).rate_limit_period_secs == seconds


def test_queues_come_in_the_order_of_the_executor() -> None:
    """Nothing is sorted or left out."""
    frame = reply(output=[{"name": "b"}, {"name": "a"}, {"name": 3}])

    assert [queue.name for queue in LISTING.decode_reply(frame)] == ["b", "a", "3"]


@pytest.mark.parametrize("fields", [{}, {"output": None}, {"output": []}])
def test_no_queues_are_an_empty_list(fields: dict[str, Any]) -> None:
    """SDKs leave an empty list out, or write null."""
    assert LISTING.decode_reply(reply(**fields)) == ()


@pytest.mark.parametrize("fields", [{}, {"output": None}])
def test_an_unknown_queue_is_none(fields: dict[str, Any]) -> None:
    """Java leaves the key out, the others write null."""
    assert QUESTION.decode_reply(reply(**fields)) is None


@pytest.mark.parametrize(
    "output", [{}, "", 0, False, "mail", ["mail"], [[]], [{}], [{"name": ""}]]
)
def test_what_is_no_list_of_queues_is_refused(output: object) -> None:
    """A queue without a name cannot be shown, and leaving it out would be a lie."""
    with pytest.raises(FrameError):
        LISTING.decode_reply(reply(output=output))


@pytest.mark.parametrize("output", [{}, {"name": None}, {"name": "\0"}, "mail", [], 0])
def test_what_is_no_queue_is_refused(output: object) -> None:
    """Only null says that there is none."""
    with pytest.raises(FrameError):
        QUESTION.decode_reply(reply(output=output))
