"""
Counting and measuring in the application's database: `get_workflow_aggregates`,
`get_step_aggregates` and `get_metrics`.

`aggregates` asks the first of them for one fixed purpose, the census of pending work.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final, TypeVar

import msgspec

from relay.errors import InvalidInputError
from relay.ids import AppName
from relay.protocol.filters import drop_blank, keep_set
from relay.protocol.frames import FrameError, read_frame
from relay.protocol.rows import (
    Scalar,
    read_instant,
    read_label,
    read_payload,
    read_rows,
    read_whole,
    require_label,
)
from relay.protocol.sanitising import clean_text
from relay.protocol.steps import LongReply, Steps, build_each
from relay.protocol.workflows import WorkflowFilter

_GroupT = TypeVar("_GroupT", bound=msgspec.Struct)

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowGrouping:
    """What workflows are counted by; each makes a key of an `AggregateRow`'s group."""

    by_status: bool = False
    by_workflow_name: bool = False
    by_queue_name: bool = False
    by_executor_id: bool = False
    by_app_version: bool = False
    by_application_name: bool = False

    def flags(self) -> Mapping[str, bool]:
        """By their names on the wire, where a null is no flag to Java."""
        return {
            "group_by_status": self.by_status,
            "group_by_name": self.by_workflow_name,
            "group_by_queue_name": self.by_queue_name,
            "group_by_executor_id": self.by_executor_id,
            "group_by_application_version": self.by_app_version,
            "group_by_application_name": self.by_application_name,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSelection:
    """What is said of each group of workflows; nothing chosen is the count."""

    count: bool = False
    min_created_at: bool = False
    max_queue_wait_ms: bool = False
    max_total_latency_ms: bool = False

    def flags(self) -> Mapping[str, bool]:
        """By their names on the wire."""
        others = {
            "select_min_created_at": self.min_created_at,
            "select_max_queue_wait_ms": self.max_queue_wait_ms,
            "select_max_total_latency_ms": self.max_total_latency_ms,
        }
        return {"select_count": self.count or not any(others.values()), **others}


class AggregateRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is known of one group of workflows.

    `group` has the SDK's keys: `status`, `name`, `queue_name`, `executor_id`,
    `application_version`, `application_name`, and `time_bucket`, the bucket's start in
    milliseconds since 1970 as digits. What was not selected is `None`.
    """

    group: Mapping[str, str | None]
    count: int | None
    min_created_at: datetime | None
    max_queue_wait_ms: int | None
    max_total_latency_ms: int | None


class _WireAggregate(msgspec.Struct):
    group: dict[str, Scalar] | None = None
    count: Scalar = None
    min_created_at: Scalar = None
    max_queue_wait_ms: Scalar = None
    max_total_latency_ms: Scalar = None


_AGGREGATE: Final = msgspec.json.Decoder(_WireAggregate)


class _AggregatesReply(msgspec.Struct):
    output: list[msgspec.Raw] | None = None


_WIRE_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "workflow_name": ("name",),
    # TypeScript 4 has the second name of these two, all others the first.
    "workflow_ids": ("workflow_ids", "workflow_uuids"),
    "user": ("user", "authenticated_user"),
}
"""The filters that are called otherwise on the wire, and otherwise than in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAggregatesRequest(LongReply[tuple[AggregateRow, ...]]):
    """
    Counts and measures the workflows that pass a filter, group by group.

    Time buckets are those of the creation. At least one grouping or a bucket is needed.
    """

    application: AppName
    grouping: WorkflowGrouping
    selection: WorkflowSelection
    filter: WorkflowFilter
    time_bucket_size: timedelta | None = None
    message_type: ClassVar[str] = "get_workflow_aggregates"

    def used_options(self) -> tuple[str, ...]:
        """The filters, groupings and selections that are set, and the bucket."""
        flags = {
            "group_by_status": self.grouping.by_status,
            "group_by_workflow_name": self.grouping.by_workflow_name,
            "group_by_queue_name": self.grouping.by_queue_name,
            "group_by_executor_id": self.grouping.by_executor_id,
            "group_by_app_version": self.grouping.by_app_version,
            "group_by_application_name": self.grouping.by_application_name,
            "select_count": self.selection.count,
            "select_min_created_at": self.selection.min_created_at,
            "select_max_queue_wait_ms": self.selection.max_queue_wait_ms,
            "select_max_total_latency_ms": self.selection.max_total_latency_ms,
            "time_bucket_size_ms": self.time_bucket_size is not None,
        }
        chosen = tuple(name for name, is_set in flags.items() if is_set)
        return (*self.filter.used_options(), *chosen)

    def fields(self) -> Mapping[str, object]:
        grouping = self.grouping.flags()
        _require_group(self.message_type, grouping, self.time_bucket_size)
        return {
            "body": {
                **grouping,
                **self.selection.flags(),
                **_write_bucket(self.message_type, self.time_bucket_size),
                **{
                    wire_name: value
                    for name, value in self.filter.conditions().items()
                    for wire_name in _WIRE_NAMES.get(name, (name,))
                },
                "application_name": [self.application],
            }
        }

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[AggregateRow, ...]]:
        """
        One row a group, in no certain order.

        Raises:
            FrameError: there is something else than a list, or a row without its group.
        """
        groups = _list_groups(frame, _AGGREGATE)
        return (yield from build_each(groups, _read_aggregate))


def _read_aggregate(wire: _WireAggregate) -> AggregateRow:
    return AggregateRow(
        group=_read_group(wire.group),
        count=read_whole(wire.count),
        min_created_at=read_instant(wire.min_created_at),
        max_queue_wait_ms=read_whole(wire.max_queue_wait_ms),
        max_total_latency_ms=read_whole(wire.max_total_latency_ms),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGrouping:
    """What steps are counted by; each makes a key of a `StepAggregateRow`'s group."""

    by_function_name: bool = False
    by_status: bool = False

    def flags(self) -> Mapping[str, bool]:
        """By their names on the wire, where a null is no flag to Java."""
        return {
            "group_by_function_name": self.by_function_name,
            "group_by_status": self.by_status,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSelection:
    """What is said of each group of steps; nothing chosen is the count."""

    count: bool = False
    max_duration_ms: bool = False

    def flags(self) -> Mapping[str, bool]:
        """By their names on the wire."""
        return {
            "select_count": self.count or not self.max_duration_ms,
            "select_max_duration_ms": self.max_duration_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFilter:
    """
    Which steps are counted; an empty tuple is no filter.

    Of several values any may match. Both moments are included.
    """

    step_name: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    workflow_id_prefix: tuple[str, ...] = ()
    completed_after: datetime | None = None
    completed_before: datetime | None = None

    def conditions(self) -> Mapping[str, object]:
        """The conditions that are set, by attribute name; no text in them is blank."""
        return keep_set(
            {
                "step_name": drop_blank(self.step_name),
                "status": drop_blank(self.status),
                "workflow_id_prefix": drop_blank(self.workflow_id_prefix),
                "completed_after": self.completed_after,
                "completed_before": self.completed_before,
            }
        )


class StepAggregateRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is known of one group of steps; what was not selected is `None`.

    `group` has the SDK's keys: `function_name`, `status` (SUCCESS or ERROR) and
    `time_bucket`, as in an `AggregateRow`.
    """

    group: Mapping[str, str | None]
    count: int | None
    max_duration_ms: int | None


class _WireStepAggregate(msgspec.Struct):
    group: dict[str, Scalar] | None = None
    count: Scalar = None
    max_duration_ms: Scalar = None


_STEP_AGGREGATE: Final = msgspec.json.Decoder(_WireStepAggregate)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAggregatesRequest(LongReply[tuple[StepAggregateRow, ...]]):
    """
    Counts and measures the steps that pass a filter, group by group.

    Time buckets are those of the completion. At least one grouping or a bucket is
    needed. Python counts the records of child workflows as successful steps.
    """

    application: AppName
    grouping: StepGrouping
    selection: StepSelection
    filter: StepFilter
    time_bucket_size: timedelta | None = None
    message_type: ClassVar[str] = "get_step_aggregates"

    def used_options(self) -> tuple[str, ...]:
        """The filters, groupings and selections that are set, and the bucket."""
        flags = {
            "group_by_function_name": self.grouping.by_function_name,
            "group_by_status": self.grouping.by_status,
            "select_count": self.selection.count,
            "select_max_duration_ms": self.selection.max_duration_ms,
            "time_bucket_size_ms": self.time_bucket_size is not None,
        }
        chosen = tuple(name for name, is_set in flags.items() if is_set)
        return (*self.filter.conditions(), *chosen)

    def fields(self) -> Mapping[str, object]:
        conditions = dict(self.filter.conditions())
        if names := conditions.pop("step_name", None):
            conditions["function_name"] = names
        grouping = self.grouping.flags()
        _require_group(self.message_type, grouping, self.time_bucket_size)
        return {
            "body": {
                **grouping,
                **self.selection.flags(),
                **_write_bucket(self.message_type, self.time_bucket_size),
                **conditions,
                "application_name": [self.application],
            }
        }

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[StepAggregateRow, ...]]:
        """
        One row a group, in no certain order.

        Raises:
            FrameError: there is something else than a list, or a row without its group.
        """
        groups = _list_groups(frame, _STEP_AGGREGATE)
        return (yield from build_each(groups, _read_step_aggregate))


def _read_step_aggregate(wire: _WireStepAggregate) -> StepAggregateRow:
    return StepAggregateRow(
        group=_read_group(wire.group),
        count=read_whole(wire.count),
        max_duration_ms=read_whole(wire.max_duration_ms),
    )


def _require_group(
    message_type: str, grouping: Mapping[str, bool], bucket: timedelta | None
) -> None:
    if bucket is None and not any(grouping.values()):
        raise InvalidInputError(
            f"{message_type}.body.group_by_status",
            "needs at least one grouping, this or another, or a time bucket",
        )


def _write_bucket(message_type: str, bucket: timedelta | None) -> Mapping[str, int]:
    if bucket is None:
        return {}
    size_ms = bucket // _MILLISECOND
    if size_ms < 1:
        raise InvalidInputError(
            f"{message_type}.body.time_bucket_size_ms", "must be positive", size_ms
        )
    return {"time_bucket_size_ms": size_ms}


def _list_groups(
    frame: bytes, decoder: msgspec.json.Decoder[_GroupT]
) -> Iterable[_GroupT]:
    """The groups of a reply; null is none."""
    rows = read_frame(frame, _AggregatesReply).output
    return () if rows is None else read_rows(rows, decoder)


def _read_group(group: object) -> Mapping[str, str | None]:
    """What a row counts; without it a number says nothing."""
    if not isinstance(group, dict):
        raise FrameError("the reply counts without saying what")
    return {clean_text(key): read_payload(value) for key, value in group.items()}


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    How often something happened in a window of time.

    `metric_type` is `workflow_count` (created in it) or `step_count` (completed in it),
    `metric_name` the workflow's or the step's, and empty if it has none.
    """

    metric_type: str
    metric_name: str
    value: int


class _WireMetric(msgspec.Struct):
    metric_type: Scalar = None
    metric_name: Scalar = None
    value: Scalar = None


_METRIC: Final = msgspec.json.Decoder(_WireMetric)


class _MetricsReply(msgspec.Struct):
    metrics: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMetricsRequest(LongReply[tuple[MetricRow, ...]]):
    """
    Counts workflows and steps between two moments, the later one excluded.

    The count is of the whole application, not of the executor that is asked, and of the
    whole database in Java. Both moments are cut to milliseconds.
    """

    application: AppName
    start: datetime
    end: datetime
    message_type: ClassVar[str] = "get_metrics"

    def fields(self) -> Mapping[str, object]:
        return {
            "start_time": self.start,
            "end_time": self.end,
            "metric_class": "workflow_step_count",
            "application_name": [self.application],
        }

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[MetricRow, ...]]:
        """
        One row a metric, in no certain order; Go sends null for none.

        Raises:
            FrameError: there is something else than a list, or a metric without type or
                value.
        """
        rows = read_frame(frame, _MetricsReply).metrics
        if rows is None:
            return ()
        return (yield from build_each(read_rows(rows, _METRIC), _read_metric))


def _read_metric(wire: _WireMetric) -> MetricRow:
    value = read_whole(wire.value)
    if value is None:
        raise FrameError("the reply holds a metric without a value")
    return MetricRow(
        metric_type=require_label(wire.metric_type, "a metric without a type"),
        metric_name=read_label(wire.metric_name) or "",
        value=value,
    )
