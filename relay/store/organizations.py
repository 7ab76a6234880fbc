"""Rows of organizations."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, select, update

from relay.db import Transaction
from relay.ids import OrgName, new_id
from relay.records import OrganizationRecord
from relay.store.tables import organization

DEFAULT_AUDIT_RETENTION = timedelta(days=90)


class OrganizationRepository:
    """Tenants, by name."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find(self, name: OrgName) -> OrganizationRecord | None:
        row = (
            await self._transaction.execute(
                select(organization).where(organization.c.name == name)
            )
        ).one_or_none()
        return None if row is None else _to_record(row)

    async def ensure(
        self, name: OrgName, *, audit_retention: timedelta = DEFAULT_AUDIT_RETENTION
    ) -> OrganizationRecord:
        """The organization of that name; if there is none, it is made."""
        await self._transaction.insert_new(
            organization,
            {
                "id": new_id(),
                "name": name,
                "created_at": self._transaction.now,
                "audit_retention_ms": audit_retention,
            },
        )
        row = (
            await self._transaction.execute(
                select(organization).where(organization.c.name == name)
            )
        ).one()
        return _to_record(row)

    async def set_audit_retention(self, name: OrgName, span: timedelta) -> bool:
        """Keep the organization's audit entries for `span`; whether there is one."""
        result = await self._transaction.execute(
            update(organization)
            .where(organization.c.name == name)
            .values(audit_retention_ms=span)
        )
        return result.rowcount == 1

    async def list_all(self) -> Sequence[OrganizationRecord]:
        """Every organization, by name."""
        rows = await self._transaction.execute(
            select(organization).order_by(organization.c.name)
        )
        return [_to_record(row) for row in rows]


def _to_record(row: Row[Any]) -> OrganizationRecord:
    return OrganizationRecord(
        id=row.id,
        name=row.name,
        created_at=row.created_at,
        audit_retention=row.audit_retention_ms,
    )
