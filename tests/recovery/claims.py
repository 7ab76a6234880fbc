"""Rows of the ledger in the hands of an attempt."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from relay.ids import (
    AppVersion,
    Epoch,
    ExecutorId,
    InstanceId,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    RecoveryRecord,
)
from relay.recovery.bookkeeping import Ordering, Settlement
from relay.recovery.policy import Finish, Order, Rest
from tests.recovery.records import (
    ME,
    V1,
    dead_ref,
    make_executor,
)
from tests.recovery.stage import Stage

ORDER = Order(ExecutorId("peer"), V1, is_foreign=False)
MINUTE = timedelta(minutes=1)


async def claim_one(stage: Stage, instance_id: InstanceId = ME) -> RecoveryRecord:
    [claim] = await stage.make_books(instance_id).claim(10)
    return claim.record


async def claim_all(stage: Stage) -> list[RecoveryRecord]:
    return [claim.record for claim in await stage.make_books().claim(100)]


async def order_one(stage: Stage) -> RecoveryRecord:
    record = await claim_one(stage)
    ordered = await order(stage, record)
    assert ordered is not None
    return ordered


async def order(stage: Stage, record: RecoveryRecord) -> RecoveryRecord | None:
    """Record an order that names nobody else."""
    return (await order_all(stage, [record])).get(record.id)


async def order_all(
    stage: Stage, records: Sequence[RecoveryRecord]
) -> Mapping[RecoveryId, RecoveryRecord]:
    """Record an order that names all of them."""
    return await stage.make_books().order(
        [Ordering(record, ORDER, batch_size=len(records)) for record in records],
        answer_within=MINUTE,
    )


async def settle(
    stage: Stage, record: RecoveryRecord, decision: Finish | Rest
) -> RecoveryRecord | None:
    """End an attempt, together with nobody else's."""
    written = await stage.make_books().settle([Settlement(record, decision)])
    return written.get(record.id)


async def change_executor(
    stage: Stage,
    name: str = "dead",
    *,
    status: ExecutorStatus = ExecutorStatus.DEAD,
    epoch: int = 3,
    app_version: AppVersion = V1,
) -> None:
    async with stage.store.write() as work:
        before = await work.executors.find(dead_ref(name).key)
        assert before is not None
        changed = make_executor(
            dead_ref(name), status=status, epoch=epoch, app_version=app_version
        )
        assert await work.executors.save(
            changed, expected_epoch=Epoch(before.epoch), expected_status=before.status
        )
