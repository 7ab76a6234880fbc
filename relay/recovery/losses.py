"""The crash brake's books: findings are weighed, and what is handed on is noted."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import structlog

from relay.audit import AuditWriter
from relay.ids import ApplicationId, InstanceId, RecoveryId, WorkflowId
from relay.records import AuditEntry, AuditStatus, RecoveryRecord
from relay.recovery import brake, transitions
from relay.recovery.brake import Counters
from relay.recovery.policy import Finding, NothingPending, WorkRemains
from relay.recovery.reports import entry_of
from relay.store import Store, UnitOfWork

logger = structlog.get_logger(__name__)

_SHOWN_SUSPECTS: Final = 10

Answered: TypeAlias = tuple[RecoveryRecord, Finding]
"""A row as it was when the question was asked, and what the question brought."""


class LossBook:
    """
    Counts losses, and brakes the rows that hold suspects.

    The counters are rows, written in the transaction that records the finding, so that
    a restart forgets nothing. As with the `Bookkeeper`, many rows share a transaction,
    and a row that is missing in what a method returns is no longer ours: its attempt is
    over. Every method may raise `StoreUnavailableError` and may then be called again.
    """

    def __init__(
        self, store: Store, audit: AuditWriter, *, instance_id: InstanceId
    ) -> None:
        self._store = store
        self._audit = audit
        self._instance_id = instance_id

    async def weigh(
        self, answered: Sequence[Answered]
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        """
        Record what the question found about some rows, and brake those with suspects.

        A listing shows the oldest hundred workflows. In a row with more, a suspect
        beyond them is not seen; it moves up as older ones end.

        Args:
            answered: different rows, all claimed by this instance.

        Returns:
            The rows whose attempts go on; those that were braked are at rest.
        """
        noted = {r.id: transitions.noted(r, finding) for r, finding in answered}
        telling = [(r, finding) for r, finding in answered if has_weight(r, finding)]
        if not telling:
            return noted
        weighed = await self._weigh(telling)
        is_told = {record.id for record, _ in telling}
        return {
            id_: weighed[id_] if id_ in is_told else record
            for id_, record in noted.items()
            if id_ not in is_told or id_ in weighed
        }

    async def acknowledge(
        self, ordered: Collection[RecoveryRecord]
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        """Record that the orders of these rows were acknowledged in this moment."""
        async with self._store.write() as work:
            after = [transitions.acknowledged(r, now=work.now) for r in ordered]
            saved = await self._save(work, after)
            await hand_on(work, ordered)
            return {**saved, **await self._find_own(work, after, saved)}

    async def _weigh(
        self, answered: Sequence[Answered]
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        found = {r.id: transitions.noted(r, finding) for r, finding in answered}
        async with self._store.write() as work:
            # A new counter refers to its application: that is locked first.
            by_application = _ids_by_application(found.values())
            await work.applications.lock_settings(by_application.keys())
            known = {
                application_id: await work.workflow_losses.find_many(
                    application_id, ids
                )
                for application_id, ids in by_application.items()
            }
            counted = {
                record.id: brake.count_loss(
                    found[record.id],
                    finding.names if isinstance(finding, WorkRemains) else {},
                    known[record.executor.application.id],
                )
                for record, finding in answered
            }
            weighed = [
                brake.applied(record, counted[record.id], now=work.now)
                for record in found.values()
            ]
            saved = await self._save(work, weighed)
            await work.workflow_losses.save_many(
                counter
                for id_ in saved
                for counter in counted[id_].values()
                if counter != known[counter.application_id].get(counter.workflow_id)
            )
            entries: list[AuditEntry] = []
            for before, _ in answered:
                if after := saved.get(before.id):
                    entries += _tell(work, before, after, counted[before.id])
            await self._audit.record(work, *entries)
            own = {**saved, **await self._find_own(work, weighed, saved)}
        return {id_: record for id_, record in own.items() if record.claimed_by}

    async def _save(
        self, work: UnitOfWork, records: Sequence[RecoveryRecord]
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        """The rows that were written, as they are now."""
        saved = await work.recoveries.save_many(records)
        return {
            record.id: replace(
                record, revision=record.revision + 1, updated_at=work.now
            )
            for record in records
            if record.id in saved
        }

    async def _find_own(
        self,
        work: UnitOfWork,
        records: Sequence[RecoveryRecord],
        saved: Collection[RecoveryId],
    ) -> Mapping[RecoveryId, RecoveryRecord]:
        """
        The rows that an earlier try of ours had written without our knowing.

        Whoever else touches a row that we have claimed lifts the claim.
        """
        missed = [record for record in records if record.id not in saved]
        if not missed:
            return {}
        current = await work.recoveries.find_many([record.id for record in missed])
        own = {
            record.id: current[record.id]
            for record in missed
            if record.id in current
            and current[record.id].claimed_by == self._instance_id
            and current[record.id].revision == record.revision + 1
        }
        for record in missed:
            if record.id not in own:
                logger.info(
                    "recovery_outcome_dropped",
                    recovery_id=record.id,
                    executor_id=record.executor.executor_id,
                    state=record.state.value,
                )
        return own


def has_weight(record: RecoveryRecord, finding: Finding) -> bool:
    """Whether the brake has to know of this finding."""
    match finding:
        case WorkRemains(ids=ids):
            # A listing that failed neither finds a suspect nor clears one.
            return bool(ids)
        case NothingPending():
            return bool(record.suspect_ids)
        case _:
            return False


async def hand_on(work: UnitOfWork, records: Collection[RecoveryRecord]) -> None:
    """Note that what is pending in these rows is moved now, in their transaction."""
    for application_id, ids in _ids_by_application(records).items():
        await work.workflow_losses.hand_on(application_id, ids)


def _ids_by_application(
    records: Iterable[RecoveryRecord],
) -> Mapping[ApplicationId, Collection[WorkflowId]]:
    ids: dict[ApplicationId, set[WorkflowId]] = defaultdict(set)
    for record in records:
        ids[record.executor.application.id].update(record.pending_ids)
    return ids


def _tell(
    work: UnitOfWork,
    before: RecoveryRecord,
    after: RecoveryRecord,
    counters: Counters,
) -> Sequence[AuditEntry]:
    """The entry of a row that has just been braked or released, if it has."""
    if bool(before.suspect_ids) == bool(after.suspect_ids):
        return []
    if not after.suspect_ids:
        reason = "its suspects are no longer pending"
        return [
            entry_of(
                "recovery.release",
                after,
                AuditStatus.SUCCESS,
                now=work.now,
                reason=reason,
            )
        ]
    suspects = [_show(id_, counters) for id_ in after.suspect_ids[:_SHOWN_SUSPECTS]]
    work.after_commit(partial(_raise_alarm, after, suspects))
    return [
        entry_of(
            "recovery.brake",
            after,
            AuditStatus.FAILURE,
            now=work.now,
            reason=after.reason,
            suspects=suspects,
            next_attempt_at=after.next_attempt_at,
        )
    ]


def _show(workflow_id: WorkflowId, counters: Counters) -> Mapping[str, Any]:
    counter = counters[workflow_id]
    return {
        "workflow_id": workflow_id,
        "name": counter.name,
        "losses": counter.losses,
        "last_lost_at": counter.last_lost_at.isoformat(),
    }


def _raise_alarm(record: RecoveryRecord, suspects: Sequence[Mapping[str, Any]]) -> None:
    """One ERROR a row; the next one of the same workflow is that of the next death."""
    application = record.executor.application
    logger.error(
        "recovery_braked",
        organization=application.organization,
        application=application.name,
        executor_id=record.executor.executor_id,
        app_version=record.app_version,
        recovery_id=record.id,
        suspects=suspects,
        reason=record.reason,
        next_attempt_at=record.next_attempt_at,
    )
