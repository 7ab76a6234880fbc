"""Moving what waits for a moment, when the moments themselves have moved."""

from datetime import datetime, timedelta

from sqlalchemy import or_, update

from relay.db import Transaction
from relay.liveness.states import ExecutorStatus
from relay.store.tables import executor, recovery


class DeadlineRepository:
    """The open deadlines of executors and of the ledger, all at once."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def shift_graces(
        self, span: timedelta, *, begun_by: datetime, or_after: datetime | None = None
    ) -> int:
        """
        Move open graces, their beginning and their deadline, by `span`.

        A change of the timeout counts from the beginning: what only moved the deadline
        would be lost by it.

        Args:
            span: backwards if negative.
            begun_by: only graces that began at this instant or before,
            or_after: and those that began after this one.

        Returns:
            How many graces there were.
        """
        began = executor.c.grace_started_at
        criteria = (
            executor.c.status == ExecutorStatus.DISCONNECTED.value,
            began <= begun_by
            if or_after is None
            else or_(began <= begun_by, began > or_after),
        )
        await self._transaction.lock_rows(executor, *criteria)
        result = await self._transaction.execute(
            update(executor)
            .where(*criteria)
            .values(
                grace_started_at=self._transaction.later(began, span),
                dead_after=self._transaction.later(executor.c.dead_after, span),
            )
        )
        return result.rowcount

    async def shift_recoveries(
        self, span: timedelta, *, written_by: datetime | None = None
    ) -> int:
        """
        Move what open recoveries wait for by `span`; how many wait for a moment.

        Their revision stays: who works on one of them goes on.

        Args:
            span: backwards if negative.
            written_by: only those last written at this instant or before.
        """
        criteria = [
            recovery.c.closed_at.is_(None),
            or_(
                recovery.c.next_attempt_at.is_not(None),
                recovery.c.order_deadline.is_not(None),
            ),
        ]
        if written_by is not None:
            criteria.append(recovery.c.updated_at <= written_by)
        await self._transaction.lock_rows(recovery, *criteria)
        result = await self._transaction.execute(
            update(recovery)
            .where(*criteria)
            .values(
                {
                    column: self._transaction.later(column, span)
                    for column in (
                        recovery.c.next_attempt_at,
                        recovery.c.order_deadline,
                    )
                }
            )
        )
        return result.rowcount
