"""Rows of owners whose pending work nobody will recover by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    String,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
)

from relay.db import Transaction
from relay.ids import ApplicationId, ApplicationRef, AppVersion
from relay.records import Owner, OwnerKind, OwnerRecord
from relay.store.executor_rows import ExecutorKey
from relay.store.tables import (
    application,
    executor,
    organization,
    recovery,
    unknown_owner,
)

_CHUNK = 1000

_KEY = (unknown_owner.c.executor_id, unknown_owner.c.app_version)

_HAS_OPEN_RECOVERY = exists().where(
    recovery.c.application_id == unknown_owner.c.application_id,
    recovery.c.executor_id == unknown_owner.c.executor_id,
    recovery.c.closed_at.is_(None),
)
_WAS_RECOVERED = exists().where(
    recovery.c.application_id == unknown_owner.c.application_id,
    recovery.c.executor_id == unknown_owner.c.executor_id,
    recovery.c.app_version == unknown_owner.c.app_version,
    recovery.c.is_verified.is_(True),
    recovery.c.closed_at >= unknown_owner.c.last_seen_at,
)
_HAS_CONNECTED = exists().where(
    executor.c.application_id == unknown_owner.c.application_id,
    executor.c.executor_id == unknown_owner.c.executor_id,
    executor.c.connection_id != "",
)


class UnknownOwnerRepository:
    """What the last census of each application found, and nobody will recover."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def note(
        self,
        application_id: ApplicationId,
        owners: Mapping[Owner, tuple[OwnerKind, int]],
    ) -> set[Owner]:
        """
        Record that these owners were seen now.

        Args:
            owners: to their kind and the number of their pending workflows.

        Returns:
            Those that were not known, or as another kind.
        """
        news: set[Owner] = set()
        everybody = sorted(owners.items(), key=lambda item: _key_of(item[0]))
        for start in range(0, len(everybody), _CHUNK):
            chunk = everybody[start : start + _CHUNK]
            given = self._transaction.table_of(
                {
                    "executor_id": String(),
                    "app_version": String(),
                    "kind": String(),
                    "pending_count": BigInteger(),
                },
                [
                    (*_key_of(owner), kind.value, count)
                    for owner, (kind, count) in chunk
                ],
            )
            same = await self._transaction.execute(
                unknown_owner.update()
                .where(
                    unknown_owner.c.application_id == application_id,
                    unknown_owner.c.executor_id == given.c.executor_id,
                    unknown_owner.c.app_version == given.c.app_version,
                    unknown_owner.c.kind == given.c.kind,
                )
                .values(
                    pending_count=given.c.pending_count,
                    last_seen_at=self._transaction.now,
                )
                .returning(*_KEY)
            )
            known = {(row.executor_id, row.app_version) for row in same}
            fresh = [item for item in chunk if _key_of(item[0]) not in known]
            news.update(owner for owner, _ in fresh)
            await self._delete(application_id, [owner for owner, _ in fresh])
            await self._transaction.insert_new(
                unknown_owner,
                *(
                    {
                        "application_id": application_id,
                        "executor_id": owner.executor_id,
                        "app_version": owner.app_version,
                        "kind": kind.value,
                        "pending_count": count,
                        "first_seen_at": self._transaction.now,
                        "last_seen_at": self._transaction.now,
                    }
                    for owner, (kind, count) in fresh
                ),
            )
        return news

    async def list_versions(self, key: ExecutorKey) -> Sequence[AppVersion]:
        """The versions of the work that this executor, never seen, was found to own."""
        application_id, executor_id = key
        rows = await self._transaction.execute(
            select(unknown_owner.c.app_version)
            .where(
                unknown_owner.c.application_id == application_id,
                unknown_owner.c.executor_id == executor_id,
                unknown_owner.c.kind == OwnerKind.UNKNOWN.value,
            )
            .order_by(unknown_owner.c.app_version)
        )
        return [AppVersion(row.app_version) for row in rows]

    async def forget_unseen(self, application_id: ApplicationId) -> int:
        """Delete what was not noted in this transaction; how many there were."""
        result = await self._transaction.execute(
            delete(unknown_owner).where(
                unknown_owner.c.application_id == application_id,
                # Not "before": the clock may have been set back since.
                unknown_owner.c.last_seen_at != self._transaction.now,
            )
        )
        return result.rowcount

    async def forget_beyond(self, application_id: ApplicationId, *, keep: int) -> int:
        """
        Delete all but `keep`; how many it were.

        Those noted in this transaction stay first, then those seen last; among equals
        those with the most work.
        """
        surplus = (
            select(*_KEY)
            .where(unknown_owner.c.application_id == application_id)
            .order_by(
                # Not by the time alone: the clock may have been set back since.
                (unknown_owner.c.last_seen_at == self._transaction.now).desc(),
                unknown_owner.c.last_seen_at.desc(),
                unknown_owner.c.pending_count.desc(),
                *_KEY,
            )
            .offset(keep)
        )
        result = await self._transaction.execute(
            delete(unknown_owner).where(
                unknown_owner.c.application_id == application_id,
                tuple_(*_KEY).in_(surplus),
            )
        )
        return result.rowcount

    async def list_by_application(
        self, application_id: ApplicationId, *, limit: int
    ) -> Sequence[OwnerRecord]:
        """
        Those of one application, the longest known first, `limit` at most.

        Without those who have connected since, or for whom a recovery is open or has
        been verified.
        """
        return await self._list(
            _select_owners()
            .where(unknown_owner.c.application_id == application_id)
            .limit(limit)
        )

    async def count_workflows(self) -> dict[OwnerKind, int]:
        """How many workflows they own, by kind; every kind is there."""
        counts = dict.fromkeys(OwnerKind, 0)
        rows = await self._transaction.execute(
            select(
                unknown_owner.c.kind,
                func.sum(unknown_owner.c.pending_count).label("number"),
            )
            .where(_is_left_alone())
            .group_by(unknown_owner.c.kind)
        )
        for row in rows:
            counts[OwnerKind(row.kind)] = int(row.number)
        return counts

    async def _delete(
        self, application_id: ApplicationId, owners: Sequence[Owner]
    ) -> None:
        if not owners:
            return
        given = self._transaction.table_of(
            {"executor_id": String(), "app_version": String()},
            [_key_of(owner) for owner in owners],
        )
        await self._transaction.execute(
            delete(unknown_owner).where(
                unknown_owner.c.application_id == application_id,
                tuple_(*_KEY).in_(select(given)),
            )
        )

    async def _list(self, statement: Select[Any]) -> Sequence[OwnerRecord]:
        return [
            OwnerRecord(
                application=ApplicationRef(
                    id=row.application_id,
                    organization=row.organization_name,
                    name=row.application_name,
                ),
                owner=Owner(row.executor_id, row.app_version),
                kind=OwnerKind(row.kind),
                pending_count=row.pending_count,
                first_seen_at=row.first_seen_at,
                last_seen_at=row.last_seen_at,
            )
            for row in await self._transaction.execute(statement)
        ]


def _select_owners() -> Select[Any]:
    return (
        select(
            unknown_owner,
            application.c.name.label("application_name"),
            organization.c.name.label("organization_name"),
        )
        .select_from(unknown_owner.join(application).join(organization))
        .where(_is_left_alone())
        .order_by(application.c.name, unknown_owner.c.first_seen_at, *_KEY)
    )


def _is_left_alone() -> ColumnElement[bool]:
    return and_(
        ~_HAS_OPEN_RECOVERY,
        ~_WAS_RECOVERED,
        or_(unknown_owner.c.kind != OwnerKind.UNKNOWN.value, ~_HAS_CONNECTED),
    )


def _key_of(owner: Owner) -> tuple[str, str]:
    return owner.executor_id, owner.app_version
