"""Rows of workflow losses: how often a workflow was pending in an executor lost."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    String,
    bindparam,
    delete,
    select,
    update,
)

from relay.db import Transaction
from relay.ids import ApplicationId, WorkflowId
from relay.records import WorkflowLossRecord
from relay.store.tables import workflow_loss

# Bounds how long encoding the rows of one statement keeps the event loop busy.
_CHUNK = 250


class WorkflowLossRepository:
    """
    The counters of the crash brake.

    Whoever may write new ones locks their application first.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find_many(
        self, application_id: ApplicationId, ids: Collection[WorkflowId]
    ) -> dict[WorkflowId, WorkflowLossRecord]:
        """Id to counter; workflows without one are missing."""
        found: dict[WorkflowId, WorkflowLossRecord] = {}
        for are_given in self._chunks(application_id, ids):
            rows = await self._transaction.execute(
                select(workflow_loss).where(are_given)
            )
            found.update({row.workflow_id: _to_record(row) for row in rows})
        return found

    async def save_many(self, records: Iterable[WorkflowLossRecord]) -> None:
        """Write counters, new or not."""
        in_order = sorted(records, key=_key_of)
        for start in range(0, len(in_order), _CHUNK):
            rows = [_to_row(record) for record in in_order[start : start + _CHUNK]]
            inserted = await self._transaction.insert_new(workflow_loss, *rows)
            known = [
                {f"new_{name}": value for name, value in row.items()}
                for row in rows
                if (row["application_id"], row["workflow_id"]) not in inserted
            ]
            if known:
                await self._transaction.execute(_UPDATE_ONE, known)

    async def hand_on(
        self, application_id: ApplicationId, ids: Collection[WorkflowId]
    ) -> None:
        """These workflows are moved, or were, by an order; now is when."""
        for are_given in self._chunks(application_id, ids):
            await self._transaction.lock_rows(workflow_loss, are_given)
            await self._transaction.execute(
                update(workflow_loss)
                .where(are_given)
                .values(handed_on_at=self._transaction.now)
            )

    async def forget(
        self, application_id: ApplicationId, ids: Collection[WorkflowId]
    ) -> None:
        """Begin to count anew."""
        for are_given in self._chunks(application_id, ids):
            await self._transaction.lock_rows(workflow_loss, are_given)
            await self._transaction.execute(delete(workflow_loss).where(are_given))

    async def purge(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` counters without a loss since; how many it were."""
        keys = (
            select(workflow_loss.c.application_id, workflow_loss.c.workflow_id)
            .where(workflow_loss.c.last_lost_at < before)
            .order_by(workflow_loss.c.application_id, workflow_loss.c.workflow_id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        rows = (await self._transaction.execute(keys)).all()
        purged = 0
        for application_id in {row.application_id for row in rows}:
            ids = [r.workflow_id for r in rows if r.application_id == application_id]
            for are_given in self._chunks(application_id, ids):
                result = await self._transaction.execute(
                    delete(workflow_loss).where(are_given)
                )
                purged += result.rowcount
        return purged

    def _chunks(
        self, application_id: ApplicationId, ids: Collection[WorkflowId]
    ) -> Iterator[ColumnElement[bool]]:
        """What is true of the counters of these workflows, some hundreds at a time."""
        in_order = sorted(set(ids))
        for start in range(0, len(in_order), _CHUNK):
            given = self._transaction.table_of(
                {"workflow_id": String()},
                [(id_,) for id_ in in_order[start : start + _CHUNK]],
            )
            # Not a join: SQLite would read the whole list again for every counter.
            yield (workflow_loss.c.application_id == application_id) & (
                workflow_loss.c.workflow_id.in_(select(given.c.workflow_id))
            )


_UPDATE_ONE = (
    update(workflow_loss)
    .where(
        workflow_loss.c.application_id == bindparam("new_application_id"),
        workflow_loss.c.workflow_id == bindparam("new_workflow_id"),
    )
    .values(
        {
            name: bindparam(f"new_{name}")
            for name in ("name", "losses", "last_lost_at", "handed_on_at")
        }
    )
)


def _key_of(record: WorkflowLossRecord) -> tuple[str, str]:
    return record.application_id, record.workflow_id


def _to_row(record: WorkflowLossRecord) -> dict[str, Any]:
    return {
        "application_id": record.application_id,
        "workflow_id": record.workflow_id,
        "name": record.name,
        "losses": record.losses,
        "last_lost_at": record.last_lost_at,
        "handed_on_at": record.handed_on_at,
    }


def _to_record(row: Row[Any]) -> WorkflowLossRecord:
    return WorkflowLossRecord(
        application_id=row.application_id,
        workflow_id=row.workflow_id,
        name=row.name,
        losses=row.losses,
        last_lost_at=row.last_lost_at,
        handed_on_at=row.handed_on_at,
    )
