"""Rows of the ledger in the hands of an attempt."""

from datetime import timedelta

from relay.ids import (
    AppVersion,
    Epoch,
    ExecutorId,
    InstanceId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    RecoveryRecord,
)
from relay.recovery.policy import Order
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


async def order_one(stage: Stage) -> RecoveryRecord:
    record = await claim_one(stage)
    ordered = await stage.make_books().order(record, ORDER, answer_within=MINUTE)
    assert ordered is not None
    return ordered


async def change_executor(
    stage: Stage,
    *,
    status: ExecutorStatus = ExecutorStatus.DEAD,
    epoch: int = 3,
    app_version: AppVersion = V1,
) -> None:
    async with stage.store.write() as work:
        before = await work.executors.find(dead_ref().key)
        assert before is not None
        changed = make_executor(status=status, epoch=epoch, app_version=app_version)
        assert await work.executors.save(
            changed, expected_epoch=Epoch(before.epoch), expected_status=before.status
        )
