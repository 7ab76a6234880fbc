"""The engine's side of the ledger: rows read and written in short transactions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from relay.audit import AuditWriter
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
from relay.recovery.losses import hand_on
from relay.recovery.policy import Finish, Order, Rest, Strand
from relay.recovery.reports import (
    entry_of,
    entry_of_end,
    find_entry_of_rest,
    raise_alarm,
)
from relay.store import Store, UnitOfWork
from relay.store.executors import ExecutorKey

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """A row that this instance works on, and the setting that bears on it."""

    record: RecoveryRecord
    version_policy: VersionPolicy


@dataclass(frozen=True, slots=True)
class Ordering:
    """What is about to be ordered for a row, in a frame that names so many of them."""

    record: RecoveryRecord
    order: Order
    batch_size: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ends: what becomes of its row, which is no longer claimed then."""

    record: RecoveryRecord
    decision: Finish | Rest


class Bookkeeper:
    """
    Writes what attempts do, each step in a transaction of its own.

    Many rows share one where they can: a transaction costs more than all it writes. A
    row that is missing in what a method returns was changed by somebody else (the
    executor returned, an operator closed it): its attempt is over, its outcome dropped.

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
        orphans = {r.id: r for r in claimed if r.id not in running}
        if not orphans:
            return 0
        async with self._store.write() as work:
            freed = await self._save(
                work,
                [transitions.orphaned(r, now=work.now) for r in orphans.values()],
            )
            await self._audit.record(
                work,
                *(
                    entry_of(
                        "recovery.fail",
                        after,
                        AuditStatus.FAILURE,
                        now=work.now,
                        reason=after.reason,
                    )
                    for after in freed.values()
                    if orphans[after.id].state is RecoveryState.ORDERED
                ),
            )
        return len(freed)

    async def find_executor(self, ref: ExecutorRef) -> ExecutorRecord | None:
        """The row of an executor."""
        async with self._store.read() as work:
            return await work.executors.find(ref.key)

    async def order(
        self, orderings: Sequence[Ordering], *, answer_within: timedelta
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        """
        Record that orders are about to be sent.

        Returns:
            The rows whose executor may be named, as they are now: it is DEAD still, and
            the row as it was read.
        """
        async with self._store.write() as work:
            dead = await self._find_dead(work, [o.record for o in orderings])
            current = await work.recoveries.find_many(dead)
            recorded = {
                o.record.id: current[o.record.id]
                for o in orderings
                if o.record.id in current
                and self._is_own_order(current[o.record.id], o.record)
            }
            ordered = await self._save(
                work,
                [
                    transitions.ordered(
                        o.record, o.order, timeout=answer_within, now=work.now
                    )
                    for o in orderings
                    if o.record.id in dead and o.record.id not in recorded
                ],
            )
            await hand_on(work, ordered.values())
            await self._audit.record(
                work,
                *(
                    entry_of(
                        "recovery.order",
                        ordered[o.record.id],
                        AuditStatus.SUCCESS,
                        now=work.now,
                        target_version=o.order.app_version,
                        batch_size=o.batch_size if o.batch_size > 1 else None,
                    )
                    for o in orderings
                    if o.record.id in ordered
                ),
            )
            return recorded | ordered

    async def settle(
        self, settlements: Sequence[Settlement]
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        """
        End attempts: put their rows to rest, or close them as DONE.

        Where an end is proven, the executor's record is deleted.

        Returns:
            The rows that were written, as they are now.
        """
        async with self._store.write() as work:
            dead = await self._find_dead(work, [s.record for s in settlements])
            valid = [s for s in settlements if s.record.id in dead]
            saved = await self._save(work, [_settled(s, work) for s in valid])
            entries: list[AuditEntry] = []
            deaths: list[RecoveryRecord] = []
            for settlement in valid:
                before, decision = settlement.record, settlement.decision
                after = saved.get(before.id)
                if after is None:
                    continue
                match decision:
                    case Finish():
                        entries.append(entry_of_end(after, decision, now=work.now))
                        if not decision.is_verified:
                            _alarm_after(work, "recovery_unverified", after)
                        elif dead[before.id].app_version == after.app_version:
                            # Of another version nothing was asked: its work may still
                            # be pending.
                            deaths.append(after)
                            entries.append(
                                entry_of(
                                    "executor.delete",
                                    after,
                                    AuditStatus.SUCCESS,
                                    now=work.now,
                                )
                            )
                    case _:
                        entry = find_entry_of_rest(
                            before, after, decision, now=work.now
                        )
                        if entry is not None:
                            entries.append(entry)
                        if isinstance(decision, Strand) and entry is not None:
                            _alarm_after(work, "recovery_stranded", after)
            await self._delete(work, deaths)
            strangers = await _find_strangers(work, [dead[r.id] for r in deaths])
            await self._remember(
                work, [r for r in deaths if r.executor.key not in strangers]
            )
            await self._audit.record(work, *entries)
            return saved

    async def _delete(
        self, work: UnitOfWork, records: Sequence[RecoveryRecord]
    ) -> None:
        deleted = await work.executors.delete_dead(
            [(record.executor.key, record.epoch) for record in records]
        )
        if len(deleted) != len(records):
            raise AssertionError("a locked row of a DEAD executor has changed")

    async def _remember(
        self, work: UnitOfWork, records: Sequence[RecoveryRecord]
    ) -> None:
        await work.tombstones.insert_many(
            [
                TombstoneRecord(
                    executor=record.executor,
                    app_version=record.app_version,
                    recovery_id=record.id,
                    deleted_at=work.now,
                )
                for record in records
            ]
        )

    async def _find_dead(
        self, work: UnitOfWork, records: Sequence[RecoveryRecord]
    ) -> Mapping[RecoveryId, ExecutorRecord]:
        """
        The executors' rows, locked, by the recovery that is about this death of theirs.

        The other recoveries are closed as RETURNED, unless somebody else has closed
        them already.

        Locks are taken in the store's order: a tombstone refers to the application, so
        that comes first; the rows of executors keep the monitor from touching the
        recoveries, which come last.
        """
        await work.applications.lock_settings(
            {record.executor.application.id for record in records}
        )
        executors = await work.executors.lock([r.executor.key for r in records])
        dead = {
            record.id: executor
            for record in records
            if (executor := executors.get(record.executor.key)) is not None
            and executor.status is ExecutorStatus.DEAD
            and executor.epoch == record.epoch
        }
        alive = [record for record in records if record.id not in dead]
        await self._save(work, [transitions.returned(r, now=work.now) for r in alive])
        return dead

    def _is_own_order(self, current: RecoveryRecord, before: RecoveryRecord) -> bool:
        """Whether `current` is what an earlier try of ours made of `before`."""
        return (
            current.state is RecoveryState.ORDERED
            and current.claimed_by == self._instance_id
            and current.revision == before.revision + 1
        )

    async def _save(
        self, work: UnitOfWork, records: Sequence[RecoveryRecord]
    ) -> dict[RecoveryId, RecoveryRecord]:
        """The rows that were written, as they are now, in the order of `records`."""
        saved = await work.recoveries.save_many(records)
        for record in records:
            if record.id not in saved:
                logger.info(
                    "recovery_outcome_dropped",
                    recovery_id=record.id,
                    executor_id=record.executor.executor_id,
                    state=record.state.value,
                )
        return {
            record.id: replace(
                record, revision=record.revision + 1, updated_at=work.now
            )
            for record in records
            if record.id in saved
        }


async def _find_strangers(
    work: UnitOfWork, executors: Sequence[ExecutorRecord]
) -> set[ExecutorKey]:
    """
    Those of which nobody was ever connected here: an operator had them recovered.

    A tombstone would have the census recover by itself what a living process without a
    key may be working on.
    """
    keys = {e.ref.key for e in executors if e.is_placeholder}
    return keys - await work.tombstones.find_known(keys) if keys else keys


def _settled(settlement: Settlement, work: UnitOfWork) -> RecoveryRecord:
    record, decision = settlement.record, settlement.decision
    if isinstance(decision, Finish):
        return transitions.finished(record, decision, now=work.now)
    return transitions.rested(record, decision, now=work.now)


def _alarm_after(work: UnitOfWork, event: str, record: RecoveryRecord) -> None:
    work.after_commit(partial(raise_alarm, event, record))
