"""What a census may have found, as rows."""

from relay.ids import ApplicationRef, AppVersion, ExecutorId, ExecutorRef, RecoveryId
from relay.records import (
    CensusRecord,
    DisputeRecord,
    DisputeSide,
    Owner,
    OwnerKind,
    TombstoneRecord,
)
from relay.store import Store

V1 = AppVersion("v1")


async def find_everything(store: Store, application: ApplicationRef) -> None:
    """A stranger with work, a forgotten executor with work, and two databases."""
    forgotten = ExecutorId("forgotten")
    async with store.write() as work:
        await work.censuses.save(
            CensusRecord(
                application_id=application.id,
                taken_at=work.now,
                answered_by=ExecutorId("a"),
                pending_count=7,
                is_complete=False,
            )
        )
        await work.unknown_owners.note(
            application.id,
            {Owner(ExecutorId("stranger"), V1): (OwnerKind.UNKNOWN, 3)},
        )
        await work.tombstones.insert(
            TombstoneRecord(
                executor=ExecutorRef(application, forgotten),
                app_version=V1,
                recovery_id=RecoveryId("r-1"),
                deleted_at=work.now,
            )
        )
        await work.tombstones.mark_reopened(application.id, [forgotten])
        await work.disputes.save(
            DisputeRecord(
                application_id=application.id,
                since=work.now,
                sides=(
                    DisputeSide(frozenset([ExecutorId("b"), ExecutorId("a")]), 2),
                    DisputeSide(frozenset([ExecutorId("w")]), 1),
                ),
            )
        )
