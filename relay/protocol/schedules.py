"""The cron schedules of an application: reading, pausing and running them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, Final

import msgspec

from relay.ids import AppName
from relay.protocol.filters import drop_blank, keep_set
from relay.protocol.frames import FrameError, read_frame
from relay.protocol.messages import Acknowledgement, read_acknowledgement
from relay.protocol.rows import (
    Scalar,
    find_row,
    read_instant,
    read_label,
    read_new_id,
    read_payload,
    read_rows,
    require_label,
)
from relay.protocol.steps import LongReply, Steps, build_each


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A schedule as its application stores it.

    `status` is ACTIVE or PAUSED so far, or UNKNOWN if the executor does not say.
    `context` is a text for people in the manner of the SDK's language, and `None` if it
    was not asked for.
    """

    schedule_id: str
    schedule_name: str
    workflow_name: str
    workflow_class: str | None
    cron_expression: str
    status: str
    context: str | None
    last_fired_at: datetime | None
    automatic_backfill: bool
    cron_timezone: str | None
    application_name: str | None


class _WireSchedule(msgspec.Struct):
    schedule_id: Scalar = None
    schedule_name: Scalar = None
    workflow_name: Scalar = None
    workflow_class_name: Scalar = None
    schedule: Scalar = None
    status: Scalar = None
    context: Scalar = None
    last_fired_at: Scalar = None
    automatic_backfill: Scalar = None
    cron_timezone: Scalar = None
    application_name: Scalar = None


_SCHEDULE: Final = msgspec.json.Decoder(_WireSchedule)


class _SchedulesReply(msgspec.Struct):
    output: list[msgspec.Raw] | None = None


class _ScheduleReply(msgspec.Struct):
    output: msgspec.Raw = msgspec.Raw(b"null")


def _read_schedule(wire: _WireSchedule) -> ScheduleRow:
    return ScheduleRow(
        schedule_id=require_label(wire.schedule_id, "a schedule without an id"),
        schedule_name=require_label(wire.schedule_name, "a schedule without a name"),
        workflow_name=read_label(wire.workflow_name) or "",
        workflow_class=read_label(wire.workflow_class_name),
        cron_expression=read_label(wire.schedule) or "",
        status=read_label(wire.status) or "UNKNOWN",
        context=read_payload(wire.context),
        last_fired_at=_read_moment(wire.last_fired_at),
        automatic_backfill=wire.automatic_backfill is True,
        cron_timezone=read_label(wire.cron_timezone),
        application_name=read_label(wire.application_name),
    )


def _read_moment(value: object) -> datetime | None:
    """
    A moment in ISO text, or in milliseconds as elsewhere; `None` if it is neither.

    Without an offset it is UTC. A zone in brackets, which Java may add, is not read.
    """
    instant = read_instant(value)
    if instant is not None or not isinstance(value, str):
        return instant
    try:
        moment = datetime.fromisoformat(value.strip().partition("[")[0])
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSchedulesRequest(LongReply[tuple[ScheduleRow, ...]]):
    """
    Lists the schedules of an application, and those that belong to nobody.

    Java lists those of the whole database, and refuses a status that it does not know.
    An empty tuple is no filter, and of several values any may match.
    """

    application: AppName
    status: tuple[str, ...] = ()
    workflow_name: tuple[str, ...] = ()
    schedule_name_prefix: tuple[str, ...] = ()
    load_context: bool
    message_type: ClassVar[str] = "list_schedules"

    def _conditions(self) -> Mapping[str, object]:
        return keep_set(
            {
                "status": drop_blank(self.status),
                "workflow_name": drop_blank(self.workflow_name),
                "schedule_name_prefix": drop_blank(self.schedule_name_prefix),
            }
        )

    def used_options(self) -> tuple[str, ...]:
        """The names of the filters that are set."""
        return tuple(self._conditions())

    def fields(self) -> Mapping[str, object]:
        # The flag is always sent: a missing one means yes to three SDKs, no to Java.
        return {
            "body": {
                "load_context": self.load_context,
                "application_name": [self.application],
                **self._conditions(),
            }
        }

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[ScheduleRow, ...]]:
        """
        The schedules in the executor's order.

        Raises:
            FrameError: there is something else than a list, or a schedule without id or
                name.
        """
        rows = read_frame(frame, _SchedulesReply).output
        if rows is None:
            return ()
        return (yield from build_each(read_rows(rows, _SCHEDULE), _read_schedule))


@dataclass(frozen=True, slots=True)
class GetScheduleRequest:
    """Asks for one schedule by its name."""

    schedule_name: str
    load_context: bool = field(kw_only=True)
    message_type: ClassVar[str] = "get_schedule"

    def fields(self) -> Mapping[str, object]:
        return {"schedule_name": self.schedule_name, "load_context": self.load_context}

    def decode_reply(self, frame: bytes) -> ScheduleRow | None:
        """
        The schedule, or `None` if there is none of that name.

        Raises:
            FrameError: there is something else, or a schedule without id or name.
        """
        row = find_row(read_frame(frame, _ScheduleReply).output, _SCHEDULE)
        return None if row is None else _read_schedule(row)


@dataclass(frozen=True, slots=True)
class PauseScheduleRequest:
    """
    Pauses a schedule.

    Of a schedule that nobody knows only Go says no. Go also forgets when it last fired.
    """

    schedule_name: str
    message_type: ClassVar[str] = "pause_schedule"

    def fields(self) -> Mapping[str, object]:
        return {"schedule_name": self.schedule_name}

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


@dataclass(frozen=True, slots=True)
class ResumeScheduleRequest:
    """Activates a paused schedule; the SDKs differ as in `PauseScheduleRequest`."""

    schedule_name: str
    message_type: ClassVar[str] = "resume_schedule"

    def fields(self) -> Mapping[str, object]:
        return {"schedule_name": self.schedule_name}

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


class _TriggerReply(msgspec.Struct):
    workflow_id: Scalar = None


@dataclass(frozen=True, slots=True)
class TriggerScheduleRequest:
    """
    Enqueues one run of a schedule, whether it is paused or not.

    A repetition enqueues another one.
    """

    schedule_name: str
    message_type: ClassVar[str] = "trigger_schedule"

    def fields(self) -> Mapping[str, object]:
        return {"schedule_name": self.schedule_name}

    def decode_reply(self, frame: bytes) -> str:
        """
        The id of the run.

        Raises:
            FrameError: the executor names none.
        """
        return read_new_id(read_frame(frame, _TriggerReply).workflow_id, "workflow")


class _BackfillReply(msgspec.Struct):
    workflow_ids: list[Scalar] | None = None


@dataclass(frozen=True, slots=True)
class BackfillScheduleRequest:
    """
    Enqueues the runs of a schedule that lie between two moments.

    Neither moment is included, but that Java includes the later one. Both are cut to
    milliseconds.
    """

    schedule_name: str
    start_time: datetime
    end_time: datetime
    message_type: ClassVar[str] = "backfill_schedule"

    def fields(self) -> Mapping[str, object]:
        return {
            "schedule_name": self.schedule_name,
            "start": self.start_time,
            "end": self.end_time,
        }

    def decode_reply(self, frame: bytes) -> tuple[str, ...]:
        """
        The ids of the runs, in the order of their times; there may be none.

        Raises:
            FrameError: there is something else than a list of ids.
        """
        listed: object = read_frame(frame, _BackfillReply).workflow_ids
        if listed is None:
            return ()
        if not isinstance(listed, list):
            raise FrameError("the reply holds no list")
        return tuple(read_new_id(item, "workflow") for item in listed)
