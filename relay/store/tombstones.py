"""Rows of tombstones: executors whose record recovery has deleted."""

from sqlalchemy import delete, insert, select

from relay.db import Transaction
from relay.records import TombstoneRecord
from relay.store.executor_rows import ExecutorKey, executor_of
from relay.store.tables import application, organization, tombstone


class TombstoneRepository:
    """Executors whose record recovery has deleted."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def insert(self, record: TombstoneRecord) -> None:
        """Remember an executor; only its last death as this version is kept."""
        key = {
            "application_id": record.executor.application.id,
            "executor_id": record.executor.executor_id,
            "app_version": record.app_version,
        }
        await self._transaction.execute(delete(tombstone).filter_by(**key))
        await self._transaction.execute(
            insert(tombstone).values(
                recovery_id=record.recovery_id, deleted_at=record.deleted_at, **key
            )
        )

    async def find(self, key: ExecutorKey) -> TombstoneRecord | None:
        """The newest tombstone of this executor, whatever its version was."""
        application_id, executor_id = key
        row = (
            await self._transaction.execute(
                select(
                    tombstone,
                    application.c.name.label("application_name"),
                    organization.c.name.label("organization_name"),
                )
                .select_from(tombstone.join(application).join(organization))
                .where(
                    tombstone.c.application_id == application_id,
                    tombstone.c.executor_id == executor_id,
                )
                .order_by(tombstone.c.deleted_at.desc())
                .limit(1)
            )
        ).one_or_none()
        if row is None:
            return None
        return TombstoneRecord(
            executor=executor_of(row),
            app_version=row.app_version,
            recovery_id=row.recovery_id,
            deleted_at=row.deleted_at,
        )
