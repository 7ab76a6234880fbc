"""Schedules as their executors know them, paused, resumed and set off."""

from collections.abc import Sequence
from datetime import datetime

from relay.dispatch import Repeat
from relay.errors import InvalidInputError, NotFoundError
from relay.operations.asking import Executors
from relay.operations.changes import demand_success
from relay.operations.clerk import Clerk
from relay.operations.privacy import without_context
from relay.operations.scope import check_owner, is_foreign
from relay.protocol.schedules import (
    BackfillScheduleRequest,
    GetScheduleRequest,
    ListSchedulesRequest,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    ScheduleRow,
    TriggerScheduleRequest,
)
from relay.records import ApplicationRecord, AuditTarget
from relay.registry import Actor

KIND = "schedule"


class Schedules:
    """
    What can be learned about schedules, and done with them; raises as `Workflows` does.

    Some SDKs claim success for a schedule that does not exist, so that each is looked
    up before it is changed.
    """

    def __init__(self, *, clerk: Clerk, executors: Executors) -> None:
        self._clerk = clerk
        self._executors = executors

    async def list_all(
        self,
        application: str,
        *,
        status: str | None = None,
        workflow_name: str | None = None,
        name_prefix: str | None = None,
        load_context: bool = True,
    ) -> Sequence[ScheduleRow]:
        """The schedules that match, by name."""
        record = await self._clerk.find(application)
        rows = await self._executors.read(
            record,
            ListSchedulesRequest(
                application=record.ref.name,
                status=(status,) if status else (),
                workflow_name=(workflow_name,) if workflow_name else (),
                schedule_name_prefix=(name_prefix,) if name_prefix else (),
                load_context=load_context and not record.private_mode,
            ),
        )
        own = [row for row in rows if not is_foreign(row.application_name, record)]
        if record.private_mode:
            own = [without_context(row) for row in own]
        return sorted(own, key=lambda row: row.schedule_name)

    async def get(self, application: str, name: str) -> ScheduleRow:
        """One schedule."""
        record = await self._clerk.find(application)
        row = await self._look_up(record, name, load_context=not record.private_mode)
        return without_context(row) if record.private_mode else row

    async def pause(self, actor: Actor, application: str, name: str) -> None:
        """Let a schedule start nothing until it is resumed."""
        request = PauseScheduleRequest(schedule_name=name)
        await self._switch(actor, application, request, "schedule.pause")

    async def resume(self, actor: Actor, application: str, name: str) -> None:
        """Let a paused schedule go on."""
        request = ResumeScheduleRequest(schedule_name=name)
        await self._switch(actor, application, request, "schedule.resume")

    async def trigger(self, actor: Actor, application: str, name: str) -> str:
        """Start the workflow of a schedule now; its id. Never asked twice."""
        record = await self._clerk.find(application)
        await self._look_up(record, name)
        workflow_id = await self._executors.change(
            record,
            TriggerScheduleRequest(schedule_name=name),
            repeat=Repeat.NEVER,
            about=(KIND, name),
        )
        await self._clerk.note(
            actor,
            "schedule.trigger",
            record,
            {"workflow_id": workflow_id},
            target=_target(name),
        )
        return workflow_id

    async def backfill(
        self, actor: Actor, application: str, name: str, start: datetime, end: datetime
    ) -> Sequence[str]:
        """
        Start what a schedule would have started in a span; the ids. Never asked twice.

        Raises:
            InvalidInputError: the span ends before it begins.
        """
        if start >= end:
            raise InvalidInputError("endTime", "must be after startTime")
        record = await self._clerk.find(application)
        await self._look_up(record, name)
        workflow_ids = await self._executors.change(
            record,
            BackfillScheduleRequest(schedule_name=name, start_time=start, end_time=end),
            repeat=Repeat.NEVER,
            about=(KIND, name),
        )
        await self._clerk.note(
            actor,
            "schedule.backfill",
            record,
            {
                "start_time": start,
                "end_time": end,
                "workflow_count": len(workflow_ids),
            },
            target=_target(name),
        )
        return workflow_ids

    async def _switch(
        self,
        actor: Actor,
        application: str,
        request: PauseScheduleRequest | ResumeScheduleRequest,
        operation: str,
    ) -> None:
        name = request.schedule_name
        record = await self._clerk.find(application)
        await self._look_up(record, name)
        reply = await self._executors.change(
            record, request, repeat=Repeat.ALWAYS, about=(KIND, name)
        )
        demand_success(reply)
        await self._clerk.note(actor, operation, record, {}, target=_target(name))

    async def _look_up(
        self, application: ApplicationRecord, name: str, *, load_context: bool = False
    ) -> ScheduleRow:
        row = await self._executors.read(
            application,
            GetScheduleRequest(schedule_name=name, load_context=load_context),
            about=(KIND, name),
        )
        if row is None:
            raise NotFoundError(KIND, name)
        check_owner(row.application_name, application, KIND, name)
        return row


def _target(name: str) -> AuditTarget:
    return AuditTarget(kind=KIND, id=name)
