"""What the rows say about the owners of pending work; only read here."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import FromClause, Select, String, and_, func, select, union

from relay.db import Transaction
from relay.ids import ApplicationId, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import Owner, OwnerFacts, RecoveryState
from relay.store.tables import executor, recovery, tombstone

_CHUNK = 1000


class OwnerFactRepository:
    """Facts about owners, gathered from executors, ledger and tombstones."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find_many(
        self, application_id: ApplicationId, owners: Collection[Owner]
    ) -> dict[Owner, OwnerFacts]:
        """What is known of each; of some nothing is."""
        found: dict[Owner, OwnerFacts] = {}
        in_order = sorted(set(owners), key=lambda o: (o.executor_id, o.app_version))
        for start in range(0, len(in_order), _CHUNK):
            found |= await self._find(application_id, in_order[start : start + _CHUNK])
        return found

    async def find_standings(
        self, application_id: ApplicationId, executor_ids: Collection[ExecutorId]
    ) -> dict[ExecutorId, tuple[ExecutorStatus, bool]]:
        """Those that have a row: their status, and whether a recovery is open."""
        given = self._given([(executor_id,) for executor_id in sorted(executor_ids)])
        rows = await self._transaction.execute(
            select(
                executor.c.executor_id, executor.c.status, recovery.c.id
            ).select_from(
                given.join(
                    executor,
                    and_(
                        executor.c.application_id == application_id,
                        executor.c.executor_id == given.c.executor_id,
                    ),
                ).outerjoin(recovery, _is_open_recovery_of(application_id, given))
            )
        )
        return {
            row.executor_id: (ExecutorStatus(row.status), row.id is not None)
            for row in rows
        }

    async def _find(
        self, application_id: ApplicationId, owners: Sequence[Owner]
    ) -> dict[Owner, OwnerFacts]:
        found = await self._find_rows(application_id, owners)
        found |= await self._add_deletions(application_id, found)
        # The rare ones: what few owners need is not joined for all.
        gone = [
            owner
            for owner, facts in found.items()
            if facts.status is ExecutorStatus.DEAD or facts.deleted_at is not None
        ]
        found |= await self._add_history(application_id, gone, found)
        strange = [owner for owner, facts in found.items() if facts.is_stranger]
        elsewhere = await self._find_elsewhere(application_id, strange)
        return found | {o: replace(found[o], is_elsewhere=True) for o in elsewhere}

    async def _find_rows(
        self, application_id: ApplicationId, owners: Sequence[Owner]
    ) -> dict[Owner, OwnerFacts]:
        given = self._given([(o.executor_id, o.app_version) for o in owners])
        rows = await self._transaction.execute(
            select(
                given.c.executor_id.label("owner_id"),
                given.c.app_version.label("owner_version"),
                executor.c.status,
                executor.c.app_version,
                executor.c.connection_id,
                recovery.c.id.label("recovery_id"),
            ).select_from(
                given.outerjoin(
                    executor,
                    and_(
                        executor.c.application_id == application_id,
                        executor.c.executor_id == given.c.executor_id,
                    ),
                ).outerjoin(recovery, _is_open_recovery_of(application_id, given))
            )
        )
        return {
            Owner(row.owner_id, row.owner_version): OwnerFacts(
                status=None if row.status is None else ExecutorStatus(row.status),
                app_version=row.app_version,
                is_placeholder=row.connection_id == "",
                has_open_recovery=row.recovery_id is not None,
            )
            for row in rows
        }

    async def _add_deletions(
        self, application_id: ApplicationId, found: dict[Owner, OwnerFacts]
    ) -> dict[Owner, OwnerFacts]:
        """Tombstones, of whatever version, of those without a row of their own."""
        gone = [
            owner
            for owner, facts in found.items()
            if facts.status is None or facts.is_placeholder
        ]
        if not gone:
            return {}
        given = self._given([(executor_id,) for executor_id in _ids_of(gone)])
        rows = await self._transaction.execute(
            select(
                tombstone.c.executor_id,
                func.max(tombstone.c.deleted_at).label("deleted_at"),
                func.max(tombstone.c.reopened_at).label("reopened_at"),
            )
            .join(
                given,
                and_(
                    tombstone.c.application_id == application_id,
                    tombstone.c.executor_id == given.c.executor_id,
                ),
            )
            .group_by(tombstone.c.executor_id)
        )
        deletions = {row.executor_id: row for row in rows}
        return {
            owner: replace(
                found[owner],
                deleted_at=deletions[owner.executor_id].deleted_at,
                reopened_at=deletions[owner.executor_id].reopened_at,
            )
            for owner in gone
            if owner.executor_id in deletions
        }

    async def _add_history(
        self,
        application_id: ApplicationId,
        owners: Sequence[Owner],
        found: dict[Owner, OwnerFacts],
    ) -> dict[Owner, OwnerFacts]:
        """Facts about the newest recovery of each, and of each version of it."""
        if not owners:
            return {}
        given = self._given([(executor_id,) for executor_id in _ids_of(owners)])
        ranked = _newest_first(application_id, given).subquery("ranked")
        rows = await self._transaction.execute(
            select(ranked)
            .where(ranked.c.place == 1)
            .order_by(ranked.c.opened_at, ranked.c.id)
        )
        newest: dict[str, Any] = {}
        reopened: dict[str, datetime] = {}
        states: dict[Owner, RecoveryState] = {}
        for row in rows:
            newest[row.executor_id] = row
            if row.lost_at is None:
                reopened[row.executor_id] = row.opened_at
            owner = Owner(row.executor_id, row.app_version)
            states[owner] = RecoveryState(row.state)
        return {
            owner: replace(
                found[owner],
                last_opened_at=newest[owner.executor_id].opened_at,
                last_closed_at=newest[owner.executor_id].closed_at,
                reopened_at=_find_later(
                    found[owner].reopened_at, reopened.get(owner.executor_id)
                ),
                is_abandoned=states.get(owner) is RecoveryState.ABANDONED,
            )
            for owner in owners
            if owner.executor_id in newest
        }

    async def _find_elsewhere(
        self, application_id: ApplicationId, owners: Sequence[Owner]
    ) -> set[Owner]:
        """Those that other applications know."""
        if not owners:
            return set()
        given = self._given([(o.executor_id, o.app_version) for o in owners])
        known = [
            select(given.c.executor_id, given.c.app_version)
            .select_from(given)
            .join(
                table,
                and_(
                    table.c.executor_id == given.c.executor_id,
                    table.c.app_version == given.c.app_version,
                    table.c.application_id != application_id,
                ),
            )
            for table in (executor, tombstone)
        ]
        rows = await self._transaction.execute(union(*known))
        return {Owner(row.executor_id, row.app_version) for row in rows}

    def _given(self, rows: Sequence[Sequence[str]]) -> FromClause:
        names = ("executor_id", "app_version")
        width = len(rows[0]) if rows else 1
        return self._transaction.table_of(
            {name: String() for name in names[:width]}, rows
        )


def _is_open_recovery_of(application_id: ApplicationId, given: FromClause) -> Any:
    return and_(
        recovery.c.application_id == application_id,
        recovery.c.executor_id == given.c.executor_id,
        recovery.c.closed_at.is_(None),
    )


def _newest_first(application_id: ApplicationId, given: FromClause) -> Select[Any]:
    """The recoveries of these executors; `place` counts back, version by version."""
    return select(
        recovery.c.id,
        recovery.c.executor_id,
        recovery.c.app_version,
        recovery.c.state,
        recovery.c.opened_at,
        recovery.c.lost_at,
        recovery.c.closed_at,
        func.row_number()
        .over(
            partition_by=(recovery.c.executor_id, recovery.c.app_version),
            order_by=(recovery.c.opened_at.desc(), recovery.c.id.desc()),
        )
        .label("place"),
    ).where(
        recovery.c.application_id == application_id,
        # Not a join: SQLite would read the whole list again for every recovery.
        recovery.c.executor_id.in_(select(given.c.executor_id)),
    )


def _find_later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _ids_of(owners: Collection[Owner]) -> Sequence[ExecutorId]:
    return sorted({owner.executor_id for owner in owners})
