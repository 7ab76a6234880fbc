"""Opening the ledger for executors that own pending work and are gone."""

from collections.abc import Mapping, Sequence

from relay.audit import AuditWriter, engine_entry
from relay.census.policy import Holding, Reopen
from relay.dispatch import Peers
from relay.ids import ApplicationRef, ExecutorId, ExecutorRef, RecoveryId, new_id
from relay.liveness.states import ExecutorStatus
from relay.records import ExecutorRecord, Owner, RecoveryRecord
from relay.recovery.opening import dead_row
from relay.recovery.transitions import open_recovery
from relay.store import UnitOfWork


async def reopen(
    work: UnitOfWork,
    audit: AuditWriter,
    application: ApplicationRef,
    verdicts: Sequence[tuple[Holding, Reopen]],
    *,
    peers: Peers,
) -> None:
    """
    Open recoveries, for as many of these owners as still may have one.

    One that has come on line since, or has an open recovery, is passed over: the
    verdict was about what the rows said a moment ago. Of several versions of one
    executor only the first is opened; a later census comes to the others.
    """
    wanted: dict[ExecutorId, tuple[Holding, Reopen]] = {}
    for holding, verdict in verdicts:
        wanted.setdefault(holding.owner.executor_id, (holding, verdict))
    refs = {id_: ExecutorRef(application, id_) for id_ in wanted}
    if not await work.applications.lock_settings({application.id}):
        return
    known = await work.executors.lock([ref.key for ref in refs.values()])
    opened = await work.recoveries.find_open_many([ref.key for ref in refs.values()])
    free = {
        id_: wanted[id_]
        for id_, ref in refs.items()
        if not peers.is_online(ref)
        and ref.key not in opened
        and (ref.key not in known or known[ref.key].status is ExecutorStatus.DEAD)
    }
    rows = {
        id_: known.get(refs[id_].key)
        or dead_row(refs[id_], holding.owner.app_version, work.now)
        for id_, (holding, _) in free.items()
    }
    # One that has connected in this moment has a row now, and that one stays.
    guarded = known.keys() | await work.executors.insert_many(
        [row for row in rows.values() if row.ref.key not in known]
    )
    records = {
        id_: _open(row, free[id_][0].owner, work)
        for id_, row in rows.items()
        if row.ref.key in guarded
    }
    inserted = await work.recoveries.insert_many(list(records.values()))
    records = {id_: record for id_, record in records.items() if record.id in inserted}
    if records:
        await work.tombstones.mark_reopened(application.id, records)
        await _tell(work, audit, free, records)


def _open(row: ExecutorRecord, owner: Owner, work: UnitOfWork) -> RecoveryRecord:
    return open_recovery(
        recovery_id=RecoveryId(new_id()),
        executor=row.ref,
        app_version=owner.app_version,
        epoch=row.epoch,
        lost_at=None,
        now=work.now,
    )


async def _tell(
    work: UnitOfWork,
    audit: AuditWriter,
    verdicts: Mapping[ExecutorId, tuple[Holding, Reopen]],
    records: Mapping[ExecutorId, RecoveryRecord],
) -> None:
    await audit.record(
        work,
        *(
            engine_entry(
                "census.reopen",
                records[id_].executor,
                recovery_id=records[id_].id,
                app_version=holding.owner.app_version,
                pending_count=holding.count,
                reason=verdict.reason,
            )
            for id_, (holding, verdict) in verdicts.items()
            if id_ in records
        ),
    )
