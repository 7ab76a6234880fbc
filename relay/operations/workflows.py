"""Workflows as their executors know them: found, read and counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from relay.errors import NotFoundError
from relay.ids import WorkflowId
from relay.operations.asking import Executors
from relay.operations.clerk import Clerk, refuse_payloads
from relay.operations.privacy import without_payloads, without_step_payloads
from relay.operations.scope import check_owner, is_foreign
from relay.protocol.statistics import (
    AggregateRow,
    StepAggregateRow,
    StepAggregatesRequest,
    StepFilter,
    StepGrouping,
    StepSelection,
    WorkflowAggregatesRequest,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.protocol.workflow_orders import ExportWorkflowRequest
from relay.protocol.workflows import (
    EventRow,
    GetWorkflowEventsRequest,
    GetWorkflowNotificationsRequest,
    GetWorkflowRequest,
    GetWorkflowStreamsRequest,
    ListStepsRequest,
    NotificationRow,
    SearchWorkflowsRequest,
    StepRow,
    StreamRow,
    WorkflowFilter,
    WorkflowRow,
)
from relay.records import ApplicationRecord

KIND = "workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """
    Which part of the matching workflows, in which order, and how much of each.

    `limit` is `None` for all. `queues_only` leaves out what was never on a queue.
    """

    limit: int | None = None
    offset: int | None = None
    newest_first: bool = False
    queues_only: bool = False
    load_input: bool = False
    load_output: bool = False


class Workflows:
    """
    What can be learned about workflows.

    All of it raises `NotFoundError` for an application or a workflow that does not
    exist, and `DispatchError` when no executor answers usefully. In private mode no
    payload is asked for, and none is returned. Workflows of other applications in the
    same system database do not exist here.
    """

    def __init__(self, *, clerk: Clerk, executors: Executors, slow: timedelta) -> None:
        self._clerk = clerk
        self._executors = executors
        self._slow = slow

    async def search(
        self, application: str, matching: WorkflowFilter, listing: Listing
    ) -> Sequence[WorkflowRow]:
        """The workflows that match, oldest first unless the listing says otherwise."""
        record = await self._clerk.find(application)
        rows = await self._executors.read(
            record,
            SearchWorkflowsRequest(
                filter=matching,
                application=record.ref.name,
                limit=listing.limit,
                offset=listing.offset,
                newest_first=listing.newest_first,
                queues_only=listing.queues_only,
                load_input=listing.load_input and not record.private_mode,
                load_output=listing.load_output and not record.private_mode,
            ),
        )
        own = [row for row in rows if not is_foreign(row.application_name, record)]
        if record.private_mode:
            return [without_payloads(row) for row in own]
        return own

    async def get(self, application: str, workflow_id: str) -> WorkflowRow:
        """One workflow, with its input and output."""
        record = await self._clerk.find(application)
        row = await self._look_up(record, workflow_id, load=not record.private_mode)
        return without_payloads(row) if record.private_mode else row

    async def list_steps(
        self,
        application: str,
        workflow_id: str,
        *,
        limit: int | None = None,
        offset: int | None = None,
    ) -> Sequence[StepRow]:
        """The finished steps of a workflow, by number."""
        record = await self._clerk.find(application)
        await self._look_up(record, workflow_id)
        rows = await self._executors.read(
            record,
            ListStepsRequest(
                workflow_id=WorkflowId(workflow_id),
                limit=limit,
                offset=offset,
                load_output=not record.private_mode,
            ),
            about=(KIND, workflow_id),
        )
        if record.private_mode:
            return [without_step_payloads(row) for row in rows]
        return rows

    async def list_events(
        self, application: str, workflow_id: str
    ) -> Sequence[EventRow]:
        """The events that a workflow has set; refused in private mode."""
        record = await self._find_open(application, workflow_id, "events")
        return await self._executors.read(
            record,
            GetWorkflowEventsRequest(workflow_id=WorkflowId(workflow_id)),
            about=(KIND, workflow_id),
        )

    async def list_notifications(
        self, application: str, workflow_id: str
    ) -> Sequence[NotificationRow]:
        """The messages sent to a workflow; refused in private mode."""
        record = await self._find_open(application, workflow_id, "notifications")
        return await self._executors.read(
            record,
            GetWorkflowNotificationsRequest(workflow_id=WorkflowId(workflow_id)),
            about=(KIND, workflow_id),
        )

    async def list_streams(
        self, application: str, workflow_id: str
    ) -> Sequence[StreamRow]:
        """What a workflow has written to its streams; refused in private mode."""
        record = await self._find_open(application, workflow_id, "streams")
        return await self._executors.read(
            record,
            GetWorkflowStreamsRequest(workflow_id=WorkflowId(workflow_id)),
            about=(KIND, workflow_id),
        )

    async def export(
        self, application: str, workflow_id: str, *, with_children: bool
    ) -> str:
        """A workflow as text that an SDK of its language can import; not if private."""
        record = await self._find_open(application, workflow_id, "exports")
        return await self._executors.read(
            record,
            ExportWorkflowRequest(
                workflow_id=WorkflowId(workflow_id), export_children=with_children
            ),
            within=self._slow,
            about=(KIND, workflow_id),
        )

    async def aggregate(
        self,
        application: str,
        *,
        grouping: WorkflowGrouping,
        selection: WorkflowSelection,
        matching: WorkflowFilter,
        time_bucket_size: timedelta | None = None,
    ) -> Sequence[AggregateRow]:
        """Counts and extremes of workflows, a row a group."""
        record = await self._clerk.find(application)
        return await self._executors.read(
            record,
            WorkflowAggregatesRequest(
                grouping=grouping,
                selection=selection,
                filter=matching,
                time_bucket_size=time_bucket_size,
                application=record.ref.name,
            ),
        )

    async def aggregate_steps(
        self,
        application: str,
        *,
        grouping: StepGrouping,
        selection: StepSelection,
        matching: StepFilter,
        time_bucket_size: timedelta | None = None,
    ) -> Sequence[StepAggregateRow]:
        """Counts and extremes of steps, a row a group."""
        record = await self._clerk.find(application)
        return await self._executors.read(
            record,
            StepAggregatesRequest(
                grouping=grouping,
                selection=selection,
                filter=matching,
                time_bucket_size=time_bucket_size,
                application=record.ref.name,
            ),
        )

    async def _find_open(
        self, application: str, workflow_id: str, what: str
    ) -> ApplicationRecord:
        record = await self._clerk.find(application)
        refuse_payloads(record, what)
        await self._look_up(record, workflow_id)
        return record

    async def _look_up(
        self, application: ApplicationRecord, workflow_id: str, *, load: bool = False
    ) -> WorkflowRow:
        row = await self._executors.read(
            application,
            GetWorkflowRequest(
                workflow_id=WorkflowId(workflow_id), load_input=load, load_output=load
            ),
            about=(KIND, workflow_id),
        )
        if row is None:
            raise NotFoundError(KIND, workflow_id)
        check_owner(row.application_name, application, KIND, workflow_id)
        return row
