"""Rows of API keys: what each may do and where; never a secret."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, insert, or_, select, update

from relay.access import is_same_key
from relay.db import Transaction
from relay.errors import ConflictError, NotFoundError
from relay.ids import ApplicationId, KeyId, KeyName, OrgName
from relay.records import KeyRecord
from relay.store.tables import api_key, api_key_application, organization

_CHUNK = 1000

_IS_LIVE = api_key.c.revoked_at.is_(None)


class KeyRepository:
    """API keys, live and revoked."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def insert(self, record: KeyRecord, secret_hash: bytes) -> None:
        """
        Add a key.

        Raises:
            NotFoundError: there is no such organization.
            ConflictError: a live key of the organization has this name.
        """
        organization_id = (
            await self._transaction.execute(
                select(organization.c.id).where(
                    organization.c.name == record.organization
                )
            )
        ).scalar_one_or_none()
        if organization_id is None:
            raise NotFoundError("organization", record.organization)
        is_new = await self._transaction.insert_new(
            api_key,
            {
                "id": record.id,
                "organization_id": organization_id,
                "name": record.name,
                "secret_hash": secret_hash,
                "created_at": record.created_at,
                "last_used_at": record.last_used_at,
                "revoked_at": record.revoked_at,
                "permissions": sorted(record.permissions),
                "all_applications": record.application_ids is None,
            },
        )
        if not is_new:
            raise ConflictError(f"an API key named {record.name!r} already exists")
        if record.application_ids:
            await self._transaction.execute(
                insert(api_key_application),
                [
                    {"key_id": record.id, "application_id": application_id}
                    for application_id in sorted(set(record.application_ids))
                ],
            )

    async def find_by_hash(self, secret_hash: bytes) -> KeyRecord | None:
        """
        The key with this hash, even if it is revoked.

        The index finds a candidate; what decides is a comparison whose time tells
        nothing about the hash.
        """
        candidate = (
            await self._transaction.execute(
                select(api_key.c.id, api_key.c.secret_hash).where(
                    api_key.c.secret_hash == secret_hash
                )
            )
        ).one_or_none()
        if candidate is None or not is_same_key(candidate.secret_hash, secret_hash):
            return None
        return await self._find(api_key.c.id == candidate.id)

    async def find_by_name(
        self, organization_name: OrgName, name: KeyName
    ) -> KeyRecord | None:
        """The live key of this name."""
        return await self._find(
            organization.c.name == organization_name, api_key.c.name == name, _IS_LIVE
        )

    async def list_live(self, organization_name: OrgName) -> Sequence[KeyRecord]:
        """The keys of an organization that are not revoked, by name."""
        return await self._list(organization.c.name == organization_name, _IS_LIVE)

    async def has_live(self, organization_name: OrgName) -> bool:
        """Whether an organization has a key that is not revoked."""
        result = await self._transaction.execute(
            select(api_key.c.id)
            .join(organization)
            .where(organization.c.name == organization_name, _IS_LIVE)
            .limit(1)
        )
        return result.one_or_none() is not None

    async def list_hashed(
        self, *, changed_since: datetime | None
    ) -> Mapping[bytes, KeyRecord]:
        """
        Keys by their hash: those minted or revoked at or after `changed_since`.

        A change carries the time at which its transaction began and shows when it has
        committed, a moment later: ask from some seconds before the last answer.

        Args:
            changed_since: `None` for all keys that are not revoked.
        """
        if changed_since is None:
            return await self._list_by_hash(_IS_LIVE)
        return await self._list_by_hash(
            or_(
                api_key.c.created_at >= changed_since,
                api_key.c.revoked_at >= changed_since,
            )
        )

    async def revoke(
        self, organization_name: OrgName, name: KeyName
    ) -> KeyRecord | None:
        """Revoke the live key of this name; `None` when there is none."""
        revoked = (
            await self._transaction.execute(
                update(api_key)
                .where(
                    api_key.c.organization_id
                    == select(organization.c.id)
                    .where(organization.c.name == organization_name)
                    .scalar_subquery(),
                    api_key.c.name == name,
                    _IS_LIVE,
                )
                .values(revoked_at=self._transaction.now)
                .returning(api_key.c.id)
            )
        ).scalar_one_or_none()
        return None if revoked is None else await self._find(api_key.c.id == revoked)

    async def touch(self, key_ids: Collection[KeyId]) -> int:
        """Record that these keys were used now; how many there are."""
        changed = 0
        in_order = sorted(set(key_ids))
        for start in range(0, len(in_order), _CHUNK):
            is_given = api_key.c.id.in_(in_order[start : start + _CHUNK])
            await self._transaction.lock_rows(api_key, is_given)
            result = await self._transaction.execute(
                update(api_key)
                .where(is_given)
                .values(last_used_at=self._transaction.now)
            )
            changed += result.rowcount
        return changed

    async def _find(self, *criteria: ColumnElement[bool]) -> KeyRecord | None:
        found = await self._list(*criteria)
        return found[0] if found else None

    async def _list(self, *criteria: ColumnElement[bool]) -> Sequence[KeyRecord]:
        return list((await self._list_by_hash(*criteria)).values())

    async def _list_by_hash(
        self, *criteria: ColumnElement[bool]
    ) -> dict[bytes, KeyRecord]:
        rows = await self._transaction.execute(
            select(
                api_key,
                organization.c.name.label("organization_name"),
                api_key_application.c.application_id,
            )
            .select_from(api_key.join(organization).outerjoin(api_key_application))
            .where(*criteria)
            .order_by(
                api_key.c.name, api_key.c.id, api_key_application.c.application_id
            )
        )
        keys: dict[KeyId, Row[Any]] = {}
        scopes: dict[KeyId, list[ApplicationId]] = {}
        for row in rows:
            keys[row.id] = row
            scope = scopes.setdefault(row.id, [])
            if row.application_id is not None:
                scope.append(row.application_id)
        return {
            row.secret_hash: _to_record(row, scopes[key_id])
            for key_id, row in keys.items()
        }


def _to_record(row: Row[Any], application_ids: Sequence[ApplicationId]) -> KeyRecord:
    return KeyRecord(
        id=row.id,
        organization=row.organization_name,
        name=row.name,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
        permissions=frozenset(row.permissions),
        application_ids=None if row.all_applications else tuple(application_ids),
    )
