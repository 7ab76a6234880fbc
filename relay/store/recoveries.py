"""Rows of the ledger: one a death, guarded by revision."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    String,
    and_,
    func,
    or_,
    select,
    update,
)

from relay.db import Transaction
from relay.errors import ConflictError
from relay.ids import (
    ApplicationId,
    AppVersion,
    InstanceId,
    RecoveryId,
)
from relay.records import RecoveryRecord, RecoveryState
from relay.store.executor_rows import ExecutorKey, executor_of
from relay.store.tables import application, organization, recovery

_CHUNK = 1000

_DUE_STATES = frozenset(
    {
        RecoveryState.READY,
        RecoveryState.BACKOFF,
        RecoveryState.STRANDED,
        RecoveryState.BRAKED,
    }
)

_IS_OPEN = recovery.c.closed_at.is_(None)


class RecoveryRepository:
    """The ledger of recoveries."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def insert(self, record: RecoveryRecord) -> None:
        """
        Open a recovery.

        Raises:
            ConflictError: one of this executor is open already.
        """
        if not await self.insert_many([record]):
            raise ConflictError(
                f"a recovery of executor {record.executor.executor_id!r} is open"
            )

    async def insert_many(self, records: Sequence[RecoveryRecord]) -> set[RecoveryId]:
        """
        Open recoveries of executors that have none open; the ids of those opened.

        Many at once cost a tenth of as many `insert`.
        """
        inserted = await self._transaction.insert_new(
            recovery,
            *(
                {
                    "id": record.id,
                    "application_id": record.executor.application.id,
                    "executor_id": record.executor.executor_id,
                    "revision": record.revision,
                    "opened_at": record.opened_at,
                    "updated_at": record.updated_at,
                    **_progress_of(record),
                }
                for record in records
            ),
        )
        return {recovery_id for (recovery_id,) in inserted}

    async def find(self, recovery_id: RecoveryId) -> RecoveryRecord | None:
        return await self._find(recovery.c.id == recovery_id)

    async def find_open(self, key: ExecutorKey) -> RecoveryRecord | None:
        """The one recovery of this executor that has not ended."""
        application_id, executor_id = key
        return await self._find(
            recovery.c.application_id == application_id,
            recovery.c.executor_id == executor_id,
            _IS_OPEN,
        )

    async def find_open_many(
        self, keys: Collection[ExecutorKey]
    ) -> dict[ExecutorKey, RecoveryRecord]:
        """Key to open recovery; executors without one are missing."""
        found: dict[ExecutorKey, RecoveryRecord] = {}
        in_order = sorted(set(keys))
        for start in range(0, len(in_order), _CHUNK):
            given = self._transaction.table_of(
                {"application_id": String(), "executor_id": String()},
                in_order[start : start + _CHUNK],
            )
            is_given = and_(
                recovery.c.application_id == given.c.application_id,
                recovery.c.executor_id == given.c.executor_id,
            )
            for record in await self._list(
                _select_recoveries().join(given, is_given).where(_IS_OPEN)
            ):
                found[record.executor.key] = record
        return found

    async def find_many(
        self, recovery_ids: Collection[RecoveryId]
    ) -> dict[RecoveryId, RecoveryRecord]:
        """Id to recovery; ids without one are missing."""
        given = self._transaction.table_of(
            {"id": String()}, [(recovery_id,) for recovery_id in recovery_ids]
        )
        records = await self._list(
            _select_recoveries().join(given, recovery.c.id == given.c.id)
        )
        return {record.id: record for record in records}

    async def save(self, record: RecoveryRecord, *, expected_revision: int) -> bool:
        """
        Write the progress of a recovery.

        The row's revision becomes `expected_revision + 1` and its `updated_at` now,
        whatever the record says.

        Returns:
            Whether the row still had the expected revision; if it had not, nothing was
            written, and whatever was decided was decided on old news.
        """
        return bool(await self.save_many([replace(record, revision=expected_revision)]))

    async def save_many(self, records: Sequence[RecoveryRecord]) -> set[RecoveryId]:
        """
        Save several recoveries as `save` does; the ids of those that were written.

        Many at once cost a tenth of as many `save`.

        Args:
            records: of different recoveries, each expecting the revision that it has;
                may be empty.
        """
        saved: set[RecoveryId] = set()
        for start in range(0, len(records), _CHUNK):
            chunk = records[start : start + _CHUNK]
            progress = [_progress_of(record) for record in chunk]
            names = list(progress[0])
            given = self._transaction.table_of(
                {name: recovery.c[name].type for name in ("id", "revision", *names)},
                [
                    (record.id, record.revision, *written.values())
                    for record, written in zip(chunk, progress, strict=True)
                ],
            )
            is_expected = (
                recovery.c.id == given.c.id,
                recovery.c.revision == given.c.revision,
            )
            if len(chunk) > 1:
                await self._transaction.lock_rows(recovery, *is_expected)
            rows = await self._transaction.execute(
                update(recovery)
                .where(*is_expected)
                .values(
                    revision=recovery.c.revision + 1,
                    updated_at=self._transaction.now,
                    **{name: given.c[name] for name in names},
                )
                .returning(recovery.c.id)
            )
            saved.update(rows.scalars())
        return saved

    async def claim_due(
        self,
        instance: InstanceId,
        limit: int,
        *,
        except_applications: Collection[ApplicationId] = (),
    ) -> Sequence[RecoveryRecord]:
        """
        Take the recoveries whose next attempt is due and which nobody works on.

        Two instances that ask at the same time get different ones.

        Args:
            except_applications: whose recoveries are left where they are.

        Returns:
            The claimed recoveries, longest due first, with their new revision.
        """
        due = await self._transaction.execute(
            select(recovery.c.id)
            .where(
                _IS_OPEN,
                recovery.c.state.in_([state.value for state in _DUE_STATES]),
                recovery.c.next_attempt_at <= self._transaction.now,
                recovery.c.claimed_by.is_(None),
                recovery.c.application_id.not_in(except_applications),
            )
            .order_by(recovery.c.next_attempt_at, recovery.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        claimed = await self._transaction.execute(
            update(recovery)
            .where(
                recovery.c.id.in_(due.scalars().all()), recovery.c.claimed_by.is_(None)
            )
            .values(
                claimed_by=instance,
                revision=recovery.c.revision + 1,
                updated_at=self._transaction.now,
            )
            .returning(recovery.c.id)
        )
        return await self._list(
            _select_recoveries()
            .where(recovery.c.id.in_(claimed.scalars().all()))
            .order_by(recovery.c.next_attempt_at, recovery.c.id)
        )

    async def list_claimed(self) -> Sequence[RecoveryRecord]:
        """The open recoveries that some instance works on, or died over."""
        return await self._list(
            _select_recoveries()
            .where(_IS_OPEN, recovery.c.claimed_by.is_not(None))
            .order_by(recovery.c.id)
        )

    async def wake(self, application_id: ApplicationId, app_version: AppVersion) -> int:
        """
        Make due at once what waits for an executor such as the one that connected.

        That is what waits for any executor of the application, and what is stranded for
        want of this version. A claim on such a row is lifted, and the claimer's next
        `save` fails: what it was about to write is older than the news.

        Returns:
            How many recoveries were woken.
        """
        is_waiting_for_it = (
            recovery.c.application_id == application_id,
            _IS_OPEN,
            or_(
                recovery.c.state == RecoveryState.WAITING.value,
                and_(
                    recovery.c.state == RecoveryState.STRANDED.value,
                    recovery.c.app_version == app_version,
                ),
            ),
        )
        await self._transaction.lock_rows(recovery, *is_waiting_for_it)
        result = await self._transaction.execute(
            update(recovery)
            .where(*is_waiting_for_it)
            .values(
                state=RecoveryState.READY.value,
                next_attempt_at=self._transaction.now,
                claimed_by=None,
                revision=recovery.c.revision + 1,
                updated_at=self._transaction.now,
            )
        )
        return result.rowcount

    async def list_by_application(
        self,
        application_id: ApplicationId,
        *,
        states: Collection[RecoveryState] | None,
        limit: int,
        offset: int,
    ) -> Sequence[RecoveryRecord]:
        """
        A page of the recoveries of one application, newest first.

        Args:
            states: only these; `None` for every state.
        """
        return await self._list(
            _newest_first(states)
            .where(recovery.c.application_id == application_id)
            .limit(limit)
            .offset(offset)
        )

    async def list_all(
        self, *, states: Collection[RecoveryState] | None, limit: int
    ) -> Sequence[RecoveryRecord]:
        """The newest recoveries of every application, newest first."""
        return await self._list(_newest_first(states).limit(limit))

    async def list_ids(self, beginning: str, *, limit: int) -> Sequence[RecoveryId]:
        """The ids that begin with this text, in their order."""
        result = await self._transaction.execute(
            select(recovery.c.id)
            .where(func.substr(recovery.c.id, 1, len(beginning)) == beginning)
            .order_by(recovery.c.id)
            .limit(limit)
        )
        return result.scalars().all()

    async def find_next_attempt(self) -> datetime | None:
        """When the next unclaimed recovery is due; may be in the past."""
        result = await self._transaction.execute(
            select(func.min(recovery.c.next_attempt_at)).where(
                _IS_OPEN,
                recovery.c.claimed_by.is_(None),
                recovery.c.state.in_([state.value for state in _DUE_STATES]),
            )
        )
        due: datetime | None = result.scalar_one()
        return due

    async def measure(self) -> dict[RecoveryState, tuple[int, datetime]]:
        """Open state to the number of its recoveries and the oldest `opened_at`."""
        rows = await self._transaction.execute(
            select(
                recovery.c.state,
                func.count().label("number"),
                func.min(recovery.c.opened_at).label("oldest"),
            )
            .where(_IS_OPEN)
            .group_by(recovery.c.state)
        )
        return {RecoveryState(row.state): (row.number, row.oldest) for row in rows}

    async def _find(self, *criteria: ColumnElement[bool]) -> RecoveryRecord | None:
        row = (
            await self._transaction.execute(_select_recoveries().where(*criteria))
        ).one_or_none()
        return None if row is None else _to_record(row)

    async def _list(self, statement: Select[Any]) -> Sequence[RecoveryRecord]:
        return [_to_record(row) for row in await self._transaction.execute(statement)]


def _select_recoveries() -> Select[Any]:
    return select(
        recovery,
        application.c.name.label("application_name"),
        organization.c.name.label("organization_name"),
    ).select_from(recovery.join(application).join(organization))


def _newest_first(states: Collection[RecoveryState] | None) -> Select[Any]:
    statement = _select_recoveries().order_by(
        recovery.c.opened_at.desc(), recovery.c.id.desc()
    )
    if states is None:
        return statement
    return statement.where(recovery.c.state.in_([state.value for state in states]))


def _progress_of(record: RecoveryRecord) -> Mapping[str, Any]:
    return {
        "app_version": record.app_version,
        "epoch": record.epoch,
        "lost_at": record.lost_at,
        "state": record.state.value,
        "next_attempt_at": record.next_attempt_at,
        "attempts": record.attempts,
        "failures": record.failures,
        "claimed_by": record.claimed_by,
        "target": record.target,
        "ordered_at": record.ordered_at,
        "order_deadline": record.order_deadline,
        "acknowledged_at": record.acknowledged_at,
        "pending_count": record.pending_count,
        "pending_ids": list(record.pending_ids),
        "suspect_ids": list(record.suspect_ids) or None,
        "brake_level": record.brake_level,
        "tried_versions": list(record.tried_versions),
        "reason": record.reason,
        "is_verified": record.is_verified,
        "closed_at": record.closed_at,
    }


def _to_record(row: Row[Any]) -> RecoveryRecord:
    return RecoveryRecord(
        id=row.id,
        executor=executor_of(row),
        app_version=row.app_version,
        epoch=row.epoch,
        state=RecoveryState(row.state),
        revision=row.revision,
        opened_at=row.opened_at,
        lost_at=row.lost_at,
        updated_at=row.updated_at,
        next_attempt_at=row.next_attempt_at,
        attempts=row.attempts,
        failures=row.failures,
        claimed_by=row.claimed_by,
        target=row.target,
        ordered_at=row.ordered_at,
        order_deadline=row.order_deadline,
        acknowledged_at=row.acknowledged_at,
        pending_count=row.pending_count,
        pending_ids=tuple(row.pending_ids),
        suspect_ids=tuple(row.suspect_ids or ()),
        brake_level=row.brake_level,
        tried_versions=tuple(row.tried_versions),
        reason=row.reason,
        is_verified=row.is_verified,
        closed_at=row.closed_at,
    )
