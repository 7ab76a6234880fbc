"""What an executor tells about workflows: rows, and how each is read."""

from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from relay.protocol.frames import FrameError
from relay.protocol.rows import (
    EPOCH,
    Scalar,
    clamp_int32,
    find_row,
    is_int32,
    read_instant,
    read_label,
    read_labels,
    read_payload,
    read_row,
    read_whole,
)


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A workflow as its executor tells it.

    The payload texts (`input`, `output`, `error`) are for people, in the style of the
    SDK's language; `roles` and `attributes` are texts too. `timeout_ms` is in
    milliseconds.
    """

    workflow_id: str
    status: str
    workflow_name: str | None
    workflow_class: str | None
    workflow_config: str | None
    user: str | None
    assumed_role: str | None
    roles: str | None
    input: str | None
    output: str | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    queue_name: str | None
    app_version: str | None
    executor_id: str | None
    timeout_ms: int | None
    deadline: datetime | None
    deduplication_id: str | None
    priority: int
    queue_partition_key: str | None
    forked_from: str | None
    was_forked_from: bool
    parent_workflow_id: str | None
    dequeued_at: datetime | None
    delay_until: datetime | None
    completed_at: datetime | None
    attributes: str | None
    schedule_name: str | None
    application_name: str | None


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a workflow; `step_id` counts from 1 in Python and from 0 elsewhere."""

    step_id: int
    step_name: str
    output: str | None
    error: str | None
    child_workflow_id: str | None
    started_at: datetime | None
    completed_at: datetime | None


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """The current value of an event, as text for people."""

    key: str
    value: str


class NotificationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was sent to a workflow, as text for people."""

    topic: str | None
    message: str
    created_at: datetime
    consumed: bool


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stream and its values in order, as texts for people."""

    key: str
    values: tuple[str, ...]


class _WireWorkflow(msgspec.Struct, gc=False):
    workflow_id: Scalar = msgspec.field(default=None, name="WorkflowUUID")
    status: Scalar = msgspec.field(default=None, name="Status")
    workflow_name: Scalar = msgspec.field(default=None, name="WorkflowName")
    workflow_class: Scalar = msgspec.field(default=None, name="WorkflowClassName")
    workflow_config: Scalar = msgspec.field(default=None, name="WorkflowConfigName")
    user: Scalar = msgspec.field(default=None, name="AuthenticatedUser")
    assumed_role: Scalar = msgspec.field(default=None, name="AssumedRole")
    roles: Scalar = msgspec.field(default=None, name="AuthenticatedRoles")
    input: Scalar = msgspec.field(default=None, name="Input")
    output: Scalar = msgspec.field(default=None, name="Output")
    error: Scalar = msgspec.field(default=None, name="Error")
    created_at: Scalar = msgspec.field(default=None, name="CreatedAt")
    updated_at: Scalar = msgspec.field(default=None, name="UpdatedAt")
    queue_name: Scalar = msgspec.field(default=None, name="QueueName")
    app_version: Scalar = msgspec.field(default=None, name="ApplicationVersion")
    executor_id: Scalar = msgspec.field(default=None, name="ExecutorID")
    timeout_ms: Scalar = msgspec.field(default=None, name="WorkflowTimeoutMS")
    deadline: Scalar = msgspec.field(default=None, name="WorkflowDeadlineEpochMS")
    deduplication_id: Scalar = msgspec.field(default=None, name="DeduplicationID")
    priority: Scalar = msgspec.field(default=None, name="Priority")
    queue_partition_key: Scalar = msgspec.field(default=None, name="QueuePartitionKey")
    forked_from: Scalar = msgspec.field(default=None, name="ForkedFrom")
    was_forked_from: Scalar = msgspec.field(default=None, name="WasForkedFrom")
    parent_workflow_id: Scalar = msgspec.field(default=None, name="ParentWorkflowID")
    dequeued_at: Scalar = msgspec.field(default=None, name="DequeuedAt")
    delay_until: Scalar = msgspec.field(default=None, name="DelayUntilEpochMS")
    completed_at: Scalar = msgspec.field(default=None, name="CompletedAt")
    attributes: Scalar = msgspec.field(default=None, name="Attributes")
    schedule_name: Scalar = msgspec.field(default=None, name="ScheduleName")
    application_name: Scalar = msgspec.field(default=None, name="ApplicationName")


class _WireStep(msgspec.Struct):
    function_id: Scalar = None
    function_name: Scalar = None
    output: Scalar = None
    error: Scalar = None
    child_workflow_id: Scalar = None
    started_at_epoch_ms: Scalar = None
    completed_at_epoch_ms: Scalar = None


class _WireEvent(msgspec.Struct):
    key: Scalar = None
    value: Scalar = None


class _WireNotification(msgspec.Struct):
    topic: Scalar = None
    message: Scalar = None
    created_at_epoch_ms: Scalar = None
    consumed: Scalar = None


class _WireStream(msgspec.Struct):
    key: Scalar = None
    values: list[Scalar] | None = None


_WORKFLOW: Final = msgspec.json.Decoder(_WireWorkflow)
_LABELS: Final = attrgetter(
    "workflow_id",
    "status",
    "workflow_name",
    "workflow_class",
    "workflow_config",
    "user",
    "assumed_role",
    "roles",
    "queue_name",
    "app_version",
    "executor_id",
    "deduplication_id",
    "queue_partition_key",
    "forked_from",
    "parent_workflow_id",
    "schedule_name",
    "application_name",
)
_STEP: Final = msgspec.json.Decoder(_WireStep)
_EVENT: Final = msgspec.json.Decoder(_WireEvent)
_NOTIFICATION: Final = msgspec.json.Decoder(_WireNotification)
_STREAM: Final = msgspec.json.Decoder(_WireStream)


def read_workflow(row: object) -> WorkflowRow:
    """
    A workflow, of a row as `read_row` takes it.

    Raises:
        FrameError: it is no object or has no id.
    """
    return _build_workflow(read_row(row, _WORKFLOW))


def find_workflow(row: object) -> WorkflowRow | None:
    """
    A workflow or, of a row that is absent or null, `None`.

    Raises:
        FrameError: it is something else, or has no id.
    """
    wire = find_row(row, _WORKFLOW)
    return None if wire is None else _build_workflow(wire)


def _build_workflow(wire: _WireWorkflow) -> WorkflowRow:
    (
        workflow_id,
        status,
        workflow_name,
        workflow_class,
        workflow_config,
        user,
        assumed_role,
        roles,
        queue_name,
        app_version,
        executor_id,
        deduplication_id,
        queue_partition_key,
        forked_from,
        parent_workflow_id,
        schedule_name,
        application_name,
    ) = read_labels(_LABELS(wire))
    if workflow_id is None:
        raise FrameError("the reply holds a workflow without an id")
    created_at = read_instant(wire.created_at)
    updated_at = read_instant(wire.updated_at)
    return WorkflowRow(
        workflow_id=workflow_id,
        status=status or "UNKNOWN",
        workflow_name=workflow_name,
        workflow_class=workflow_class,
        workflow_config=workflow_config,
        user=user,
        assumed_role=assumed_role,
        roles=roles,
        input=read_payload(wire.input),
        output=read_payload(wire.output),
        error=read_payload(wire.error),
        created_at=created_at or updated_at or EPOCH,
        updated_at=updated_at or created_at or EPOCH,
        queue_name=queue_name,
        app_version=app_version,
        executor_id=executor_id,
        timeout_ms=read_whole(wire.timeout_ms),
        deadline=read_instant(wire.deadline),
        deduplication_id=deduplication_id,
        priority=clamp_int32(read_whole(wire.priority) or 0),
        queue_partition_key=queue_partition_key,
        forked_from=forked_from,
        was_forked_from=wire.was_forked_from is True,
        parent_workflow_id=parent_workflow_id,
        dequeued_at=read_instant(wire.dequeued_at),
        delay_until=read_instant(wire.delay_until),
        completed_at=read_instant(wire.completed_at),
        attributes=read_payload(wire.attributes),
        schedule_name=schedule_name,
        application_name=application_name,
    )


def read_step(row: object) -> StepRow:
    """
    A step, of a row as `read_row` takes it.

    Raises:
        FrameError: it is no object or has no number that 32 bits hold.
    """
    wire = read_row(row, _STEP)
    step_id = read_whole(wire.function_id)
    if step_id is None or not is_int32(step_id):
        raise FrameError("the reply holds a step without a number of 32 bits")
    return StepRow(
        step_id=step_id,
        step_name=read_label(wire.function_name) or "",
        output=read_payload(wire.output),
        error=read_payload(wire.error),
        child_workflow_id=read_label(wire.child_workflow_id),
        started_at=read_instant(wire.started_at_epoch_ms),
        completed_at=read_instant(wire.completed_at_epoch_ms),
    )


def read_event(row: object) -> EventRow:
    """
    An event, of a row as `read_row` takes it.

    Raises:
        FrameError: it is no object or has no key.
    """
    wire = read_row(row, _EVENT)
    return EventRow(key=_read_key(wire.key), value=read_payload(wire.value) or "")


def read_notification(row: object) -> NotificationRow:
    """
    A notification, of a row as `read_row` takes it.

    Raises:
        FrameError: it is no object.
    """
    wire = read_row(row, _NOTIFICATION)
    return NotificationRow(
        topic=read_label(wire.topic),
        message=read_payload(wire.message) or "",
        created_at=read_instant(wire.created_at_epoch_ms) or EPOCH,
        consumed=wire.consumed is True,
    )


def read_stream(row: object) -> StreamRow:
    """
    A stream, of a row as `read_row` takes it.

    Raises:
        FrameError: it is no object, or has no key or no list of values.
    """
    wire = read_row(row, _STREAM)
    return StreamRow(key=_read_key(wire.key), values=_read_values(wire.values))


def _read_key(value: object) -> str:
    key = read_payload(value)
    if key is None:
        raise FrameError("the reply holds a row without a key")
    return key


def _read_values(values: object) -> tuple[str, ...]:
    if values is None:
        return ()
    if not isinstance(values, list):
        raise FrameError("the reply holds a stream without a list of values")
    return tuple(read_payload(value) or "" for value in values)
