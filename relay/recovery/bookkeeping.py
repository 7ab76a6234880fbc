"""The engine's side of the ledger: rows read and written in short transactions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.ids import ApplicationId, ExecutorRef, InstanceId, RecoveryId
from relay.liveness.states import ExecutorStatus
from relay.records import (
    AuditEntry,
    AuditStatus,
    ExecutorRecord,
    RecoveryRecord,
    RecoveryState,
    TombstoneRecord,
    VersionPolicy,
)
from relay.recovery import transitions
from relay.recovery.policy import BackOff, Finish, Hold, Order, Rest, Strand
from relay.store import Store, UnitOfWork

logger = structlog.get_logger(__name__)

_SHOWN_IDS: Final = 10
"""Workflow ids in an audit entry; the row holds up to a hundred."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A row that this instance works on, and the setting that bears on it."""

    record: RecoveryRecord
    version_policy: VersionPolicy


class Bookkeeper:
    """
    Writes what an attempt does, each step in its own transaction.

    A method that returns `None` or False found the row changed by somebody else (the
    executor returned, an operator closed it): the attempt is over, its outcome dropped.
    Every method may raise `StoreUnavailableError` and may then be called again: one
    that had been committed after all recognises its own work.
    """

    def __init__(
        self, store: Store, audit: AuditWriter, *, instance_id: InstanceId
    ) -> None:
        self._store = store
        self._audit = audit
        self._instance_id = instance_id

    async def find_due_in(self) -> timedelta | None:
        """The span until the next row is due, or `None` when none will be."""
        async with self._store.read() as work:
            due_at = await work.recoveries.find_next_attempt()
            return None if due_at is None else due_at - work.now

    async def claim(
        self, limit: int, *, except_applications: Collection[ApplicationId] = ()
    ) -> Sequence[Claim]:
        """Up to `limit` due rows, from now on ours; none of the excepted."""
        async with self._store.write() as work:
            records = await work.recoveries.claim_due(
                self._instance_id, limit, except_applications=except_applications
            )
            policies: dict[ApplicationId, VersionPolicy] = {}
            for application_id in {r.executor.application.id for r in records}:
                application = await work.applications.find_by_id(application_id)
                if application is not None:
                    policies[application_id] = application.version_policy
        return [
            Claim(r, policies.get(r.executor.application.id, VersionPolicy.SAME))
            for r in records
        ]

    async def release_orphans(self, running: Collection[RecoveryId]) -> int:
        """
        Free the claimed rows that no attempt works on; how many there were.

        One server works on a ledger at a time: a claim of another instance belongs to
        a process that has ended.

        Args:
            running: the attempts of this process. It must hold every row that `claim`
                has returned and whose attempt has not ended.
        """
        async with self._store.read() as work:
            claimed = await work.recoveries.list_claimed()
        if all(record.id in running for record in claimed):
            return 0
        freed = 0
        async with self._store.write() as work:
            for record in claimed:
                if record.id in running:
                    continue
                after = transitions.orphaned(record, now=work.now)
                if await self._save(work, after) is None:
                    continue
                freed += 1
                if record.state is RecoveryState.ORDERED:
                    await self._note(work, "recovery.fail", after, reason=after.reason)
        return freed

    async def find_executor(self, ref: ExecutorRef) -> ExecutorRecord | None:
        """The row of an executor."""
        async with self._store.read() as work:
            return await work.executors.find(ref.key)

    async def order(
        self, record: RecoveryRecord, order: Order, *, answer_within: timedelta
    ) -> RecoveryRecord | None:
        """Record that `order` is about to be written, if the executor is DEAD still."""
        async with self._store.write() as work:
            if await self._find_dead(work, record) is None:
                return None
            current = await work.recoveries.find(record.id)
            if current is not None and self._is_own_order(current, record):
                return current
            after = await self._save(
                work,
                transitions.ordered(record, order, timeout=answer_within, now=work.now),
            )
            if after is not None:
                await self._note(
                    work,
                    "recovery.order",
                    after,
                    AuditStatus.SUCCESS,
                    target_version=order.app_version,
                )
            return after

    async def rest(self, record: RecoveryRecord, rest: Rest) -> RecoveryRecord | None:
        """Put the row to rest; the claim ends."""
        async with self._store.write() as work:
            after = await self._save(
                work, transitions.rested(record, rest, now=work.now)
            )
            if after is None:
                return None
            if isinstance(rest, Strand):
                if record.state is not RecoveryState.STRANDED:
                    await self._note(work, "recovery.strand", after, reason=rest.reason)
                    work.after_commit(lambda: raise_alarm("recovery_stranded", after))
            elif isinstance(rest, Hold):
                if record.state is RecoveryState.ORDERED:
                    await self._note(
                        work,
                        "recovery.release",
                        after,
                        AuditStatus.SUCCESS,
                        reason=rest.reason,
                    )
            elif record.state is RecoveryState.ORDERED or (
                # A question that fails for an hour is told once.
                isinstance(rest, BackOff) and rest.reason != record.reason
            ):
                await self._note(work, "recovery.fail", after, reason=rest.reason)
            return after

    async def finish(self, record: RecoveryRecord, finish: Finish) -> bool:
        """Close the row as DONE; if that is proven, delete the executor's record."""
        async with self._store.write() as work:
            dead = await self._find_dead(work, record)
            if dead is None:
                return False
            after = await self._save(
                work, transitions.finished(record, finish, now=work.now)
            )
            if after is None:
                return False
            await self._note(
                work,
                "recovery.verify",
                after,
                AuditStatus.SUCCESS if finish.is_verified else AuditStatus.FAILURE,
                is_verified=finish.is_verified,
                reason=after.reason,
            )
            if not finish.is_verified:
                work.after_commit(lambda: raise_alarm("recovery_unverified", after))
            elif dead.app_version == record.app_version:
                # Of another version nothing was asked: its work may still be pending.
                await self._delete(work, after)
            return True

    async def _delete(self, work: UnitOfWork, record: RecoveryRecord) -> None:
        if not await work.executors.delete_dead(record.executor.key, record.epoch):
            raise AssertionError("a locked row of a DEAD executor has changed")
        await work.tombstones.insert(
            TombstoneRecord(
                executor=record.executor,
                app_version=record.app_version,
                recovery_id=record.id,
                deleted_at=work.now,
            )
        )
        await self._note(work, "executor.delete", record, AuditStatus.SUCCESS)

    async def _find_dead(
        self, work: UnitOfWork, record: RecoveryRecord
    ) -> ExecutorRecord | None:
        """
        The executor's row, locked, if it is still about this death.

        Otherwise the recovery is closed as RETURNED, unless somebody else has closed it
        already. Locks are taken in the store's order: a tombstone refers to the
        application, so that comes first.
        """
        await work.applications.lock_settings({record.executor.application.id})
        key = record.executor.key
        executor = (await work.executors.lock([key])).get(key)
        if (
            executor is not None
            and executor.status is ExecutorStatus.DEAD
            and executor.epoch == record.epoch
        ):
            return executor
        await self._save(work, transitions.returned(record, now=work.now))
        return None

    def _is_own_order(self, current: RecoveryRecord, before: RecoveryRecord) -> bool:
        """Whether `current` is what an earlier try of ours made of `before`."""
        return (
            current.state is RecoveryState.ORDERED
            and current.claimed_by == self._instance_id
            and current.revision == before.revision + 1
        )

    async def _save(
        self, work: UnitOfWork, record: RecoveryRecord
    ) -> RecoveryRecord | None:
        if not await work.recoveries.save(record, expected_revision=record.revision):
            logger.info(
                "recovery_outcome_dropped",
                recovery_id=record.id,
                executor_id=record.executor.executor_id,
                state=record.state.value,
            )
            return None
        return replace(record, revision=record.revision + 1, updated_at=work.now)

    async def _note(
        self,
        work: UnitOfWork,
        operation: str,
        record: RecoveryRecord,
        status: AuditStatus = AuditStatus.FAILURE,
        **details: object,
    ) -> None:
        await self._audit.record(
            work, _entry(operation, record, status, work.now, details)
        )


def _entry(
    operation: str,
    record: RecoveryRecord,
    status: AuditStatus,
    now: datetime,
    details: dict[str, object],
) -> AuditEntry:
    facts = {
        "app_version": record.app_version,
        "state": record.state.value,
        "attempt": record.attempts,
        "target": record.target,
        "pending_count": record.pending_count,
        "pending_ids": list(record.pending_ids[:_SHOWN_IDS]),
        "elapsed_seconds": round((now - record.opened_at).total_seconds(), 3),
        **details,
    }
    entry = engine_entry(
        operation, record.executor, status=status, recovery_id=record.id
    )
    known = {name: value for name, value in facts.items() if value is not None}
    return replace(entry, details={**entry.details, **known})


def raise_alarm(event: str, record: RecoveryRecord) -> None:
    """One ERROR a row that will not go on by itself."""
    application = record.executor.application
    logger.error(
        event,
        organization=application.organization,
        application=application.name,
        executor_id=record.executor.executor_id,
        app_version=record.app_version,
        recovery_id=record.id,
        pending_count=record.pending_count,
        reason=record.reason,
    )
