"""Rows of the last census of each application, and of disputes about databases."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete, insert, select

from relay.db import Transaction
from relay.ids import ApplicationId, ExecutorId
from relay.records import CensusRecord, DisputeRecord, DisputeSide
from relay.store.tables import census, dispute


class CensusRepository:
    """When pending work was last counted, and by whom."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def save(self, record: CensusRecord) -> None:
        """Replace the last one of that application."""
        await self._transaction.execute(
            delete(census).where(census.c.application_id == record.application_id)
        )
        await self._transaction.execute(
            insert(census).values(
                application_id=record.application_id,
                taken_at=record.taken_at,
                answered_by=record.answered_by,
                pending_count=record.pending_count,
                is_complete=record.is_complete,
            )
        )

    async def find(self, application_id: ApplicationId) -> CensusRecord | None:
        """The last one of that application, if there ever was one."""
        row = (
            await self._transaction.execute(
                select(census).where(census.c.application_id == application_id)
            )
        ).one_or_none()
        if row is None:
            return None
        return CensusRecord(
            application_id=row.application_id,
            taken_at=row.taken_at,
            answered_by=row.answered_by,
            pending_count=row.pending_count,
            is_complete=row.is_complete,
        )


class DisputeRepository:
    """Applications whose executors read different databases."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def save(self, record: DisputeRecord) -> bool:
        """Write the dispute of an application; whether it had none before."""
        had_one = await self.delete(record.application_id)
        await self._transaction.execute(
            insert(dispute).values(
                application_id=record.application_id,
                since=record.since,
                sides=[
                    {"executor_ids": sorted(side.executor_ids), "most": side.most}
                    for side in record.sides
                ],
            )
        )
        return not had_one

    async def delete(self, application_id: ApplicationId) -> bool:
        """Forget the dispute of an application; whether there was one."""
        result = await self._transaction.execute(
            delete(dispute).where(dispute.c.application_id == application_id)
        )
        return bool(result.rowcount)

    async def find(self, application_id: ApplicationId) -> DisputeRecord | None:
        """The dispute of that application, if there is one."""
        found = await self._list(
            select(dispute).where(dispute.c.application_id == application_id)
        )
        return found[0] if found else None

    async def list_all(self) -> Sequence[DisputeRecord]:
        """Every dispute, the oldest first."""
        return await self._list(
            select(dispute).order_by(dispute.c.since, dispute.c.application_id)
        )

    async def _list(self, statement: Select[Any]) -> Sequence[DisputeRecord]:
        return [
            DisputeRecord(
                application_id=row.application_id,
                since=row.since,
                sides=(_to_side(row.sides[0]), _to_side(row.sides[1])),
            )
            for row in await self._transaction.execute(statement)
        ]


def _to_side(side: Mapping[str, Any]) -> DisputeSide:
    return DisputeSide(
        frozenset(ExecutorId(executor_id) for executor_id in side["executor_ids"]),
        side["most"],
    )
