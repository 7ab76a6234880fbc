"""Reading workflows: `list_workflows`, `get_workflow` and what belongs to one."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec

from relay.errors import InvalidInputError
from relay.ids import AppName
from relay.protocol.envelope import JsonObject
from relay.protocol.filters import drop_blank
from relay.protocol.frames import read_frame
from relay.protocol.rows import list_rows
from relay.protocol.steps import LongReply, Steps, build_each
from relay.protocol.workflow_rows import (
    EventRow,
    NotificationRow,
    StepRow,
    StreamRow,
    WorkflowRow,
    find_workflow,
    read_event,
    read_notification,
    read_step,
    read_stream,
    read_workflow,
)

__all__ = [
    "EventRow",
    "GetWorkflowEventsRequest",
    "GetWorkflowNotificationsRequest",
    "GetWorkflowRequest",
    "GetWorkflowStreamsRequest",
    "ListStepsRequest",
    "NotificationRow",
    "SearchWorkflowsRequest",
    "StepRow",
    "StreamRow",
    "WorkflowFilter",
    "WorkflowRow",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFilter:
    """
    Which workflows are meant: all conditions hold, of each tuple one value matches.

    An empty tuple, one of blank texts only, `None` and an empty mapping are no
    condition. Instants are inclusive at both ends. `attributes` is a JSON object that
    the workflow's own must contain.
    """

    workflow_ids: tuple[str, ...] = ()
    workflow_name: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    app_version: tuple[str, ...] = ()
    forked_from: tuple[str, ...] = ()
    parent_workflow_id: tuple[str, ...] = ()
    queue_name: tuple[str, ...] = ()
    executor_id: tuple[str, ...] = ()
    schedule_name: tuple[str, ...] = ()
    workflow_id_prefix: tuple[str, ...] = ()
    start_time: datetime | None = None
    end_time: datetime | None = None
    completed_after: datetime | None = None
    completed_before: datetime | None = None
    dequeued_after: datetime | None = None
    dequeued_before: datetime | None = None
    has_parent: bool | None = None
    was_forked_from: bool | None = None
    attributes: Mapping[str, Any] | None = None

    def conditions(self) -> Mapping[str, object]:
        """
        The conditions that are set, by attribute name, as the encoder takes them.

        Each of several values is a tuple of texts that are not blank, never empty.
        """
        found: dict[str, object] = {}
        for field in fields(self):
            match getattr(self, field.name):
                case None:
                    continue
                case tuple() as values:
                    if texts := drop_blank(values):
                        found[field.name] = texts
                case Mapping() as attributes:
                    if attributes:
                        found[field.name] = JsonObject(attributes)
                case value:
                    found[field.name] = value
        return found

    def used_options(self) -> tuple[str, ...]:
        """The names of the conditions that are set."""
        return tuple(self.conditions())


class _OutputReply(msgspec.Struct):
    output: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _OneReply(msgspec.Struct):
    output: msgspec.Raw = msgspec.Raw(b"null")


class _EventsReply(msgspec.Struct):
    events: list[msgspec.Raw] | None = None


class _NotificationsReply(msgspec.Struct):
    notifications: list[msgspec.Raw] | None = None


class _StreamsReply(msgspec.Struct):
    streams: list[msgspec.Raw] | None = None


_WIRE_NAMES: Final = {
    "workflow_ids": "workflow_uuids",
    "user": "authenticated_user",
    "app_version": "application_version",
}
_ALWAYS_LISTS: Final = frozenset({"workflow_ids"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWorkflowsRequest(LongReply[tuple[WorkflowRow, ...]]):
    """
    Lists the workflows of an application that a filter matches, by age.

    `limit` counts rows; 0 and `None` are no limit. Errors are loaded with outputs.
    Without an application, workflows that the filter names by their ids are found
    whosever they are; those of other applications are left out otherwise.
    """

    filter: WorkflowFilter
    application: AppName | None
    limit: int | None = None
    offset: int | None = None
    newest_first: bool = False
    queues_only: bool = False
    load_input: bool = False
    load_output: bool = False
    message_type: ClassVar[str] = "list_workflows"

    def used_options(self) -> tuple[str, ...]:
        """The names of the conditions and options that are set."""
        options = {
            "limit": self.limit,
            "offset": self.offset,
            "sort_desc": self.newest_first,
            "queues_only": self.queues_only,
        }
        return (
            *self.filter.used_options(),
            *(name for name, value in options.items() if value),
        )

    def fields(self) -> Mapping[str, object]:
        # Each flag is sent: SDKs disagree about what a missing one means.
        body: dict[str, object] = {
            "sort_desc": self.newest_first,
            "load_input": self.load_input,
            "load_output": self.load_output,
            "queues_only": self.queues_only,
            **_page(self.message_type, self.limit, self.offset),
        }
        if self.application is not None:
            body["application_name"] = [self.application]
        for name, value in self.filter.conditions().items():
            wire_name = _WIRE_NAMES.get(name, name)
            if isinstance(value, tuple) and len(value) == 1:
                # SDKs that do not know lists yet understand a single value.
                body[wire_name] = value if name in _ALWAYS_LISTS else value[0]
            else:
                body[wire_name] = value
        return {"body": body}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[WorkflowRow, ...]]:
        """
        The workflows in the executor's order, none beyond the limit.

        Raises:
            FrameError: there is no list, or a row has no id.
        """
        rows = read_frame(frame, _OutputReply).output
        if rows is None:
            return ()
        wanted = list_rows(rows)[: self.limit or None]
        return (yield from build_each(wanted, read_workflow))


def _page(path: str, limit: int | None, offset: int | None) -> dict[str, object]:
    page: dict[str, object] = {}
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and value < 0:
            raise InvalidInputError(f"{path}.{name}", "must not be negative", value)
        if value:
            # A limit of 0 is everything in two SDKs and nothing in the other two.
            page[name] = value
    return page


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkflowRequest:
    """Asks for one workflow of whatever application; errors come with outputs."""

    workflow_id: str
    load_input: bool = True
    load_output: bool = True
    message_type: ClassVar[str] = "get_workflow"

    def used_options(self) -> tuple[str, ...]:
        """None: it has no filter that an SDK could miss."""
        return ()

    def fields(self) -> Mapping[str, object]:
        return {
            "workflow_id": self.workflow_id,
            "load_input": self.load_input,
            "load_output": self.load_output,
        }

    def decode_reply(self, frame: bytes) -> WorkflowRow | None:
        """
        The workflow; `None` if nobody knows it.

        Raises:
            FrameError: there is something that is no workflow.
        """
        return find_workflow(read_frame(frame, _OneReply).output)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListStepsRequest(LongReply[tuple[StepRow, ...]]):
    """Lists the steps of a workflow in order; errors are loaded with outputs."""

    workflow_id: str
    limit: int | None = None
    offset: int | None = None
    load_output: bool = True
    message_type: ClassVar[str] = "list_steps"

    def used_options(self) -> tuple[str, ...]:
        """The names of the options that are set."""
        options = {"limit": self.limit, "offset": self.offset}
        return tuple(name for name, value in options.items() if value)

    def fields(self) -> Mapping[str, object]:
        return {
            "workflow_id": self.workflow_id,
            "load_output": self.load_output,
            **_page(self.message_type, self.limit, self.offset),
        }

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[StepRow, ...]]:
        """
        The steps; none too if nobody knows the workflow.

        Raises:
            FrameError: there is no list, or a row has no step number.
        """
        rows = read_frame(frame, _OutputReply).output
        if rows is None or rows is msgspec.UNSET:
            return ()
        wanted = list_rows(rows)[: self.limit or None]
        return (yield from build_each(wanted, read_step))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkflowEventsRequest(LongReply[tuple[EventRow, ...]]):
    """Asks for the current events of a workflow."""

    workflow_id: str
    message_type: ClassVar[str] = "get_workflow_events"

    def used_options(self) -> tuple[str, ...]:
        """None: it has no options."""
        return ()

    def fields(self) -> Mapping[str, object]:
        return {"workflow_id": self.workflow_id}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[EventRow, ...]]:
        """
        The events in the executor's order.

        Raises:
            FrameError: there is no list, or a row has no key.
        """
        rows = read_frame(frame, _EventsReply).events
        if rows is None:
            return ()
        return (yield from build_each(list_rows(rows), read_event))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkflowNotificationsRequest(LongReply[tuple[NotificationRow, ...]]):
    """Asks for the messages that were sent to a workflow."""

    workflow_id: str
    message_type: ClassVar[str] = "get_workflow_notifications"

    def used_options(self) -> tuple[str, ...]:
        """None: it has no options."""
        return ()

    def fields(self) -> Mapping[str, object]:
        return {"workflow_id": self.workflow_id}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[NotificationRow, ...]]:
        """
        The messages in the order in which they arrived.

        Raises:
            FrameError: there is no list.
        """
        rows = read_frame(frame, _NotificationsReply).notifications
        if rows is None:
            return ()
        return (yield from build_each(list_rows(rows), read_notification))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkflowStreamsRequest(LongReply[tuple[StreamRow, ...]]):
    """Asks for the streams of a workflow and all that is in them."""

    workflow_id: str
    message_type: ClassVar[str] = "get_workflow_streams"

    def used_options(self) -> tuple[str, ...]:
        """None: it has no options."""
        return ()

    def fields(self) -> Mapping[str, object]:
        return {"workflow_id": self.workflow_id}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[StreamRow, ...]]:
        """
        The streams in the executor's order.

        Raises:
            FrameError: there is no list, or a row has no key or no list of values.
        """
        rows = read_frame(frame, _StreamsReply).streams
        if rows is None:
            return ()
        return (yield from build_each(list_rows(rows), read_stream))
