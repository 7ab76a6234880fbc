"""Moves and checks that several tests of the engine make."""

from dataclasses import replace

from relay.errors import (
    UnknownMessageError,
)
from relay.ids import (
    Epoch,
    ExecutorId,
    RecoveryId,
)
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import RecoveryState
from tests.recovery.records import dead_ref
from tests.recovery.stage import (
    Stage,
)


async def is_true(value: bool) -> bool:
    return value


async def is_done(stage: Stage, recovery: RecoveryId) -> bool:
    return (await stage.find(recovery)).state is RecoveryState.DONE


def unknown(peer: str) -> UnknownMessageError:
    return UnknownMessageError(ExecutorId(peer), "Unknown message type")


async def bring_back(stage: Stage) -> None:
    """The executor connected and died again; its first recovery was overlooked."""
    async with stage.store.write() as work:
        executor = await work.executors.find(dead_ref().key)
        assert executor is not None
        is_saved = await work.executors.save(
            replace(executor, epoch=Epoch(4)),
            expected_epoch=executor.epoch,
            expected_status=executor.status,
        )
        assert is_saved


def assert_each_order_follows_a_question(requests: list[type]) -> None:
    is_asked = False
    for request in requests:
        if request is RecoveryRequest:
            assert is_asked, "an order without a question before it"
            is_asked = False
        elif request is ExistPendingWorkflowsRequest:
            is_asked = True
