"""Rows of migrations: stranded work that is moved to another version."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, Select, insert, select, update

from relay.db import Transaction
from relay.ids import ApplicationRef, MigrationId, RecoveryId
from relay.records import (
    ItemState,
    MigrationItem,
    MigrationMethod,
    MigrationRecord,
)
from relay.store.tables import (
    application,
    migration,
    migration_item,
    organization,
    recovery,
)

# Bounds how long encoding the rows of one statement keeps the event loop busy.
_CHUNK: Final = 250


class MigrationRepository:
    """The migrations and their workflows; they are forgotten with their recovery."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def insert(
        self, record: MigrationRecord, items: Sequence[MigrationItem]
    ) -> None:
        """Begin a migration, with all of its items; there may be none."""
        await self._transaction.execute(
            insert(migration).values(
                id=record.id,
                recovery_id=record.recovery_id,
                app_version=record.app_version,
                method=record.method.value,
                has_more=record.has_more,
                begun_at=record.begun_at,
                ended_at=record.ended_at,
            )
        )
        for start in range(0, len(items), _CHUNK):
            rows = [_to_row(item) for item in items[start : start + _CHUNK]]
            await self._transaction.execute(insert(migration_item), rows)

    async def find_latest(self, recovery_id: RecoveryId) -> MigrationRecord | None:
        """The open migration of a recovery, or else its newest one."""
        statement = (
            _select_migrations()
            .where(migration.c.recovery_id == recovery_id)
            .order_by(
                # Not by the time alone: the clock may have been set back since.
                migration.c.ended_at.is_not(None),
                migration.c.begun_at.desc(),
                migration.c.id.desc(),
            )
            .limit(1)
        )
        found = [_to_record(row) for row in await self._transaction.execute(statement)]
        return found[0] if found else None

    async def list_open(self) -> Sequence[MigrationRecord]:
        """Those that have not ended, oldest first."""
        rows = await self._transaction.execute(
            _select_migrations()
            .where(migration.c.ended_at.is_(None))
            .order_by(migration.c.begun_at, migration.c.id)
        )
        return [_to_record(row) for row in rows]

    async def list_items(self, migration_id: MigrationId) -> Sequence[MigrationItem]:
        """All workflows of a migration, in the order in which they are moved."""
        rows = await self._transaction.execute(
            select(migration_item)
            .where(migration_item.c.migration_id == migration_id)
            .order_by(migration_item.c.position)
        )
        return [_to_item(row) for row in rows]

    async def save_item(
        self, item: MigrationItem, *, expected_state: ItemState
    ) -> bool:
        """
        Write the progress of one workflow.

        Returns:
            Whether it was in the expected state; if not, nothing was written.
        """
        result = await self._transaction.execute(
            update(migration_item)
            .where(
                migration_item.c.migration_id == item.migration_id,
                migration_item.c.position == item.position,
                migration_item.c.state == expected_state.value,
            )
            .values(
                state=item.state.value, start_step=item.start_step, reason=item.reason
            )
        )
        return result.rowcount == 1

    async def end(self, migration_id: MigrationId) -> bool:
        """End a migration, now; whether it was still open."""
        result = await self._transaction.execute(
            update(migration)
            .where(migration.c.id == migration_id, migration.c.ended_at.is_(None))
            .values(ended_at=self._transaction.now)
        )
        return result.rowcount == 1


def _select_migrations() -> Select[Any]:
    return select(
        migration,
        recovery.c.application_id,
        application.c.name.label("application_name"),
        organization.c.name.label("organization_name"),
    ).select_from(migration.join(recovery).join(application).join(organization))


def _to_row(item: MigrationItem) -> dict[str, Any]:
    return {
        "migration_id": item.migration_id,
        "position": item.position,
        "workflow_id": item.workflow_id,
        "name": item.name,
        "state": item.state.value,
        "start_step": item.start_step,
        "new_workflow_id": item.new_workflow_id,
        "queue_name": item.queue_name,
        "queue_partition_key": item.queue_partition_key,
        "children": list(item.children),
        "reason": item.reason,
    }


def _to_item(row: Row[Any]) -> MigrationItem:
    return MigrationItem(
        migration_id=row.migration_id,
        position=row.position,
        workflow_id=row.workflow_id,
        name=row.name,
        state=ItemState(row.state),
        start_step=row.start_step,
        new_workflow_id=row.new_workflow_id,
        queue_name=row.queue_name,
        queue_partition_key=row.queue_partition_key,
        children=tuple(row.children),
        reason=row.reason,
    )


def _to_record(row: Row[Any]) -> MigrationRecord:
    return MigrationRecord(
        id=row.id,
        recovery_id=row.recovery_id,
        application=ApplicationRef(
            row.application_id, row.organization_name, row.application_name
        ),
        app_version=row.app_version,
        method=MigrationMethod(row.method),
        has_more=row.has_more,
        begun_at=row.begun_at,
        ended_at=row.ended_at,
    )
