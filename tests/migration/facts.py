"""Workflows and steps as the pure parts of this room are told them."""

from typing import Any

from msgspec.structs import replace

from relay.ids import AppVersion, ExecutorId
from relay.migration.planning import (
    Situation,
    WorkflowFacts,
    find_start_step,
    list_started,
)
from relay.migration.steps import Move
from relay.protocol.workflows import StepRow, WorkflowRow
from relay.records import ItemState, MigrationItem, MigrationMethod
from tests.operations.desk import step, workflow
from tests.recovery.records import make_application

REWIND, FORK = MigrationMethod.REWIND, MigrationMethod.FORK


def pending(workflow_id: str = "w", **changes: Any) -> WorkflowRow:
    """A workflow that the dead executor `dead` runs with version `v1`."""
    fields = {"status": "PENDING", "executor_id": "dead", "app_version": "v1"}
    return workflow(workflow_id, **{**fields, **changes})


def enqueued(workflow_id: str, **changes: Any) -> WorkflowRow:
    """One that waits in a queue for version `v1`."""
    fields = {"status": "ENQUEUED", "executor_id": None, "queue_name": "jobs"}
    return pending(workflow_id, **{**fields, **changes})


def recorded(*children: str | None, first: int = 1) -> tuple[StepRow, ...]:
    """A step each, and the child that it has started."""
    return tuple(
        replace(step(number), child_workflow_id=child)
        for number, child in enumerate(children, first)
    )


def facts(
    row: WorkflowRow, *children: str | None, unread: int | None = 0, **changes: Any
) -> WorkflowFacts:
    steps = recorded(*children)
    return WorkflowFacts(
        row=row,
        start_step=find_start_step(steps),
        started=list_started(steps),
        unread=unread,
        **changes,
    )


def situation(
    *members: WorkflowFacts,
    relatives: tuple[WorkflowRow, ...] = (),
    method: MigrationMethod = REWIND,
    dead: tuple[str, ...] = (),
) -> Situation:
    """The work of `dead`, of version `v1`; connected are executors of `v2`."""
    return Situation(
        application=make_application(),
        method=method,
        executor_id=ExecutorId("dead"),
        app_version=AppVersion("v1"),
        live_versions={"v2"},
        dead=set(dead),
        members={each.row.workflow_id: each for each in members},
        relatives={row.workflow_id: row for row in relatives},
    )


def move(method: MigrationMethod = REWIND) -> Move:
    return Move(
        method=method,
        executor_id=ExecutorId("dead"),
        old_version=AppVersion("v1"),
        app_version=AppVersion("v2"),
    )


def item(state: ItemState = ItemState.PLANNED, **changes: Any) -> MigrationItem:
    fields: dict[str, Any] = {
        "migration_id": "m",
        "position": 0,
        "workflow_id": "w",
        "name": "checkout",
        "state": state,
        "start_step": 3,
        "new_workflow_id": None,
        "queue_name": "jobs",
        "queue_partition_key": None,
        "children": (),
        "reason": None,
    }
    return MigrationItem(**{**fields, **changes})
