"""Stranded work moved to another version: `…/recoveries/{recoveryId}/migrate`."""

from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.ids import AppVersion, RecoveryId
from relay.migration import MigrationReport, MigrationState
from relay.records import ItemState, MigrationItem, MigrationMethod
from relay.registry import Actor
from relay_api.answers import Properties, answer_object, dump
from relay_api.bodies import describe_body, json_body
from relay_api.dependencies import (
    ApplicationName,
    RecoveryPathId,
    ServerHere,
    changes_application,
    reads_application,
)
from relay_api.routes.recoveries import VersionText
from relay_api.shapes import Answer, Order
from relay_api.waiting import while_connected

router = APIRouter(prefix="/relay/v1/orgs/{orgName}/apps/{appName}/recoveries")

ANSWER_WITHIN: Final = timedelta(seconds=20)
"""Clients give up at 30 s; what takes longer is asked for again."""


class MigrationOrder(Order):
    """To which version the work goes; with `dryRun` nothing is done."""

    app_version: VersionText
    dry_run: bool = False


class MigrationCounts(Answer):
    """The workflows of a migration by what became of them; `planned`: nothing yet."""

    planned: int
    moved: int
    refused: int
    skipped: int
    failed: int


class MigratedWorkflow(Answer):
    """
    One workflow, and how far its move is.

    `startStep` is the first step that runs again, 0 for the first there is.
    `newWorkflowId` is that of its copy where the SDK cannot move it under its own id.
    `reason` says why it was refused, skipped or failed, and what is left behind; of
    what is moved it says where Relay could not look for messages.
    """

    workflow_id: str
    name: str | None
    state: ItemState
    start_step: int
    new_workflow_id: str | None
    queue_name: str | None
    reason: str | None


class Migration(Answer):
    """
    The work of a stranded recovery on its way to `appVersion`.

    `PLANNED` is a dry run; `RUNNING` goes on by itself; `ENDED` says that each workflow
    has come to an end. With `hasMore` there is more work than is moved at once: order
    it again after the end.
    """

    recovery_id: str
    app_version: str
    dry_run: bool
    state: MigrationState
    method: MigrationMethod
    has_more: bool
    counts: MigrationCounts
    workflows: list[MigratedWorkflow]


@router.post(
    "/{recoveryId}/migrate",
    operation_id="migrateRecovery",
    response_model=Migration,
    responses={202: {"model": Migration, "description": "It goes on."}},
    openapi_extra=describe_body(MigrationOrder),
)
async def migrate_recovery(
    request: Request,
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "recovery.migrate")
    ],
    server: ServerHere,
    name: ApplicationName,
    recovery_id: RecoveryPathId,
    body: Annotated[MigrationOrder, json_body(MigrationOrder)],
) -> Response:
    """
    Move stranded work to a version of which an executor is connected.

    A run that takes longer than 20 s goes on after the answer, which is 202 then and
    says in `Location` where its end is found.
    """
    id_, version = RecoveryId(recovery_id), AppVersion(body.app_version)
    if body.dry_run:
        plan = server.migrations.plan(name, id_, version)
        report = await while_connected(request, plan)
    else:
        report = await server.migrations.begin(
            caller, name, id_, version, wait=ANSWER_WITHIN
        )
    is_over = report.state is not MigrationState.RUNNING
    parent = request.url.path.removesuffix("/migrate")
    return await answer_object(
        server.clock,
        _to_migration(report),
        status_code=200 if is_over else 202,
        location=None if is_over else f"{parent}/migration",
    )


@router.get(
    "/{recoveryId}/migration", operation_id="getMigration", response_model=Migration
)
async def get_migration(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
    recovery_id: RecoveryPathId,
) -> Response:
    """How far the newest migration of a recovery is."""
    report = await server.migrations.report(name, RecoveryId(recovery_id))
    return await answer_object(server.clock, _to_migration(report))


def _to_migration(report: MigrationReport) -> Properties:
    counts = report.counts
    return dump(
        Migration(
            recovery_id=report.recovery_id,
            app_version=report.app_version,
            dry_run=report.state is MigrationState.PLANNED,
            state=report.state,
            method=report.method,
            has_more=report.has_more,
            counts=MigrationCounts(
                planned=counts[ItemState.PLANNED],
                moved=counts[ItemState.MOVED],
                refused=counts[ItemState.REFUSED],
                skipped=counts[ItemState.SKIPPED],
                failed=counts[ItemState.FAILED],
            ),
            workflows=[_to_workflow(item) for item in report.items],
        )
    )


def _to_workflow(item: MigrationItem) -> MigratedWorkflow:
    return MigratedWorkflow(
        workflow_id=item.workflow_id,
        name=item.name,
        state=item.state,
        start_step=item.start_step,
        new_workflow_id=item.new_workflow_id,
        queue_name=item.queue_name,
        reason=item.reason,
    )
