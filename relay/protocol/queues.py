"""The queues of an application: `list_queues` and `get_queue`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from relay.ids import AppName
from relay.protocol.frames import read_frame
from relay.protocol.rows import (
    Scalar,
    clamp_int32,
    find_row,
    read_label,
    read_rows,
    read_whole,
    require_label,
)
from relay.protocol.steps import LongReply, Steps, build_each

_POLLING_INTERVAL_SECS: Final = 1.0
"""How often every SDK looks at a queue that says nothing else."""


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A queue that is stored in the application's database, and its limits.

    A limit that is `None` does not exist; all others fit into 32 bits.
    `application_name` is the owner; `None` is nobody's, or an SDK that does not say.
    """

    name: str
    concurrency: int | None
    worker_concurrency: int | None
    rate_limit_max: int | None
    rate_limit_period_secs: float | None
    priority_enabled: bool
    partition_queue: bool
    polling_interval_secs: float
    application_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What bounds the workflows of a queue, or of each of its partitions.

    `concurrency` bounds those that run, `worker_concurrency` those that run in one
    executor, and `rate_max` those that are started within `rate_period_secs` seconds.
    What is `None` is not bounded.
    """

    concurrency: int | None = None
    worker_concurrency: int | None = None
    rate_max: int | None = None
    rate_period_secs: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """
    The limits of a queue that is stored in the application's database.

    `application_name` is as in a `QueueRow`.
    """

    name: str
    whole: Limits
    partition: Limits
    priority_enabled: bool
    application_name: str | None


class _WireQueue(msgspec.Struct):
    name: Scalar = None
    concurrency: Scalar = None
    worker_concurrency: Scalar = None
    rate_limit_max: Scalar = None
    rate_limit_period_sec: Scalar = None
    priority_enabled: Scalar = None
    partition_queue: Scalar = None
    polling_interval_sec: Scalar = None
    application_name: Scalar = None
    partition_concurrency: Scalar = None
    partition_worker_concurrency: Scalar = None
    partition_rate_limit_max: Scalar = None
    partition_rate_limit_period_sec: Scalar = None


_QUEUE: Final = msgspec.json.Decoder(_WireQueue)


class _QueuesReply(msgspec.Struct):
    output: list[msgspec.Raw] | None = None


class _QueueReply(msgspec.Struct):
    output: msgspec.Raw = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class ListQueuesRequest(LongReply[tuple[QueueRow, ...]]):
    """
    Lists the stored queues of an application, and those that belong to nobody.

    Java lists those of the whole database. Queues that exist in code only are unknown
    to all.
    """

    application: AppName
    message_type: ClassVar[str] = "list_queues"

    def fields(self) -> Mapping[str, object]:
        return {"body": {"application_name": [self.application]}}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[QueueRow, ...]]:
        """
        The queues in the executor's order.

        Raises:
            FrameError: there is something else than a list, or a queue without a name.
        """
        rows = read_frame(frame, _QueuesReply).output
        if rows is None:
            return ()
        return (yield from build_each(read_rows(rows, _QUEUE), _read_queue))


@dataclass(frozen=True, slots=True)
class ListQueueLimitsRequest(LongReply[tuple[QueueLimits, ...]]):
    """The same question, for what bounds each queue, its partitions included."""

    application: AppName
    message_type: ClassVar[str] = "list_queues"

    def fields(self) -> Mapping[str, object]:
        return {"body": {"application_name": [self.application]}}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[QueueLimits, ...]]:
        """
        The limits in the executor's order.

        Raises:
            FrameError: there is something else than a list, or a queue without a name.
        """
        rows = read_frame(frame, _QueuesReply).output
        if rows is None:
            return ()
        return (yield from build_each(read_rows(rows, _QUEUE), _read_limits))


@dataclass(frozen=True, slots=True)
class GetQueueRequest:
    """Asks for one stored queue by its name."""

    queue_name: str
    message_type: ClassVar[str] = "get_queue"

    def fields(self) -> Mapping[str, object]:
        return {"name": self.queue_name}

    def decode_reply(self, frame: bytes) -> QueueRow | None:
        """
        The queue, or `None` if there is none of that name.

        Raises:
            FrameError: there is something else, or a queue without a name.
        """
        row = find_row(read_frame(frame, _QueueReply).output, _QUEUE)
        return None if row is None else _read_queue(row)


def _read_queue(wire: _WireQueue) -> QueueRow:
    polling_interval = _read_seconds(wire.polling_interval_sec)
    return QueueRow(
        name=require_label(wire.name, "a queue without a name"),
        concurrency=_read_limit(wire.concurrency),
        worker_concurrency=_read_limit(wire.worker_concurrency),
        rate_limit_max=_read_limit(wire.rate_limit_max),
        rate_limit_period_secs=_read_seconds(wire.rate_limit_period_sec),
        priority_enabled=wire.priority_enabled is True,
        partition_queue=wire.partition_queue is True,
        polling_interval_secs=_POLLING_INTERVAL_SECS
        if polling_interval is None
        else polling_interval,
        application_name=read_label(wire.application_name),
    )


def _read_limits(wire: _WireQueue) -> QueueLimits:
    whole = Limits(
        concurrency=_read_limit(wire.concurrency),
        worker_concurrency=_read_limit(wire.worker_concurrency),
        rate_max=_read_limit(wire.rate_limit_max),
        rate_period_secs=_read_seconds(wire.rate_limit_period_sec),
    )
    partition = Limits(
        concurrency=_read_limit(wire.partition_concurrency),
        worker_concurrency=_read_limit(wire.partition_worker_concurrency),
        rate_max=_read_limit(wire.partition_rate_limit_max),
        rate_period_secs=_read_seconds(wire.partition_rate_limit_period_sec),
    )
    if wire.partition_queue is True and partition == Limits():
        # Where a partition has no limits of its own, the queue's are meant for each.
        whole, partition = partition, whole
    return QueueLimits(
        name=require_label(wire.name, "a queue without a name"),
        whole=whole,
        partition=partition,
        priority_enabled=wire.priority_enabled is True,
        application_name=read_label(wire.application_name),
    )


def _read_limit(value: object) -> int | None:
    limit = read_whole(value)
    return None if limit is None else clamp_int32(limit)


def _read_seconds(value: object) -> float | None:
    """A finite number, from a number or its spelling."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None
