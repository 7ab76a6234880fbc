"""What is told of a migration, planned or under way."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from relay.ids import AppVersion, RecoveryId
from relay.records import (
    OPEN_ITEM_STATES,
    ItemState,
    MigrationItem,
    MigrationMethod,
    MigrationRecord,
)


class MigrationState(StrEnum):
    """Where a migration stands."""

    PLANNED = "PLANNED"
    """A dry run: nothing was written, and nothing done."""

    RUNNING = "RUNNING"
    """Workflows are being moved, or it is not known yet that none are left."""

    ENDED = "ENDED"
    """Each workflow has come to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """
    A migration and its workflows, in the order in which they are moved.

    `has_more` tells that there are more than can be moved at once.
    """

    recovery_id: RecoveryId
    app_version: AppVersion
    state: MigrationState
    method: MigrationMethod
    has_more: bool
    items: Sequence[MigrationItem]

    @property
    def counts(self) -> Mapping[ItemState, int]:
        """How many ended how; those that are under way count as PLANNED."""
        return Counter(
            ItemState.PLANNED if item.state in OPEN_ITEM_STATES else item.state
            for item in self.items
        )


def report_plan(
    migration: MigrationRecord, items: Sequence[MigrationItem]
) -> MigrationReport:
    """What a dry run tells."""
    return _report(migration, items, MigrationState.PLANNED)


def report_run(
    migration: MigrationRecord, items: Sequence[MigrationItem]
) -> MigrationReport:
    """What is told of a migration that was begun."""
    is_over = migration.ended_at is not None
    state = MigrationState.ENDED if is_over else MigrationState.RUNNING
    return _report(migration, items, state)


def _report(
    migration: MigrationRecord, items: Sequence[MigrationItem], state: MigrationState
) -> MigrationReport:
    return MigrationReport(
        recovery_id=migration.recovery_id,
        app_version=migration.app_version,
        state=state,
        method=migration.method,
        has_more=migration.has_more,
        items=items,
    )
