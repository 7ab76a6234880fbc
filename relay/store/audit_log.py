"""
Rows of the audit log.

Entries are added and, when they are old enough, purged; nothing changes one.

The id of an entry sorts like its time: it is the instant of the entry in microseconds,
then a number that grows with each entry of this process, then a token of the process,
all in hexadecimal of fixed width. So "newest first", "from … to" and "after this one"
all walk the same index, and entries of one instant keep the order of their writing.

Following the log: with PostgreSQL, a transaction that began earlier may commit later,
and its entries then appear *before* entries that a follower has already read.
`list_after` therefore leaves out what is younger than `SETTLING`. An entry whose
transaction took longer than that from beginning to commit can be missed by a follower;
a listing shows it. SQLite has one writer and no such gap.
"""

import itertools
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select, delete, insert, or_, select

from relay.db import Transaction
from relay.errors import NotFoundError
from relay.ids import AuditId, OrgName, RecoveryId
from relay.records import (
    AuditEntry,
    AuditRecord,
    AuditStatus,
    AuditSubject,
    AuditTarget,
)
from relay.store.tables import audit_entry, organization

SETTLING = timedelta(seconds=2)
"""How old an entry is before followers see it, where commits overtake each other."""

PURGE_BATCH = 5000
"""How many entries one `purge` deletes at most."""

_CHUNK = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AuditIds:
    """The ids of the entries one process writes."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._process = secrets.token_hex(4)

    def mint(self, emitted_at: datetime) -> AuditId:
        """An id that sorts after all that this process gave for this instant."""
        order = next(self._order) & 0xFFFFFFFF
        return AuditId(f"{_first_id(emitted_at)}{order:08x}{self._process}")


class AuditLogRepository:
    """The append-only log of who did what."""

    def __init__(self, transaction: Transaction, ids: AuditIds) -> None:
        self._transaction = transaction
        self._ids = ids

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        """
        Add entries, in this order, with the time of the transaction.

        Raises:
            NotFoundError: an entry names an organization that does not exist.
        """
        organizations = await self._find_organizations(
            {e.organization for e in entries}
        )
        rows = [
            {
                "id": self._ids.mint(self._transaction.now),
                "organization_id": organizations[entry.organization],
                "emitted_at": self._transaction.now,
                "operation": entry.operation,
                "status": entry.status.value,
                "subject_kind": entry.subject.kind,
                "subject_id": entry.subject.id,
                "subject_display": entry.subject.display,
                "target_kind": entry.target.kind if entry.target else None,
                "target_id": entry.target.id if entry.target else None,
                "source_ip": entry.source_ip,
                "details": dict(entry.details),
                "recovery_id": entry.recovery_id,
            }
            for entry in entries
        ]
        for start in range(0, len(rows), _CHUNK):
            await self._transaction.execute(
                insert(audit_entry), rows[start : start + _CHUNK]
            )

    async def list_entries(
        self,
        organization_name: OrgName,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        operation: str | None = None,
        subject: str | None = None,
        target: str | None = None,
        limit: int,
        offset: int = 0,
    ) -> Sequence[AuditRecord]:
        """
        A page of the entries of one organization that match all filters, newest first.

        Args:
            start: only entries of this instant and later.
            end: only entries before this instant.
            subject: the display name or the id of who did it.
            target: the id of what it was done to.
        """
        statement = (
            _select_entries()
            .where(organization.c.name == organization_name)
            .order_by(audit_entry.c.id.desc())
            .limit(limit)
            .offset(offset)
        )
        if start is not None:
            statement = statement.where(audit_entry.c.id >= _first_id(start))
        if end is not None:
            statement = statement.where(audit_entry.c.id < _first_id(end))
        if operation is not None:
            statement = statement.where(audit_entry.c.operation == operation)
        if subject is not None:
            statement = statement.where(
                or_(
                    audit_entry.c.subject_display == subject,
                    audit_entry.c.subject_id == subject,
                )
            )
        if target is not None:
            statement = statement.where(audit_entry.c.target_id == target)
        return await self._read(statement)

    async def list_by_recovery(self, recovery_id: RecoveryId) -> Sequence[AuditRecord]:
        """The story of one recovery, oldest first."""
        return await self._read(
            _select_entries()
            .where(audit_entry.c.recovery_id == recovery_id)
            .order_by(audit_entry.c.id)
        )

    async def list_after(
        self, organization_name: OrgName, audit_id: AuditId | None, limit: int
    ) -> Sequence[AuditRecord]:
        """
        The settled entries that follow `audit_id`, oldest first.

        Args:
            audit_id: the last entry already seen; `None` begins with the oldest.
        """
        statement = (
            _select_entries()
            .where(organization.c.name == organization_name)
            .order_by(audit_entry.c.id)
            .limit(limit)
        )
        if audit_id is not None:
            statement = statement.where(audit_entry.c.id > audit_id)
        if self._transaction.commits_overtake:
            settled = _first_id(self._transaction.now - SETTLING)
            statement = statement.where(audit_entry.c.id < settled)
        return await self._read(statement)

    async def purge(
        self, organization_name: OrgName, before: datetime, *, limit: int = PURGE_BATCH
    ) -> int:
        """
        Delete the oldest entries of an organization from before that instant.

        Returns:
            How many there were; as many as `limit` means that there may be more. Ask
            again in another transaction: deleting months at once would hold up others.
        """
        oldest = (
            select(audit_entry.c.id)
            .join(organization)
            .where(
                organization.c.name == organization_name,
                audit_entry.c.id < _first_id(before),
            )
            .order_by(audit_entry.c.id)
            .limit(limit)
        )
        result = await self._transaction.execute(
            delete(audit_entry).where(audit_entry.c.id.in_(oldest))
        )
        return result.rowcount

    async def _find_organizations(self, names: set[OrgName]) -> dict[OrgName, str]:
        rows = await self._transaction.execute(
            select(organization.c.name, organization.c.id).where(
                organization.c.name.in_(sorted(names))
            )
        )
        found = {row.name: row.id for row in rows}
        for missing in sorted(names - found.keys()):
            raise NotFoundError("organization", missing)
        return found

    async def _read(self, statement: Select[Any]) -> Sequence[AuditRecord]:
        return [_to_record(row) for row in await self._transaction.execute(statement)]


def _first_id(instant: datetime) -> str:
    """What every id of an entry emitted at or after `instant` is not below."""
    # 15 digits hold every instant that `datetime` knows; none was written before 1970.
    return f"{max(0, (instant - _EPOCH) // timedelta(microseconds=1)):015x}"


def _select_entries() -> Select[Any]:
    return select(
        audit_entry, organization.c.name.label("organization_name")
    ).select_from(audit_entry.join(organization))


def _to_record(row: Row[Any]) -> AuditRecord:
    target = None
    if row.target_kind is not None:
        target = AuditTarget(kind=row.target_kind, id=row.target_id)
    return AuditRecord(
        id=row.id,
        emitted_at=row.emitted_at,
        entry=AuditEntry(
            organization=row.organization_name,
            operation=row.operation,
            status=AuditStatus(row.status),
            subject=AuditSubject(
                kind=row.subject_kind,
                id=row.subject_id,
                display=row.subject_display,
            ),
            target=target,
            source_ip=row.source_ip,
            details=row.details,
            recovery_id=row.recovery_id,
        ),
    )
