"""What bounds a queue and its partitions, as each SDK tells it."""

import json
from typing import Any

import pytest

from relay.ids import AppName, RequestId
from relay.protocol import FrameError, encode
from relay.protocol.queues import (
    Limits,
    ListQueueLimitsRequest,
    ListQueuesRequest,
    QueueLimits,
)

REQUEST = ListQueueLimitsRequest(AppName("shop"))
WHOLE = {
    "concurrency": 10,
    "worker_concurrency": 2,
    "rate_limit_max": 100,
    "rate_limit_period_sec": 60,
}
BOUNDS = Limits(
    concurrency=10, worker_concurrency=2, rate_max=100, rate_period_secs=60.0
)


def read(**fields: Any) -> QueueLimits:
    row = {"name": "jobs", "application_name": "shop", **fields}
    frame = {"type": "list_queues", "request_id": "r", "output": [row]}
    [limits] = REQUEST.decode_reply(json.dumps(frame).encode())
    return limits


def test_the_question_is_that_for_queues() -> None:
    """Only what is read of the answer differs."""
    same = ListQueuesRequest(AppName("shop"))

    assert encode(REQUEST, RequestId("r")) == encode(same, RequestId("r"))


def test_a_queue_without_partitions_is_bounded_as_a_whole() -> None:
    limits = read(**WHOLE, partition_queue=False, priority_enabled=True)

    assert (limits.whole, limits.partition) == (BOUNDS, Limits())
    assert (limits.name, limits.application_name) == ("jobs", "shop")
    assert limits.priority_enabled


def test_limits_of_partitions_are_told_apart_from_those_of_the_queue() -> None:
    limits = read(
        concurrency=5,
        partition_queue=True,
        **{f"partition_{name}": value for name, value in WHOLE.items()},
    )

    assert (limits.whole, limits.partition) == (Limits(concurrency=5), BOUNDS)


def test_where_partitions_have_none_of_their_own_each_has_the_queues() -> None:
    """So do older SDKs, and newer ones where the queue was declared as they do."""
    limits = read(**WHOLE, partition_queue=True)

    assert (limits.whole, limits.partition) == (Limits(), BOUNDS)


def test_a_queue_that_says_nothing_is_not_bounded() -> None:
    assert read().whole == read().partition == Limits()


@pytest.mark.parametrize("output", [None, []])
def test_no_queues_are_none(output: Any) -> None:
    frame = {"type": "list_queues", "request_id": "r", "output": output}

    assert REQUEST.decode_reply(json.dumps(frame).encode()) == ()


def test_a_queue_without_a_name_is_no_answer() -> None:
    with pytest.raises(FrameError):
        read(name=None)
