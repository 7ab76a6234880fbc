"""Stranded work that is moved to another version: one migration, and its workflows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from relay.ids import (
    ApplicationRef,
    AppVersion,
    MigrationId,
    RecoveryId,
    WorkflowId,
)


class MigrationMethod(StrEnum):
    """How a workflow gets another version."""

    REWIND = "REWIND"
    """It keeps its id: cancelled, then cut back to where it was and queued again."""

    FORK = "FORK"
    """A copy with an id of its own goes on, and the original is cancelled."""


class ItemState(StrEnum):
    """How far the move of one workflow is."""

    PLANNED = "PLANNED"
    """Nothing has been done to it yet."""

    FORKING = "FORKING"
    """Its copy is being made."""

    CANCELLING = "CANCELLING"
    """It is being cancelled: before a rewind, or after its copy was made."""

    REWINDING = "REWINDING"
    """It is cancelled, and about to be rewound to the new version."""

    MOVED = "MOVED"
    """It, or its copy, has the new version; seen, not only said."""

    SKIPPED = "SKIPPED"
    """At its turn it was no longer there to be moved; `reason` says why."""

    REFUSED = "REFUSED"
    """Moving it would lose something; `reason` says what."""

    FAILED = "FAILED"
    """The executors would not; `reason` says what is left behind."""


OPEN_ITEM_STATES = frozenset(
    {
        ItemState.PLANNED,
        ItemState.FORKING,
        ItemState.CANCELLING,
        ItemState.REWINDING,
    }
)
"""Items that something still has to be done about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRecord:
    """
    One run that moves the work of a recovery to `app_version`.

    `has_more` tells that the dead executor owned more pending workflows than are moved
    at once.
    """

    id: MigrationId
    recovery_id: RecoveryId
    application: ApplicationRef
    app_version: AppVersion
    method: MigrationMethod
    has_more: bool
    begun_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationItem:
    """
    One workflow of a migration.

    Items are worked on by `position`. `start_step` is the first step that is run again;
    0 is "from the beginning". `children` are items that must be moved before this one.
    """

    migration_id: MigrationId
    position: int
    workflow_id: WorkflowId
    name: str | None
    state: ItemState
    start_step: int
    new_workflow_id: WorkflowId | None
    queue_name: str | None
    queue_partition_key: str | None
    children: Sequence[WorkflowId]
    reason: str | None
