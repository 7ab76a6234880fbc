"""The same monitor where rows are really locked."""

import asyncio
from dataclasses import replace

import pytest

from relay.hub.events import Loss
from relay.ids import ConnectionId
from relay.liveness.states import ExecutorStatus
from relay.records import RecoveryState
from tests.conftest import NEWEST_POSTGRES
from tests.monitor.scene import APPLICATION, FAULT_GRACE, GRACE, SECOND, Scene, ref_of

pytestmark = pytest.mark.parametrize(
    "engine_name", [f"postgresql-{NEWEST_POSTGRES}"], indirect=True
)


async def test_a_whole_life_on_postgresql(scene: Scene) -> None:
    """On line, superseded, lost, dead, back: rows, ledger and audit log agree."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.connect("e1", "c2")
    await scene.turn()
    scene.lose("e1", "c1")
    scene.lose("e1", "c2")
    await scene.turn()
    await scene.pass_time(GRACE)
    [recovery] = await scene.recoveries()
    assert recovery.state is RecoveryState.READY
    scene.connect("e1", "c3")
    await scene.turn()

    row = await scene.row("e1")
    assert (row.status, row.epoch) == (ExecutorStatus.HEALTHY, 3)
    [recovery] = await scene.recoveries()
    assert recovery.state is RecoveryState.RETURNED
    assert scene.sockets.closed == [(ConnectionId("c1"), Loss.SUPERSEDED)]
    assert await scene.operations() == [
        "executor.connect",
        "executor.reconnect",
        "executor.disconnect",
        "executor.dead",
        "executor.reconnect",
    ]


async def test_a_loss_waits_for_a_change_of_the_timeout(scene: Scene) -> None:
    """No deadline is derived from a timeout that is just being replaced."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.lose("e1", "c1")
    has_changed, may_commit = asyncio.Event(), asyncio.Event()

    async def patch() -> None:
        async with scene.database.write() as work:
            record = await work.applications.find_by_id(APPLICATION.id)
            assert record is not None
            await work.applications.update(replace(record, executor_timeout=5 * SECOND))
            await work.executors.recompute_deadlines(
                APPLICATION.id, grace=5 * SECOND, fault_grace=FAULT_GRACE
            )
            has_changed.set()
            await may_commit.wait()

    async with scene.background(patch()):
        await has_changed.wait()
        async with scene.background(scene.turn()) as turn:
            for _ in range(20):
                await scene.database.ping()
            assert not turn.done()
            may_commit.set()
            await turn

    assert (await scene.row("e1")).dead_after == scene.clock.now() + 5 * SECOND


async def test_a_new_language_does_not_meet_an_order_head_on(scene: Scene) -> None:
    """Whoever holds the settings and goes on to the executor is waited for, first."""
    scene.connect("e1", "c1", language="python")
    await scene.turn()
    scene.connect("e1", "c2", language="go")
    holds_settings, may_go_on = asyncio.Event(), asyncio.Event()

    async def order() -> None:
        async with scene.database.write() as work:
            await work.applications.lock_settings({APPLICATION.id})
            holds_settings.set()
            await may_go_on.wait()
            await work.executors.lock([ref_of("e1").key])

    async with scene.background(order()) as ordering:
        await holds_settings.wait()
        async with scene.background(scene.turn()) as turn:
            for _ in range(20):
                await scene.database.ping()
            assert not turn.done()
            may_go_on.set()
            await ordering
            await turn

    assert (await scene.row("e1")).language == "go"
    async with scene.database.read() as work:
        application = await work.applications.find_by_id(APPLICATION.id)
    assert application is not None
    assert application.language == "go"
