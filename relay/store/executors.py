"""Rows of executors: what is believed about each, guarded by epoch and status."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    and_,
    case,
    delete,
    func,
    select,
    tuple_,
    update,
)

from relay.db import Instant, Transaction
from relay.errors import ConflictError
from relay.ids import (
    ApplicationId,
    AppVersion,
    ConnectionId,
    Epoch,
    ExecutorRef,
    InstanceId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import ExecutorRecord
from relay.store.executor_rows import (
    BELIEFS,
    NAMES,
    ExecutorKey,
    beliefs_of,
    comes_after,
    executor_of,
    has_key,
    select_executors,
    to_record,
)
from relay.store.tables import executor

__all__ = ["Change", "ExecutorKey", "ExecutorRepository"]

# Bounds how long one statement holds its row locks and how long encoding its rows
# keeps the event loop busy.
_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """A record to write, if its row still has the epoch and status it came from."""

    record: ExecutorRecord
    expected_epoch: Epoch
    expected_status: ExecutorStatus


class ExecutorRepository:
    """Executors of registered applications."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find(self, key: ExecutorKey) -> ExecutorRecord | None:
        row = (
            await self._transaction.execute(select_executors().where(has_key(key)))
        ).one_or_none()
        return None if row is None else to_record(row)

    async def lock(
        self, keys: Collection[ExecutorKey]
    ) -> dict[ExecutorKey, ExecutorRecord]:
        """
        Read executors and keep everybody else from writing them until the end.

        Args:
            keys: may be empty and in any order; locked in the order of the keys.

        Returns:
            Key to record; keys without a row are missing.
        """
        found: dict[ExecutorKey, ExecutorRecord] = {}
        in_order = sorted(set(keys))
        for start in range(0, len(in_order), _CHUNK):
            given = self._transaction.table_of(
                {"application_id": String(), "executor_id": String()},
                in_order[start : start + _CHUNK],
            )
            rows = await self._transaction.execute(
                select_executors()
                .join(
                    given,
                    and_(
                        executor.c.application_id == given.c.application_id,
                        executor.c.executor_id == given.c.executor_id,
                    ),
                )
                .order_by(executor.c.application_id, executor.c.executor_id)
                .with_for_update(of=executor)
            )
            for row in rows:
                record = to_record(row)
                found[record.ref.key] = record
        return found

    async def list_by_application(
        self, application_id: ApplicationId, *, after: ExecutorKey | None, limit: int
    ) -> Sequence[ExecutorRecord]:
        """
        A page of the executors of one application, by executor id.

        Args:
            after: the last key of the page before; `None` for the first page.
        """
        statement = select_executors().where(
            executor.c.application_id == application_id
        )
        return await self._list(_page(statement, after, limit))

    async def list_versions(self, application_id: ApplicationId) -> set[AppVersion]:
        """The versions of an application's executors, dead ones included."""
        rows = await self._transaction.execute(
            select(executor.c.app_version)
            .where(executor.c.application_id == application_id)
            .distinct()
        )
        return {row.app_version for row in rows}

    async def list_by_status(
        self, status: ExecutorStatus, *, after: ExecutorKey | None, limit: int
    ) -> Sequence[ExecutorRecord]:
        """
        A page of the executors with this status, in the order of their keys.

        Args:
            after: the last key of the page before; `None` for the first page.
        """
        statement = select_executors().where(executor.c.status == status.value)
        return await self._list(_page(statement, after, limit))

    async def list_connections(
        self, owner: InstanceId, *, after: ExecutorKey | None, limit: int
    ) -> Sequence[tuple[ExecutorRef, ConnectionId]]:
        """
        A page of the connections that an instance holds according to HEALTHY rows.

        Args:
            after: the key of the last executor of the page before; `None` for the
                first page.
        """
        statement = (
            select_executors()
            .with_only_columns(*NAMES, executor.c.connection_id)
            .where(
                executor.c.status == ExecutorStatus.HEALTHY.value,
                executor.c.owner == owner,
            )
        )
        rows = await self._transaction.execute(_page(statement, after, limit))
        return [(executor_of(row), row.connection_id) for row in rows]

    async def list_elapsed(self, limit: int) -> Sequence[ExecutorRecord]:
        """
        The executors whose grace is over, the longest overdue first; nothing is locked.

        A verdict needs `lock` first: the row may have changed since.
        """
        return await self._list(
            select_executors()
            .where(
                executor.c.status == ExecutorStatus.DISCONNECTED.value,
                executor.c.dead_after <= self._transaction.now,
            )
            .order_by(executor.c.dead_after)
            .limit(limit)
        )

    async def find_next_deadline(self) -> datetime | None:
        """The earliest deadline of all DISCONNECTED executors."""
        result = await self._transaction.execute(
            select(func.min(executor.c.dead_after)).where(
                executor.c.status == ExecutorStatus.DISCONNECTED.value
            )
        )
        deadline: datetime | None = result.scalar_one()
        return deadline

    async def count_by_status(self) -> dict[ExecutorStatus, int]:
        """How many executors have each status; every status is there."""
        counts = dict.fromkeys(ExecutorStatus, 0)
        rows = await self._transaction.execute(
            select(executor.c.status, func.count().label("number")).group_by(
                executor.c.status
            )
        )
        for row in rows:
            counts[ExecutorStatus(row.status)] = row.number
        return counts

    async def insert(self, record: ExecutorRecord) -> None:
        """
        Add an executor that has no row yet.

        Raises:
            ConflictError: it has one; lock it and decide again.
        """
        if not await self.insert_many([record]):
            raise ConflictError(f"executor {record.ref.executor_id!r} already exists")

    async def insert_many(self, records: Sequence[ExecutorRecord]) -> set[ExecutorKey]:
        """
        Add executors that have no row yet; the keys of those that had none.

        Many at once cost a tenth of as many `insert`.
        """
        return await self._transaction.insert_new(
            executor,
            *(
                {
                    "application_id": record.ref.application.id,
                    "executor_id": record.ref.executor_id,
                    "created_at": record.created_at,
                    **beliefs_of(record),
                }
                for record in records
            ),
        )

    async def save(
        self,
        record: ExecutorRecord,
        *,
        expected_epoch: Epoch,
        expected_status: ExecutorStatus,
    ) -> bool:
        """
        Write everything but the key and `created_at`.

        Returns:
            Whether the row still had the expected epoch and status; if it had not,
            nothing was written.
        """
        return bool(
            await self.save_many([Change(record, expected_epoch, expected_status)])
        )

    async def save_many(self, changes: Sequence[Change]) -> set[ExecutorKey]:
        """
        Save several executors as `save` does; the keys of those that were written.

        Many at once cost a tenth of as many `save`. Lock them first: the statement
        visits the rows in no particular order.

        Args:
            changes: of different executors; may be empty.
        """
        saved: set[ExecutorKey] = set()
        columns = {
            "application_id": executor.c.application_id.type,
            "executor_id": executor.c.executor_id.type,
            "expected_epoch": executor.c.epoch.type,
            "expected_status": executor.c.status.type,
        }
        beliefs = {name: executor.c[name].type for name in BELIEFS}
        for start in range(0, len(changes), _CHUNK):
            given = self._transaction.table_of(
                columns | beliefs,
                [
                    (
                        *change.record.ref.key,
                        change.expected_epoch,
                        change.expected_status.value,
                        *beliefs_of(change.record).values(),
                    )
                    for change in changes[start : start + _CHUNK]
                ],
            )
            rows = await self._transaction.execute(
                update(executor)
                .where(
                    executor.c.application_id == given.c.application_id,
                    executor.c.executor_id == given.c.executor_id,
                    executor.c.epoch == given.c.expected_epoch,
                    executor.c.status == given.c.expected_status,
                )
                .values({name: given.c[name] for name in BELIEFS})
                .returning(executor.c.application_id, executor.c.executor_id)
            )
            saved.update((row.application_id, row.executor_id) for row in rows)
        return saved

    async def delete_dead(
        self, dead: Sequence[tuple[ExecutorKey, Epoch]]
    ) -> set[ExecutorKey]:
        """
        Delete executors; the keys of those that were deleted.

        Lock them first: the statement visits the rows in no particular order.

        Args:
            dead: key, and the epoch of which the executor must still be the DEAD one.
        """
        deleted: set[ExecutorKey] = set()
        for start in range(0, len(dead), _CHUNK):
            given = self._transaction.table_of(
                {
                    "application_id": String(),
                    "executor_id": String(),
                    "epoch": executor.c.epoch.type,
                },
                [(*key, epoch) for key, epoch in dead[start : start + _CHUNK]],
            )
            is_given = tuple_(
                executor.c.application_id, executor.c.executor_id, executor.c.epoch
            ).in_(select(given.c.application_id, given.c.executor_id, given.c.epoch))
            rows = await self._transaction.execute(
                delete(executor)
                .where(is_given, executor.c.status == ExecutorStatus.DEAD.value)
                .returning(executor.c.application_id, executor.c.executor_id)
            )
            deleted.update((row.application_id, row.executor_id) for row in rows)
        return deleted

    async def touch(
        self, seen: Sequence[tuple[ExecutorKey, ConnectionId, datetime]]
    ) -> int:
        """
        Move last-seen times forward.

        Args:
            seen: key, the connection it was seen on, and when; in any order. News of
                another connection than the row's, or older news, changes nothing.

        Returns:
            How many rows changed.
        """
        changed = 0
        in_order = sorted((*key, connection, at) for key, connection, at in seen)
        for start in range(0, len(in_order), _CHUNK):
            given = self._transaction.table_of(
                {
                    "application_id": String(),
                    "executor_id": String(),
                    "connection_id": String(),
                    "seen_at": Instant(),
                },
                in_order[start : start + _CHUNK],
            )
            is_news = (
                executor.c.application_id == given.c.application_id,
                executor.c.executor_id == given.c.executor_id,
                executor.c.connection_id == given.c.connection_id,
                executor.c.last_seen_at < given.c.seen_at,
            )
            await self._transaction.lock_rows(executor, *is_news)
            result = await self._transaction.execute(
                update(executor).where(*is_news).values(last_seen_at=given.c.seen_at)
            )
            changed += result.rowcount
        return changed

    async def recompute_deadlines(
        self,
        application_id: ApplicationId,
        *,
        grace: timedelta,
        fault_grace: timedelta,
    ) -> int:
        """
        Compute the open deadlines of an application anew, from where their grace began.

        Args:
            grace: the application's executor timeout.
            fault_grace: the least grace after a loss that is no fault of the executor.

        Returns:
            How many deadlines there are.
        """
        started = executor.c.grace_started_at
        return await self._change_deadlines(
            case(
                (
                    executor.c.grace_is_fault,
                    self._transaction.later(started, max(grace, fault_grace)),
                ),
                else_=self._transaction.later(started, grace),
            ),
            executor.c.application_id == application_id,
        )

    async def raise_deadlines(self, floor: datetime) -> int:
        """
        Move every open deadline before `floor` to it; how many moved.

        Each becomes the end of a grace that begins now and is that of a fault, or the
        next change of the timeout would move it back.
        """
        return await self._change_deadlines(
            floor,
            executor.c.dead_after < floor,
            grace_started_at=self._transaction.now,
            grace_is_fault=True,
        )

    async def _change_deadlines(
        self,
        deadline: datetime | ColumnElement[datetime],
        *criteria: ColumnElement[bool],
        **values: object,
    ) -> int:
        is_open = executor.c.status == ExecutorStatus.DISCONNECTED.value
        await self._transaction.lock_rows(executor, is_open, *criteria)
        result = await self._transaction.execute(
            update(executor)
            .where(is_open, *criteria)
            .values(dead_after=deadline, **values)
        )
        return result.rowcount

    async def _list(self, statement: Select[Any]) -> Sequence[ExecutorRecord]:
        return [to_record(row) for row in await self._transaction.execute(statement)]


def _page(statement: Select[Any], after: ExecutorKey | None, limit: int) -> Select[Any]:
    if after is not None:
        statement = statement.where(comes_after(after))
    in_order = statement.order_by(executor.c.application_id, executor.c.executor_id)
    return in_order.limit(limit)
