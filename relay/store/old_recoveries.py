"""Rows of the ledger that ended so long ago that nobody asks for them any more."""

from datetime import datetime

from sqlalchemy import and_, delete, exists, or_, select

from relay.db import Transaction
from relay.ids import OrgName
from relay.records import RecoveryState
from relay.store.tables import application, executor, organization, recovery

_newer = recovery.alias("newer")

_HAS_EXECUTOR = exists().where(
    executor.c.application_id == recovery.c.application_id,
    executor.c.executor_id == recovery.c.executor_id,
)
_HAS_NEWER = exists().where(
    _newer.c.application_id == recovery.c.application_id,
    _newer.c.executor_id == recovery.c.executor_id,
    _newer.c.app_version == recovery.c.app_version,
    or_(
        _newer.c.opened_at > recovery.c.opened_at,
        and_(_newer.c.opened_at == recovery.c.opened_at, _newer.c.id > recovery.c.id),
    ),
)


class OldRecoveryRepository:
    """The closed recoveries, to be thrown away some day."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def purge(
        self, organization_name: OrgName, before: datetime, *, limit: int
    ) -> int:
        """
        Delete the oldest recoveries of an organization that closed before that instant.

        Not the last word of an operator who gave up on an executor that is still known:
        without it the census would have its work recovered.

        Returns:
            How many there were; as many as `limit` means that there may be more. Ask
            again in another transaction.
        """
        oldest = await self._transaction.execute(
            select(recovery.c.id)
            .select_from(recovery.join(application).join(organization))
            .where(
                organization.c.name == organization_name,
                recovery.c.closed_at < before,
                or_(
                    recovery.c.state != RecoveryState.ABANDONED.value,
                    ~_HAS_EXECUTOR,
                    _HAS_NEWER,
                ),
            )
            # By age: what was given up goes before the row that took its place does.
            .order_by(recovery.c.opened_at, recovery.c.id)
            .limit(limit)
            .with_for_update(of=recovery, skip_locked=True)
        )
        result = await self._transaction.execute(
            delete(recovery).where(recovery.c.id.in_(oldest.scalars().all()))
        )
        return result.rowcount
