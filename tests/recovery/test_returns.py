"""An executor that comes back in the middle of its recovery."""

from datetime import timedelta

import pytest

from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import RecoveryState
from tests.recovery.moves import bring_back
from tests.recovery.records import dead_ref
from tests.recovery.stage import (
    Stage,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE


async def test_returned_executor_is_never_named(stage: Stage) -> None:
    """It came back between the question and the order: nothing is written."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def come_back(_: object) -> object:
        stage.peers.online.add(dead_ref())
        return ()

    peer.on(ListWorkflowsRequest, come_back)
    stage.start()
    await stage.pass_time(timedelta(seconds=3))

    assert peer.asked(RecoveryRequest) == []
    record = await stage.find(recovery)
    assert record.attempts == 0
    # The order had been recorded; that it was not sent is no failure.
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.release",
    ]


async def test_record_of_an_executor_on_line_is_not_deleted(stage: Stage) -> None:
    """Late "nothing pending" of somebody who has just come back changes nothing."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def come_back(_: object) -> object:
        stage.peers.online.add(dead_ref())
        return False

    peer.on(ExistPendingWorkflowsRequest, come_back)
    stage.start()
    await stage.pass_time(timedelta(seconds=3))

    assert await stage.find_executor() is not None
    assert (await stage.find(recovery)).state is RecoveryState.READY


async def test_recovery_of_a_new_epoch_is_closed_as_returned(stage: Stage) -> None:
    """The row is about an older death than the executor's row."""
    recovery = await stage.bury(epoch=3)
    await bring_back(stage)
    peer = stage.connect("peer")

    stage.start()
    await stage.reach(recovery, RecoveryState.RETURNED)

    assert peer.asked(RecoveryRequest) == []
    assert await stage.find_executor() is not None
