"""What may become true while a move waits, for a moment or for days."""

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.errors import ConnectionLostError, NoExecutorError
from relay.ids import AppName, AppVersion, ExecutorId
from relay.protocol.sdk import Sdk
from relay.records import ItemState, RecoveryState
from relay.recovery import Ledger
from tests.migration.yard import OLDER, Yard
from tests.operations.desk import ANN
from tests.recovery.records import V1
from tests.recovery.stage import MODERN, FakePeer

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

MINUTE = timedelta(minutes=1)
NOBODY = NoExecutorError(AppName("shop"))
V3 = AppVersion("v3")
FIRST_MESSAGES = ("cancel", "fork_workflow")
both_methods = pytest.mark.parametrize("sdk", [MODERN, OLDER], ids=["rewind", "fork"])


# --- its executor --------------------------------------------------------------------


@both_methods
async def test_an_executor_that_comes_back_before_the_first_message_keeps_its_work(
    yard: Yard, sdk: Sdk
) -> None:
    """Nobody can have got a message yet: nothing is begun that has to be finished."""
    recovery_id = await yard.strand("w")
    yard.connect(sdk=sdk)
    is_back = False

    async def come_back(kind: str, _: Any) -> None:
        nonlocal is_back
        if kind in FIRST_MESSAGES and not is_back:
            is_back = True
            yard.connect("dead", V1, sdk=sdk)
            raise NOBODY

    yard.before = come_back
    [item] = (await yard.move(recovery_id)).items

    assert (item.state, item.reason) == (
        ItemState.SKIPPED,
        "its executor is connected again",
    )
    assert not yard.done


@both_methods
@pytest.mark.parametrize(
    "error", [NOBODY, ConnectionLostError(ExecutorId("e2"), delivered=True)]
)
async def test_what_was_recorded_in_the_meantime_is_not_run_again(
    yard: Yard, sdk: Sdk, error: Exception
) -> None:
    """Its executor was back for a while, and has gone again."""
    recovery_id = await yard.strand("w")
    yard.work.record("w", {1: None, 2: None})
    yard.connect(sdk=sdk)
    has_worked = False
    started_from: list[int] = []

    async def work_on(kind: str, request: Any) -> None:
        nonlocal has_worked
        if kind in FIRST_MESSAGES and not has_worked:
            has_worked = True
            yard.work.record("w", dict.fromkeys(range(1, 8)))
            raise error
        if kind in ("rewind_workflow", "fork_workflow"):
            started_from.append(request.start_step)

    yard.before = work_on
    [item] = (await yard.move(recovery_id)).items

    assert (item.state, item.start_step) == (ItemState.MOVED, 8)
    assert started_from == [8]


async def test_a_message_that_may_have_arrived_is_not_forgotten(yard: Yard) -> None:
    """The answer was lost, then nobody was there, then it is seen to have been done."""
    recovery_id = await yard.strand("w")
    yard.connect()
    cancels = 0

    async def lose(kind: str, _: Any) -> None:
        nonlocal cancels
        if kind != "cancel":
            return
        cancels += 1
        if cancels == 1:
            raise ConnectionLostError(ExecutorId("e2"), delivered=True)
        yard.work.cancel("w")
        raise NOBODY

    yard.before = lose
    [item] = (await yard.move(recovery_id)).items

    assert item.state is ItemState.MOVED


# --- the version that it goes to -----------------------------------------------------


async def lose_target(yard: Yard, target: FakePeer) -> None:
    """It goes while the first workflow is moved; somebody else is still there."""
    yard.connect("e3", V3)

    async def leave(kind: str, _: Any) -> None:
        if kind == "rewind_workflow" and target in yard.stage.peers.peers:
            yard.stage.disconnect(target)

    yard.before = leave


async def test_without_its_target_no_other_workflow_is_touched(yard: Yard) -> None:
    """Nobody would run it, and no recovery would know of it."""
    recovery_id = await yard.strand("w1", "w2")
    await lose_target(yard, yard.connect())
    yard.start()
    await yard.begin(recovery_id)
    await yard.stage.pass_time(5 * MINUTE)
    assert yard.row("w2")["Status"] == "PENDING"

    yard.connect("e4")
    items = (await yard.reach_end(recovery_id)).items

    assert [item.state for item in items] == [ItemState.MOVED, ItemState.MOVED]


async def test_while_it_waits_for_its_target_an_operator_can_end_it(yard: Yard) -> None:
    recovery_id = await yard.strand("w1", "w2")
    await lose_target(yard, yard.connect())
    yard.start()
    await yard.begin(recovery_id)
    await yard.stage.pass_time(MINUTE)

    await Ledger(yard.stage.store, yard.stage.audit).abandon(
        recovery_id, "no", by=ANN.subject
    )

    items = (await yard.reach_end(recovery_id)).items
    assert [item.state for item in items] == [ItemState.MOVED, ItemState.SKIPPED]


async def test_after_a_rollback_the_rest_is_left_to_its_old_version(yard: Yard) -> None:
    """The recovery goes on, and orders an executor of it."""
    recovery_id = await yard.strand("w1", "w2")
    await lose_target(yard, yard.connect())
    yard.connect("e5", V1)

    items = (await yard.move(recovery_id)).items

    assert [item.state for item in items] == [ItemState.MOVED, ItemState.SKIPPED]
    assert "v1 is again" in (items[1].reason or "")
    assert (await yard.find(recovery_id)).state is RecoveryState.READY


# --- its application -----------------------------------------------------------------


async def test_what_becomes_private_is_private_from_then_on(yard: Yard) -> None:
    recovery_id = await yard.strand("w1", "w2")
    peer = yard.connect()

    async def hide(kind: str, _: Any) -> None:
        if kind == "rewind_workflow":
            await yard.set(private_mode=True)
            peer.requests.clear()

    yard.before = hide
    items = (await yard.move(recovery_id)).items

    assert [item.state for item in items] == [ItemState.MOVED, ItemState.MOVED]
    asked = {request.message_type for request in peer.requests}
    assert "get_workflow_notifications" not in asked


async def test_a_move_that_waits_ends_with_its_application(yard: Yard) -> None:
    """Its executors have gone with it, and nobody will ever answer."""
    recovery_id = await yard.strand("w")
    ref = (await yard.find(recovery_id)).executor.application
    yard.connect()

    async def vanish(kind: str, _: Any) -> None:
        raise NOBODY

    yard.start()
    await yard.begin(recovery_id)
    yard.before = vanish
    await yard.stage.pass_time(MINUTE)

    with capture_logs() as logs:
        async with yard.stage.store.write() as work:
            await work.applications.delete(ref.id)
        await yard.stage.pass_time(MINUTE)

    assert "migration_overtaken" in {log["event"] for log in logs}
