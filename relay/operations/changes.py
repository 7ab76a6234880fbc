"""Workflows changed: cancelled, resumed, forked, deleted, imported."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from relay.dispatch import Repeat
from relay.errors import (
    ConflictError,
    DispatchError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from relay.ids import AppVersion, WorkflowId
from relay.operations.asking import Executors
from relay.operations.clerk import Clerk, name_workflows, refuse_payloads
from relay.operations.scope import is_foreign
from relay.operations.workflows import KIND
from relay.protocol import Request
from relay.protocol.messages import Acknowledgement
from relay.protocol.workflow_orders import (
    START_STEP_LIMIT,
    CancelRequest,
    DeleteRequest,
    ForkFromFailureRequest,
    ForkMode,
    ForkWorkflowRequest,
    ImportWorkflowRequest,
    ResumeRequest,
)
from relay.protocol.workflows import (
    GetWorkflowRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
    WorkflowRow,
)
from relay.records import ApplicationRecord, AuditStatus, AuditTarget
from relay.registry import Actor


@dataclass(frozen=True, slots=True)
class _Order:
    """
    What the audit log says of an order about workflows; bulk ones may take long.

    `needs_all`: that a workflow does not exist is an error, and no reason to go on.
    """

    verb: str
    details: Mapping[str, object]
    is_bulk: bool
    needs_all: bool = False


class WorkflowChanges:
    """
    What can be done to workflows, by one executor for all.

    Each success leaves one audit entry; what is refused or fails is written down by the
    edge. For whoever may only touch some applications, ids are looked up first: what
    belongs to another one in the same system database is answered as what does not
    exist, and neither is sent to an executor.
    """

    def __init__(self, *, clerk: Clerk, executors: Executors, slow: timedelta) -> None:
        self._clerk = clerk
        self._executors = executors
        self._slow = slow

    async def cancel(
        self,
        actor: Actor,
        application: str,
        ids: Sequence[str],
        *,
        with_children: bool,
        is_bulk: bool = False,
    ) -> None:
        """Cancel workflows; those that are finished or unknown are left alone."""
        await self._order(
            _Order("cancel", {"cancel_children": with_children}, is_bulk),
            actor,
            application,
            ids,
            lambda wanted: CancelRequest(
                workflow_ids=wanted, cancel_children=with_children
            ),
        )

    async def resume(
        self,
        actor: Actor,
        application: str,
        ids: Sequence[str],
        *,
        queue_name: str | None,
        is_bulk: bool = False,
    ) -> None:
        """
        Put workflows back on a queue, by an executor of the latest version.

        Asked twice, the SDK would also put back what has begun to run since, and run
        its step again.
        """
        await self._order(
            _Order("resume", {"queue_name": queue_name}, is_bulk, needs_all=True),
            actor,
            application,
            ids,
            lambda wanted: ResumeRequest(workflow_ids=wanted, queue_name=queue_name),
            repeat=Repeat.UNDELIVERED,
            latest_version=True,
        )

    async def delete(
        self,
        actor: Actor,
        application: str,
        ids: Sequence[str],
        *,
        with_children: bool,
        is_bulk: bool = False,
    ) -> None:
        """Delete workflows with all they have written; unknown ones are no error."""
        await self._order(
            _Order("delete", {"delete_children": with_children}, is_bulk),
            actor,
            application,
            ids,
            lambda wanted: DeleteRequest(
                workflow_ids=wanted, delete_children=with_children
            ),
        )

    async def fork(
        self,
        actor: Actor,
        application: str,
        workflow_id: str,
        *,
        start_step: int = 0,
        app_version: str | None = None,
        new_workflow_id: str | None = None,
        queue_name: str | None = None,
        queue_partition_key: str | None = None,
    ) -> str:
        """
        Start a copy of a workflow from one of its steps; the copy's id.

        Without an id for it Relay makes one, so that no repetition forks twice. Under
        an id of the caller's own a second try would find the first one's copy, and
        could not tell whose it is: there is none.

        Raises:
            ConflictError: the new id is taken.
            InvalidInputError: `start_step` is none.
        """
        if not 0 <= start_step <= START_STEP_LIMIT:
            raise InvalidInputError(
                "startStep", f"must be from 0 to {START_STEP_LIMIT}", start_step
            )
        record = await self._clerk.find(application)
        wanted = WorkflowId(workflow_id)
        await self._demand_reach(actor, record, (wanted,))
        made_id = str(uuid4())
        try:
            forked = await self._executors.change(
                record,
                ForkWorkflowRequest(
                    workflow_id=wanted,
                    start_step=start_step,
                    app_version=_version(app_version),
                    new_workflow_id=new_workflow_id or made_id,
                    queue_name=queue_name,
                    queue_partition_key=queue_partition_key,
                ),
                repeat=Repeat.UNDELIVERED if new_workflow_id else Repeat.ALWAYS,
                about=(KIND, workflow_id),
            )
        except ConflictError:
            # Nobody else knows that id: a try whose answer was lost has forked.
            if new_workflow_id or await self._find(record, WorkflowId(made_id)) is None:
                raise
            forked = made_id
        await self._clerk.note(
            actor,
            "workflow.fork",
            record,
            {
                "new_workflow_id": forked,
                "start_step": start_step,
                "app_version": app_version,
            },
            target=_target(workflow_id),
        )
        return forked

    async def fork_from_failure(
        self,
        actor: Actor,
        application: str,
        ids: Sequence[str],
        *,
        mode: ForkMode,
        app_version: str | None = None,
        queue_name: str | None = None,
        queue_partition_key: str | None = None,
    ) -> Sequence[str]:
        """Fork each workflow from where `mode` says; the new ids, in the same order."""
        record = await self._clerk.find(application)
        wanted = tuple(WorkflowId(id_) for id_ in ids)
        await self._demand_reach(actor, record, _once(wanted))
        forked: Sequence[str] = ()
        if wanted:
            forked = await self._executors.change(
                record,
                ForkFromFailureRequest(
                    workflow_ids=wanted,
                    mode=mode,
                    app_version=_version(app_version),
                    queue_name=queue_name,
                    queue_partition_key=queue_partition_key,
                ),
                repeat=Repeat.UNDELIVERED,
                within=self._slow,
                about=_about(wanted),
            )
        await self._clerk.note(
            actor,
            "workflow.fork_from_failure",
            record,
            {
                **name_workflows(wanted),
                **name_workflows(forked, which="new_"),
                "app_version": app_version,
            },
        )
        return forked

    async def demand_imports(self, application: str) -> ApplicationRecord:
        """
        The application, if it takes imports: to be asked before a large body is read.

        Raises:
            PermissionDeniedError: it is private, or takes no imports.
        """
        record = await self._clerk.find(application)
        refuse_payloads(record, "imports")
        if not record.imports_allowed:
            raise PermissionDeniedError(
                f"application {record.ref.name!r} takes no imports, because a Python"
                " application unpickles what it is given; to allow them, PATCH"
                " importsAllowed under /relay/v1/orgs/{org}/apps/{app}/settings"
            )
        return record

    async def import_one(
        self, actor: Actor, application: str, serialized_workflow: str
    ) -> None:
        """
        Have an executor take an exported workflow in.

        Raises:
            PermissionDeniedError: the application is private, or takes no imports.
        """
        record = await self.demand_imports(application)
        reply = await self._executors.change(
            record,
            ImportWorkflowRequest(serialized_workflow=serialized_workflow),
            repeat=Repeat.UNDELIVERED,
            within=self._slow,
        )
        demand_success(reply)
        await self._clerk.note(
            actor,
            "workflow.import",
            record,
            {"size_chars": len(serialized_workflow)},
        )

    async def _demand_reach(
        self, actor: Actor, application: ApplicationRecord, ids: Sequence[WorkflowId]
    ) -> None:
        within = await self._reach(actor, application, ids)
        missing = [id_ for id_ in ids if id_ not in within]
        if missing:
            raise NotFoundError(KIND, missing[0])

    async def _reach(
        self, actor: Actor, application: ApplicationRecord, ids: Sequence[WorkflowId]
    ) -> Collection[WorkflowId]:
        """Those that exist in the application, or all if the actor may touch others."""
        if not ids or actor.principal.application_ids is None:
            return frozenset(ids)
        if len(ids) == 1:
            row = await self._find(application, ids[0])
            rows: Sequence[WorkflowRow] = () if row is None else (row,)
        else:
            # Asked about this application, SDKs would leave out exactly the rows that
            # name none.
            rows = await self._executors.read(
                application,
                SearchWorkflowsRequest(
                    filter=WorkflowFilter(workflow_ids=tuple(ids)), application=None
                ),
            )
        return {
            WorkflowId(row.workflow_id)
            for row in rows
            if not is_foreign(row.application_name, application)
        }

    async def _find(
        self, application: ApplicationRecord, workflow_id: WorkflowId
    ) -> WorkflowRow | None:
        try:
            return await self._executors.read(
                application,
                GetWorkflowRequest(
                    workflow_id=workflow_id, load_input=False, load_output=False
                ),
                about=(KIND, workflow_id),
            )
        except NotFoundError:
            return None

    async def _order(
        self,
        order: _Order,
        actor: Actor,
        application: str,
        ids: Sequence[str],
        make: Callable[[tuple[WorkflowId, ...]], Request[Acknowledgement]],
        *,
        repeat: Repeat = Repeat.ALWAYS,
        latest_version: bool = False,
    ) -> None:
        """Have an executor do `order`, if there is anything to do, and note it."""
        record = await self._clerk.find(application)
        wanted = _once(ids)
        if order.needs_all:
            await self._demand_reach(actor, record, wanted)
            sent = wanted
        else:
            within = await self._reach(actor, record, wanted)
            sent = tuple(id_ for id_ in wanted if id_ in within)
        if sent:
            reply = await self._executors.change(
                record,
                make(sent),
                repeat=repeat,
                within=self._slow if order.is_bulk else None,
                latest_version=latest_version,
                about=_about(sent),
            )
            demand_success(reply)
        await self._note(order, actor, record, wanted, sent)

    async def _note(
        self,
        order: _Order,
        actor: Actor,
        application: ApplicationRecord,
        wanted: Sequence[WorkflowId],
        sent: Sequence[WorkflowId],
    ) -> None:
        details = dict(order.details)
        if order.is_bulk:
            operation, target = f"workflow.bulk_{order.verb}", None
            details |= name_workflows(sent)
            if len(sent) < len(wanted):
                were_sent = frozenset(sent)
                unsent = [id_ for id_ in wanted if id_ not in were_sent]
                details |= name_workflows(unsent, which="unsent_")
        else:
            operation, target = f"workflow.{order.verb}", _target(wanted[0])
        status = AuditStatus.SUCCESS
        if wanted and not sent:
            # The caller must not learn whether there is such a workflow elsewhere.
            status = AuditStatus.FAILURE
            details["error"] = "not sent: no workflow of this application"
        await self._clerk.note(
            actor, operation, application, details, target=target, status=status
        )


def demand_success(reply: Acknowledgement) -> None:
    """
    Demand a yes.

    Raises:
        DispatchError: the executor said no, and not why.
    """
    if not reply.success:
        raise DispatchError("the executor did not succeed, and gave no reason")


def _once(ids: Sequence[str]) -> tuple[WorkflowId, ...]:
    return tuple(WorkflowId(id_) for id_ in dict.fromkeys(ids))


def _about(ids: Sequence[WorkflowId]) -> tuple[str, str]:
    more = f" or one of {len(ids) - 1} more" if len(ids) > 1 else ""
    return KIND, f"{ids[0]}{more}"


def _target(workflow_id: str) -> AuditTarget:
    return AuditTarget(kind=KIND, id=workflow_id)


def _version(text: str | None) -> AppVersion | None:
    return AppVersion(text) if text else None
