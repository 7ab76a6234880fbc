"""Restarts, questions that cannot be answered, and a store that goes away."""

from datetime import timedelta

import pytest

from relay.errors import (
    ExecutorFailedError,
)
from relay.ids import (
    ExecutorId,
    InstanceId,
)
from relay.protocol.messages import (
    Acknowledgement,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import RecoveryState
from tests.recovery.moves import is_true, unknown
from tests.recovery.records import V1
from tests.recovery.stage import (
    Stage,
    failing,
    silence,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE


async def test_restart_with_an_order_out_asks_before_it_repeats(stage: Stage) -> None:
    """The first order was carried out: there is no second one."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, silence)
    engine = stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)

    await stage.kill(engine)
    stage.workflows.take_over(ExecutorId("dead"), V1)
    stage.start(stage.make_engine(instance_id=InstanceId("next")))
    record = await stage.reach(recovery, DONE)

    assert record.attempts == 1
    assert len(peer.asked(RecoveryRequest)) == 1
    assert "recovery.fail" in await stage.list_operations(recovery)


async def test_restart_with_a_lost_order_repeats_it(stage: Stage) -> None:
    """The work is still there, so it is ordered again."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, silence)
    engine = stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)

    await stage.kill(engine)
    peer.behaviours.clear()
    stage.start(stage.make_engine(instance_id=InstanceId("next")))

    assert (await stage.reach(recovery, DONE)).attempts == 2


async def test_question_falls_back_to_a_listing(stage: Stage) -> None:
    """SDKs that do not know the question can still list workflows."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(ExistPendingWorkflowsRequest, failing(unknown("peer")))

    stage.start()
    record = await stage.reach(recovery, DONE)

    assert record.is_verified is True
    assert record.attempts == 1


async def test_unverifiable_recovery_ends_without_deleting(stage: Stage) -> None:
    """Unknown is not nothing: the executor's record stays."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(ExistPendingWorkflowsRequest, failing(unknown("peer")))
    peer.on(ListWorkflowsRequest, failing(unknown("peer")))

    stage.start()
    record = await stage.reach(recovery, DONE)

    assert record.is_verified is False
    assert await stage.find_executor() is not None
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.verify",
    ]


async def test_failing_question_orders_nothing_and_is_told_once(stage: Stage) -> None:
    """Nobody is ordered to take over what may not exist."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    error = ExecutorFailedError(ExecutorId("peer"), "database down")
    peer.on(ExistPendingWorkflowsRequest, failing(error))

    stage.start()
    await stage.reach(recovery, RecoveryState.BACKOFF)
    await stage.pass_time(timedelta(seconds=30))

    assert peer.asked(RecoveryRequest) == []
    assert await stage.list_operations(recovery) == ["recovery.fail"]


async def test_outcome_is_written_when_the_store_is_back(stage: Stage) -> None:
    """The order was answered while the database was away: nothing is repeated."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def recover_during_outage(_: object) -> object:
        stage.store.is_down = True
        stage.workflows.take_over(ExecutorId("dead"), V1)
        return Acknowledgement(success=True)

    peer.on(RecoveryRequest, recover_during_outage)
    stage.start()
    await stage.run_until(lambda: is_true(stage.store.is_down))
    await stage.pass_time(timedelta(seconds=40))
    assert (await stage.find(recovery)).state is RecoveryState.ORDERED
    stage.store.is_down = False
    record = await stage.reach(recovery, DONE)

    assert record.attempts == 1
    assert len(peer.asked(RecoveryRequest)) == 1


async def test_order_whose_commit_was_not_confirmed_is_sent_once(stage: Stage) -> None:
    """The row says that the order was recorded, so it is neither lost nor doubled."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def lose_the_order(_: object) -> object:
        stage.store.lose_next_commit()
        return ()

    peer.on(ListWorkflowsRequest, lose_the_order)
    stage.start()
    record = await stage.reach(recovery, DONE, within=timedelta(seconds=30))

    assert record.attempts == 1
    assert len(peer.asked(RecoveryRequest)) == 1


async def test_claim_whose_commit_was_not_confirmed_is_found_again(
    stage: Stage,
) -> None:
    """No row stays claimed by nobody."""
    stage.connect("peer")
    engine = stage.start()
    await stage.pass_time(timedelta(seconds=2))

    recovery = await stage.bury()
    stage.store.lose_next_commit()
    engine.wake()

    await stage.reach(recovery, DONE, within=timedelta(seconds=3))
