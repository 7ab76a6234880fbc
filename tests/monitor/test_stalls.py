"""The time in which this process stood still is nobody's grace."""

from datetime import timedelta

import pytest
import structlog

from relay.liveness.states import ExecutorStatus
from tests.monitor.scene import FAULT_GRACE, GRACE, SECOND, Scene

DISCONNECTED = ExecutorStatus.DISCONNECTED
DEAD = ExecutorStatus.DEAD


@pytest.mark.parametrize("seconds", [1.5, 3, 4.5])
async def test_a_stall_extends_the_graces_it_fell_into(
    scene: Scene, seconds: float
) -> None:
    """Beginning and deadline move by its length, once."""
    await scene.disconnect("e1", "c1")
    before = await scene.row("e1")
    assert before.dead_after is not None
    assert before.grace_started_at is not None
    await scene.stall(seconds * SECOND)
    with structlog.testing.capture_logs() as logs:
        await scene.turn()
        await scene.pass_time(5 * SECOND)

    row = await scene.row("e1")
    assert row.dead_after == before.dead_after + seconds * SECOND
    assert row.grace_started_at == before.grace_started_at + seconds * SECOND
    [log] = [log for log in logs if log["event"] == "graces_extended"]
    assert (log["executors"], log["seconds"]) == (1, seconds)


async def test_a_short_stall_extends_nothing(scene: Scene) -> None:
    """Up to a second is within what a busy server may take."""
    await scene.disconnect("e1", "c1")
    before = await scene.row("e1")
    await scene.stall(SECOND)
    await scene.turn()

    assert await scene.row("e1") == before


async def test_nobody_dies_of_a_stall_over_its_deadline(scene: Scene) -> None:
    """One second before the deadline we stood still for three: one second is left."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE - SECOND)
    await scene.stall(3 * SECOND)
    await scene.turn()
    assert await scene.status("e1") is DISCONNECTED

    await scene.pass_time(SECOND)
    assert await scene.status("e1") is DEAD


async def test_a_long_stall_extends_a_long_grace_too(scene: Scene) -> None:
    """Forty seconds are given back, also where more than the floor is left."""
    await scene.set_grace(300 * SECOND)
    await scene.disconnect("e1", "c1")
    await scene.stall(40 * SECOND)
    await scene.turn()

    row = await scene.row("e1")
    assert row.dead_after == scene.clock.now() + 300 * SECOND


async def test_a_long_stall_gives_the_floor_of_a_fault(scene: Scene) -> None:
    """Peers need their time to notice that we are back."""
    await scene.disconnect("e1", "c1")
    await scene.stall(40 * SECOND)
    await scene.turn()

    row = await scene.row("e1")
    assert row.dead_after == scene.clock.now() + FAULT_GRACE
    assert row.grace_is_fault


async def test_a_loss_after_a_stall_is_not_extended(scene: Scene) -> None:
    """Its grace has not begun while we stood still."""
    scene.connect("e1", "c1")
    await scene.turn()
    await scene.stall(3 * SECOND)
    scene.lose("e1", "c1")
    await scene.turn()

    assert (await scene.row("e1")).dead_after == scene.clock.now() + GRACE


async def test_a_stall_while_the_store_is_asked_makes_the_answer_void(
    scene: Scene,
) -> None:
    """The database's clock went on: what it found elapsed is asked again."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE - SECOND)
    scene.store.stall_next_read(3 * SECOND)
    async with scene.background(scene.turn()) as asked:
        await scene.until(lambda: scene.store.is_stalling)
        await scene.stall(3 * SECOND)
        await scene.until(asked.done)
        assert await asked == timedelta(0)
    assert await scene.status("e1") is DISCONNECTED

    await scene.turn()
    assert await scene.status("e1") is DISCONNECTED


async def test_a_changed_timeout_does_not_take_back_what_was_given(
    scene: Scene,
) -> None:
    """After an absence the grace counts from the return, with the floor of a fault."""
    await scene.disconnect("e1", "c1")
    await scene.stall(600 * SECOND)
    await scene.turn()
    returned = scene.clock.now()
    await scene.set_grace(31 * SECOND)
    await scene.turn()

    row = await scene.row("e1")
    assert row.status is DISCONNECTED
    assert row.dead_after == returned + FAULT_GRACE
