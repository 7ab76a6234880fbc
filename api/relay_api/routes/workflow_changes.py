"""Changing workflows: `/v2/orgs/{orgName}/apps/{appName}/workflows/…`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field
from starlette.responses import Response

from relay.access import Permission
from relay.errors import InvalidInputError
from relay.protocol.workflow_orders import (
    START_STEP_LIMIT,
    ForkMode,
    FromLastFailure,
    FromLastStep,
    FromStep,
    FromStepName,
)
from relay.registry import Actor
from relay_api.answers import answer_object, dump, workflow_address
from relay_api.bodies import json_body, message_limit
from relay_api.dependencies import (
    ApplicationName,
    ServerHere,
    WorkflowId,
    changes_application,
    changes_workflow,
)
from relay_api.shapes import (
    Answer,
    Flag,
    Given,
    GivenTexts,
    NotNull,
    Order,
    Text,
    WholeNumber,
    schema_address,
)

router = APIRouter(prefix="/v2/orgs/{orgName}/apps/{appName}/workflows")

StartStep = Annotated[WholeNumber, Field(ge=0, le=START_STEP_LIMIT)]


class CancelWorkflowInputBody(Order):
    """Whether what the workflow has started is cancelled too."""

    cancel_children: bool = False


class ResumeWorkflowInputBody(Order):
    """The queue to put the workflow on; without one, the SDK's own."""

    queue_name: Annotated[Text | None, NotNull] = None


class ForkWorkflowInputBody(Order):
    """Where the copy begins, and what it is called; without an id it gets a new one."""

    start_step: StartStep = 0
    app_version: Annotated[Text | None, NotNull] = None
    new_workflow_id: Annotated[Text | None, NotNull] = None
    queue_name: Annotated[Text | None, NotNull] = None
    queue_partition_key: Annotated[Text | None, NotNull] = None


class ForkWorkflowOutputBody(Answer):
    """The copy."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    workflow_id: str


class BulkCancelInputBody(Order):
    """Which workflows; none is allowed, and does nothing."""

    workflow_ids: GivenTexts
    cancel_children: bool = False


class BulkResumeInputBody(Order):
    """Which workflows, and the queue to put them on."""

    workflow_ids: GivenTexts
    queue_name: Annotated[Text | None, NotNull] = None


class BulkDeleteInputBody(Order):
    """Which workflows, and whether what they have started is deleted too."""

    workflow_ids: GivenTexts
    delete_children: bool = False


class BulkForkFromFailureBody(Order):
    """
    Which workflows, and from which step on: exactly one of the four ways to say it.

    A false one says nothing, and neither does a blank name.
    """

    workflow_ids: GivenTexts
    from_last_failure: bool = False
    from_last_step: bool = False
    from_step: Annotated[StartStep | None, NotNull] = None
    from_step_name: Annotated[Text | None, NotNull] = None
    app_version: Annotated[Text | None, NotNull] = None
    queue_name: Annotated[Text | None, NotNull] = None
    queue_partition_key: Annotated[Text | None, NotNull] = None


class BulkForkFromFailureOutputBody(Answer):
    """The copies, in the order of the originals."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    workflow_ids: list[str]


class ImportWorkflowInputBody(Order):
    """What an export has said."""

    serialized_workflow: Given


async def demand_imports(server: ServerHere, name: ApplicationName) -> None:
    """Refuse an import before its body is read, which may be large."""
    await server.operations.changes.demand_imports(name)


@router.post(
    "/import",
    operation_id="importWorkflow",
    status_code=201,
    response_class=Response,
)
async def import_workflow(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "workflow.import")
    ],
    server: ServerHere,
    name: ApplicationName,
    _: Annotated[None, Depends(demand_imports)],
    body: Annotated[
        ImportWorkflowInputBody, json_body(ImportWorkflowInputBody, limit=message_limit)
    ],
) -> Response:
    """Take an exported workflow in; the application has to allow it."""
    await server.operations.changes.import_one(caller, name, body.serialized_workflow)
    return Response(status_code=201)


@router.post(
    "/bulk-cancel",
    operation_id="bulkCancelWorkflows",
    status_code=204,
    response_class=Response,
)
async def bulk_cancel(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "workflow.bulk_cancel")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[BulkCancelInputBody, json_body(BulkCancelInputBody)],
) -> None:
    """Cancel workflows; those that have ended or do not exist are left alone."""
    await server.operations.changes.cancel(
        caller,
        name,
        body.workflow_ids,
        with_children=body.cancel_children,
        is_bulk=True,
    )


@router.post(
    "/bulk-resume",
    operation_id="bulkResumeWorkflows",
    status_code=204,
    response_class=Response,
)
async def bulk_resume(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "workflow.bulk_resume")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[BulkResumeInputBody, json_body(BulkResumeInputBody)],
) -> None:
    """Put workflows back on a queue: all of them, or none if one does not exist."""
    await server.operations.changes.resume(
        caller,
        name,
        body.workflow_ids,
        queue_name=body.queue_name or None,
        is_bulk=True,
    )


@router.post(
    "/bulk-delete",
    operation_id="bulkDeleteWorkflows",
    status_code=204,
    response_class=Response,
)
async def bulk_delete(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "workflow.bulk_delete")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[BulkDeleteInputBody, json_body(BulkDeleteInputBody)],
) -> None:
    """Delete workflows with all they have written; unknown ones are no error."""
    await server.operations.changes.delete(
        caller,
        name,
        body.workflow_ids,
        with_children=body.delete_children,
        is_bulk=True,
    )


@router.post(
    "/bulk-fork-from-failure",
    operation_id="bulkForkWorkflowsFromFailure",
    response_model=BulkForkFromFailureOutputBody,
)
async def bulk_fork(
    caller: Annotated[
        Actor,
        changes_application(Permission.APPLICATION_WRITE, "workflow.fork_from_failure"),
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[BulkForkFromFailureBody, json_body(BulkForkFromFailureBody)],
) -> Response:
    """Start a copy of each workflow from the step that the body names."""
    workflow_ids = await server.operations.changes.fork_from_failure(
        caller,
        name,
        body.workflow_ids,
        mode=to_mode(body),
        app_version=body.app_version or None,
        queue_name=body.queue_name or None,
        queue_partition_key=body.queue_partition_key or None,
    )
    address = schema_address(server.settings, "BulkForkFromFailureOutputBody")
    forked = BulkForkFromFailureOutputBody(workflow_ids=list(workflow_ids), **address)
    return await answer_object(server.clock, dump(forked))


@router.post(
    "/{workflowId}/cancel",
    operation_id="cancelWorkflow",
    status_code=204,
    response_class=Response,
)
async def cancel_workflow(
    caller: Annotated[
        Actor, changes_workflow(Permission.APPLICATION_WRITE, "workflow.cancel")
    ],
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
    body: Annotated[
        CancelWorkflowInputBody, json_body(CancelWorkflowInputBody, required=False)
    ],
) -> None:
    """Cancel a workflow; one that has ended or does not exist is left alone."""
    await server.operations.changes.cancel(
        caller, name, [workflow_id], with_children=body.cancel_children, is_bulk=False
    )


@router.post(
    "/{workflowId}/resume",
    operation_id="resumeWorkflow",
    status_code=204,
    response_class=Response,
)
async def resume_workflow(
    caller: Annotated[
        Actor, changes_workflow(Permission.APPLICATION_WRITE, "workflow.resume")
    ],
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
    body: Annotated[
        ResumeWorkflowInputBody, json_body(ResumeWorkflowInputBody, required=False)
    ],
) -> None:
    """Put a workflow back on a queue; it needs an executor of the latest version."""
    await server.operations.changes.resume(
        caller,
        name,
        [workflow_id],
        queue_name=body.queue_name or None,
        is_bulk=False,
    )


@router.post(
    "/{workflowId}/fork",
    operation_id="forkWorkflow",
    status_code=201,
    response_model=ForkWorkflowOutputBody,
)
async def fork_workflow(
    caller: Annotated[
        Actor, changes_workflow(Permission.APPLICATION_WRITE, "workflow.fork")
    ],
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
    body: Annotated[
        ForkWorkflowInputBody, json_body(ForkWorkflowInputBody, required=False)
    ],
) -> Response:
    """Start a copy of a workflow that has done the steps before `startStep`."""
    forked_id = await server.operations.changes.fork(
        caller,
        name,
        workflow_id,
        start_step=body.start_step,
        app_version=body.app_version or None,
        new_workflow_id=body.new_workflow_id or None,
        queue_name=body.queue_name or None,
        queue_partition_key=body.queue_partition_key or None,
    )
    address = schema_address(server.settings, "ForkWorkflowOutputBody")
    return await answer_object(
        server.clock,
        dump(ForkWorkflowOutputBody(workflow_id=forked_id, **address)),
        status_code=201,
        location=workflow_address(server.settings, name, forked_id),
    )


@router.delete(
    "/{workflowId}",
    operation_id="deleteWorkflow",
    status_code=204,
    response_class=Response,
)
async def delete_workflow(
    caller: Annotated[
        Actor, changes_workflow(Permission.APPLICATION_WRITE, "workflow.delete")
    ],
    server: ServerHere,
    name: ApplicationName,
    workflow_id: WorkflowId,
    delete_children: Annotated[Flag, Query(alias="deleteChildren")] = False,
) -> None:
    """Delete a workflow with all it has written; an unknown one is no error."""
    await server.operations.changes.delete(
        caller, name, [workflow_id], with_children=delete_children, is_bulk=False
    )


def to_mode(body: BulkForkFromFailureBody) -> ForkMode:
    """
    The one way in which `body` names the step.

    Raises:
        InvalidInputError: there is none, or more than one.
    """
    modes: list[ForkMode] = []
    if body.from_last_failure:
        modes.append(FromLastFailure())
    if body.from_last_step:
        modes.append(FromLastStep())
    if body.from_step is not None:
        modes.append(FromStep(body.from_step))
    if body.from_step_name and body.from_step_name.strip():
        modes.append(FromStepName(body.from_step_name))
    if len(modes) != 1:
        raise InvalidInputError(
            "body",
            "must have exactly one of fromLastFailure, fromLastStep, fromStep and"
            " fromStepName",
        )
    return modes[0]
