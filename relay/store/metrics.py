"""Rows of what was counted in an application, and how far it has been collected."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, func, insert, select, tuple_, update

from relay.db import Transaction
from relay.ids import ApplicationId, ExecutorId
from relay.records import MetricRecord, MetricType
from relay.store.tables import collection, metric, recovery

# Bounds how long encoding the rows of one statement keeps the event loop busy.
_CHUNK: Final = 250

_PLACE: Final = (metric.c.time_bucket, metric.c.metric_type, metric.c.metric_name)


class MetricRepository:
    """
    The counts of applications, in windows that follow each other without a gap.

    Whoever closes a window or throws some away locks the application first.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def find_ends(
        self, ids: Collection[ApplicationId]
    ) -> dict[ApplicationId, datetime]:
        """Application to the end of its last window; those without one are missing."""
        rows = await self._transaction.execute(
            select(collection).where(collection.c.application_id.in_(ids))
        )
        return {row.application_id: row.collected_to for row in rows}

    async def close_window(
        self,
        application_id: ApplicationId,
        start: datetime,
        end: datetime,
        records: Sequence[MetricRecord],
        *,
        expected_end: datetime | None,
    ) -> bool:
        """
        Keep what was counted in a window, instead of all from its start on.

        Args:
            records: those of this window.
            expected_end: where the last window ended when this one was planned; `None`
                if there had been none.

        Returns:
            False if another one was closed meanwhile; nothing is changed then.
        """
        if not await self._move(application_id, end, expected_end):
            return False
        await self._transaction.execute(
            delete(metric).where(
                metric.c.application_id == application_id,
                metric.c.time_bucket >= start,
            )
        )
        for first in range(0, len(records), _CHUNK):
            rows = [_to_row(record) for record in records[first : first + _CHUNK]]
            await self._transaction.execute(insert(metric), rows)
        return True

    async def count_recoveries(
        self,
        application_id: ApplicationId,
        start: datetime,
        end: datetime,
        *,
        limit: int,
    ) -> Mapping[ExecutorId, int]:
        """Executor to the recoveries opened from `start` on and before `end`."""
        number = func.count()
        rows = await self._transaction.execute(
            select(recovery.c.executor_id, number.label("number"))
            .where(
                recovery.c.application_id == application_id,
                recovery.c.opened_at >= start,
                recovery.c.opened_at < end,
            )
            .group_by(recovery.c.executor_id)
            .order_by(number.desc(), recovery.c.executor_id)
            .limit(limit)
        )
        return {row.executor_id: row.number for row in rows}

    async def count(
        self,
        application_id: ApplicationId,
        start: datetime,
        end: datetime,
        *,
        limit: int,
    ) -> int:
        """How many rows `list_page` would list in all; none beyond `limit` counts."""
        rows = (
            select(metric.c.time_bucket)
            .where(*_between(application_id, start, end))
            .limit(limit)
            .subquery()
        )
        found = await self._transaction.execute(select(func.count()).select_from(rows))
        return int(found.scalar_one())

    async def find_last_before(
        self, application_id: ApplicationId, instant: datetime
    ) -> MetricRecord | None:
        """A row of the last window that begins before `instant`, if one does."""
        rows = await self._transaction.execute(
            select(metric)
            .where(
                metric.c.application_id == application_id,
                metric.c.time_bucket < instant,
            )
            .order_by(metric.c.time_bucket.desc())
            .limit(1)
        )
        row = rows.one_or_none()
        return None if row is None else _to_record(row)

    async def list_page(
        self,
        application_id: ApplicationId,
        start: datetime,
        end: datetime,
        *,
        after: MetricRecord | None,
        limit: int,
    ) -> Sequence[MetricRecord]:
        """
        The rows of windows that begin from `start` on and before `end`.

        Args:
            after: the last row of the page before; `None` for the first page.

        Returns:
            The oldest windows first; as many as `limit` means that there may be more.
        """
        statement = select(metric).where(*_between(application_id, start, end))
        if after is not None:
            place = (after.time_bucket, after.metric_type.value, after.metric_name)
            kinds = [column.type for column in _PLACE]
            statement = statement.where(tuple_(*_PLACE) > tuple_(*place, types=kinds))
        rows = await self._transaction.execute(statement.order_by(*_PLACE).limit(limit))
        return [_to_record(row) for row in rows]

    async def purge(
        self, application_id: ApplicationId, before: datetime, *, limit: int
    ) -> int:
        """
        Delete the oldest windows of an application that began before that instant.

        Returns:
            How many rows that were; as many as `limit` or more mean that there may be
            more. Ask again in another transaction.
        """
        are_old = (metric.c.application_id == application_id) & (
            metric.c.time_bucket < before
        )
        oldest = (
            select(metric.c.time_bucket)
            .where(are_old)
            .order_by(metric.c.time_bucket)
            .limit(limit)
            .subquery()
        )
        last = select(func.max(oldest.c.time_bucket)).scalar_subquery()
        result = await self._transaction.execute(
            delete(metric).where(are_old, metric.c.time_bucket <= last)
        )
        return result.rowcount

    async def _move(
        self,
        application_id: ApplicationId,
        end: datetime,
        expected_end: datetime | None,
    ) -> bool:
        if expected_end is None:
            row = {"application_id": application_id, "collected_to": end}
            return bool(await self._transaction.insert_new(collection, row))
        result = await self._transaction.execute(
            update(collection)
            .where(
                collection.c.application_id == application_id,
                collection.c.collected_to == expected_end,
            )
            .values(collected_to=end)
        )
        return result.rowcount == 1


def _between(
    application_id: ApplicationId, start: datetime, end: datetime
) -> Sequence[ColumnElement[bool]]:
    return (
        metric.c.application_id == application_id,
        metric.c.time_bucket >= start,
        metric.c.time_bucket < end,
    )


def _to_row(record: MetricRecord) -> dict[str, Any]:
    return {
        "application_id": record.application_id,
        "time_bucket": record.time_bucket,
        "metric_type": record.metric_type.value,
        "metric_name": record.metric_name,
        "granularity_ms": record.granularity,
        "value": record.value,
    }


def _to_record(row: Row[Any]) -> MetricRecord:
    return MetricRecord(
        application_id=row.application_id,
        time_bucket=row.time_bucket,
        granularity=row.granularity_ms,
        metric_type=MetricType(row.metric_type),
        metric_name=row.metric_name,
        value=row.value,
    )
