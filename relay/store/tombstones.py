"""Rows of tombstones: executors whose record recovery has deleted."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, delete, insert, select, tuple_, update

from relay.db import Transaction
from relay.ids import ApplicationId, ExecutorId
from relay.records import TombstoneRecord
from relay.store.executor_rows import ExecutorKey, executor_of
from relay.store.tables import application, organization, tombstone


class TombstoneRepository:
    """Executors whose record recovery has deleted."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def insert(self, record: TombstoneRecord) -> None:
        """
        Remember an executor; only its last death as this version is kept.

        When the ledger was reopened for it before is not forgotten: it bounds how often
        that happens.
        """
        await self.insert_many([record])

    async def insert_many(self, records: Sequence[TombstoneRecord]) -> None:
        """
        Remember several executors as `insert` does.

        Args:
            records: of different executors or versions; may be empty.
        """
        if not records:
            return
        given = self._transaction.table_of(
            dict.fromkeys(("application_id", "executor_id", "app_version"), String()),
            [(*record.executor.key, record.app_version) for record in records],
        )
        replaced = await self._transaction.execute(
            delete(tombstone)
            .where(
                tuple_(
                    tombstone.c.application_id,
                    tombstone.c.executor_id,
                    tombstone.c.app_version,
                ).in_(select(given))
            )
            .returning(tombstone)
        )
        reopened = {
            (row.application_id, row.executor_id, row.app_version): row.reopened_at
            for row in replaced
        }
        await self._transaction.execute(
            insert(tombstone),
            [
                {
                    "application_id": record.executor.application.id,
                    "executor_id": record.executor.executor_id,
                    "app_version": record.app_version,
                    "recovery_id": record.recovery_id,
                    "deleted_at": record.deleted_at,
                    "reopened_at": record.reopened_at
                    or reopened.get((*record.executor.key, record.app_version)),
                }
                for record in records
            ],
        )

    async def find(self, key: ExecutorKey) -> TombstoneRecord | None:
        """The newest tombstone of this executor, whatever its version was."""
        application_id, executor_id = key
        rows = await self._list(
            _select_tombstones()
            .where(
                tombstone.c.application_id == application_id,
                tombstone.c.executor_id == executor_id,
            )
            .order_by(tombstone.c.deleted_at.desc())
            .limit(1)
        )
        return rows[0] if rows else None

    async def find_known(self, keys: Collection[ExecutorKey]) -> set[ExecutorKey]:
        """Which of these executors have a tombstone, of whatever version."""
        given = self._transaction.table_of(
            {"application_id": String(), "executor_id": String()}, sorted(keys)
        )
        key = (tombstone.c.application_id, tombstone.c.executor_id)
        rows = await self._transaction.execute(
            select(*key).where(tuple_(*key).in_(select(given))).distinct()
        )
        return {(row.application_id, row.executor_id) for row in rows}

    async def mark_reopened(
        self, application_id: ApplicationId, executor_ids: Collection[ExecutorId]
    ) -> None:
        """Note that the ledger has been reopened now for these executors."""
        given = self._transaction.table_of(
            {"executor_id": String()}, [(id_,) for id_ in sorted(executor_ids)]
        )
        await self._transaction.execute(
            update(tombstone)
            .where(
                tombstone.c.application_id == application_id,
                tombstone.c.executor_id.in_(select(given.c.executor_id)),
            )
            .values(reopened_at=self._transaction.now)
        )

    async def list_reopened(
        self, application_id: ApplicationId, *, limit: int
    ) -> Sequence[TombstoneRecord]:
        """Those of an application that were reopened, the last one first."""
        return await self._list(
            _select_tombstones()
            .where(
                tombstone.c.application_id == application_id,
                tombstone.c.reopened_at.is_not(None),
            )
            .order_by(tombstone.c.reopened_at.desc(), tombstone.c.executor_id)
            .limit(limit)
        )

    async def purge(self, before: datetime, limit: int) -> int:
        """Forget at most `limit` executors deleted before then; how many."""
        oldest = (
            select(
                tombstone.c.application_id,
                tombstone.c.executor_id,
                tombstone.c.app_version,
            )
            .where(tombstone.c.deleted_at < before)
            .order_by(tombstone.c.deleted_at)
            .limit(limit)
        )
        result = await self._transaction.execute(
            delete(tombstone).where(
                tuple_(
                    tombstone.c.application_id,
                    tombstone.c.executor_id,
                    tombstone.c.app_version,
                ).in_(oldest)
            )
        )
        return result.rowcount

    async def _list(self, statement: Select[Any]) -> Sequence[TombstoneRecord]:
        return [
            TombstoneRecord(
                executor=executor_of(row),
                app_version=row.app_version,
                recovery_id=row.recovery_id,
                deleted_at=row.deleted_at,
                reopened_at=row.reopened_at,
            )
            for row in await self._transaction.execute(statement)
        ]


def _select_tombstones() -> Select[Any]:
    return select(
        tombstone,
        application.c.name.label("application_name"),
        organization.c.name.label("organization_name"),
    ).select_from(tombstone.join(application).join(organization))
