"""Schedules: `/v2/orgs/{orgName}/apps/{appName}/schedules`."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.errors import InvalidInputError
from relay.protocol.schedules import ScheduleRow
from relay.registry import Actor
from relay_api.answers import (
    Mirror,
    answer_list,
    answer_object,
    dump,
    workflow_address,
)
from relay_api.bodies import json_body
from relay_api.dependencies import (
    ApplicationName,
    ScheduleName,
    ServerHere,
    changes_schedule,
    reads_application,
)
from relay_api.shapes import (
    Answer,
    Flag,
    Instant,
    InstantText,
    Order,
    format_instant,
    schema_address,
    schema_property,
)
from relay_api.waiting import while_connected

router = APIRouter(prefix="/v2/orgs/{orgName}/apps/{appName}/schedules")


class Schedule(Answer):
    """When a workflow is started again and again; `context` is text for people."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    schedule_id: str
    schedule_name: str
    workflow_name: str
    workflow_class: str | None
    cron_expression: str
    status: str
    context: str | None
    last_fired_at: Instant | None
    automatic_backfill: bool
    cron_timezone: str | None
    application_name: str | None


class TriggerOutputBody(Answer):
    """The workflow that was started."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    workflow_id: str


class BackfillInputBody(Order):
    """The span in which the schedule did not run."""

    start_time: InstantText
    end_time: InstantText


class BackfillOutputBody(Answer):
    """The workflows that were started, by the times they are for."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    workflow_ids: list[str]


_SCHEDULE = Mirror(Schedule, ScheduleRow)


@router.get("", operation_id="listSchedules", response_model=list[Schedule])
async def list_schedules(
    request: Request,
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
    status: str = "",
    workflow_name: Annotated[str, Query(alias="workflowName")] = "",
    name_prefix: Annotated[str, Query(alias="scheduleNamePrefix")] = "",
    load_context: Annotated[Flag, Query(alias="loadContext")] = True,
) -> Response:
    """The schedules that match, by name; a blank filter is none."""
    rows = await while_connected(
        request,
        server.operations.schedules.list_all(
            name,
            status=status or None,
            workflow_name=workflow_name or None,
            name_prefix=name_prefix or None,
            load_context=load_context,
        ),
    )
    return await answer_list(server.clock, rows, _SCHEDULE)


@router.get("/{scheduleName}", operation_id="getSchedule", response_model=Schedule)
async def get_schedule(
    request: Request,
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
    schedule: ScheduleName,
) -> Response:
    """One schedule."""
    row = await while_connected(
        request, server.operations.schedules.get(name, schedule)
    )
    address = schema_property(server.settings, "Schedule")
    return await answer_object(server.clock, {**address, **_SCHEDULE(row)})


@router.post(
    "/{scheduleName}/pause",
    operation_id="pauseSchedule",
    status_code=204,
    response_class=Response,
)
async def pause_schedule(
    caller: Annotated[
        Actor, changes_schedule(Permission.APPLICATION_WRITE, "schedule.pause")
    ],
    server: ServerHere,
    name: ApplicationName,
    schedule: ScheduleName,
) -> None:
    """Have a schedule start nothing until it is resumed."""
    await server.operations.schedules.pause(caller, name, schedule)


@router.post(
    "/{scheduleName}/resume",
    operation_id="resumeSchedule",
    status_code=204,
    response_class=Response,
)
async def resume_schedule(
    caller: Annotated[
        Actor, changes_schedule(Permission.APPLICATION_WRITE, "schedule.resume")
    ],
    server: ServerHere,
    name: ApplicationName,
    schedule: ScheduleName,
) -> None:
    """Have a paused schedule go on."""
    await server.operations.schedules.resume(caller, name, schedule)


@router.post(
    "/{scheduleName}/trigger",
    operation_id="triggerSchedule",
    status_code=201,
    response_model=TriggerOutputBody,
)
async def trigger_schedule(
    caller: Annotated[
        Actor, changes_schedule(Permission.APPLICATION_WRITE, "schedule.trigger")
    ],
    server: ServerHere,
    name: ApplicationName,
    schedule: ScheduleName,
) -> Response:
    """Start the workflow of a schedule now; asking again starts it again."""
    workflow_id = await server.operations.schedules.trigger(caller, name, schedule)
    address = schema_address(server.settings, "TriggerOutputBody")
    return await answer_object(
        server.clock,
        dump(TriggerOutputBody(workflow_id=workflow_id, **address)),
        status_code=201,
        location=workflow_address(server.settings, name, workflow_id),
    )


@router.post(
    "/{scheduleName}/backfill",
    operation_id="backfillSchedule",
    response_model=BackfillOutputBody,
)
async def backfill_schedule(
    caller: Annotated[
        Actor, changes_schedule(Permission.APPLICATION_WRITE, "schedule.backfill")
    ],
    server: ServerHere,
    name: ApplicationName,
    schedule: ScheduleName,
    body: Annotated[BackfillInputBody, json_body(BackfillInputBody)],
) -> Response:
    """Start what a schedule would have started in a span."""
    if body.start_time >= body.end_time:
        raise InvalidInputError(
            "body.endTime", "must be after startTime", format_instant(body.end_time)
        )
    workflow_ids = await server.operations.schedules.backfill(
        caller, name, schedule, body.start_time, body.end_time
    )
    address = schema_address(server.settings, "BackfillOutputBody")
    started = BackfillOutputBody(workflow_ids=list(workflow_ids), **address)
    return await answer_object(server.clock, dump(started))
