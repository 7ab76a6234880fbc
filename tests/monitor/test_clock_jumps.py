"""The database's clock is set, or replaced: what waits for a moment moves along."""

from dataclasses import replace
from datetime import timedelta

import pytest
import structlog

from relay.errors import StoreUnavailableError
from relay.ids import AppVersion, Epoch, RecoveryId
from relay.liveness.states import ExecutorStatus
from relay.recovery.transitions import open_recovery
from relay.store.deadlines import DeadlineRepository
from tests.monitor.scene import FAULT_GRACE, GRACE, SECOND, Scene, ref_of

HOUR = 3600 * SECOND
HEALTHY = ExecutorStatus.HEALTHY
DISCONNECTED = ExecutorStatus.DISCONNECTED
DEAD = ExecutorStatus.DEAD


async def wait_in_the_ledger(scene: Scene, span: timedelta) -> None:
    """A recovery is to be tried again after `span`."""
    async with scene.store.write() as work:
        record = open_recovery(
            recovery_id=RecoveryId("r1"),
            executor=ref_of("gone"),
            app_version=AppVersion("v1"),
            epoch=Epoch(1),
            lost_at=None,
            now=work.now,
        )
        await work.recoveries.insert(
            replace(
                record,
                next_attempt_at=work.now + span,
                order_deadline=work.now + 2 * span,
            )
        )


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 3 * SECOND, -3 * SECOND])
async def test_a_jump_moves_open_deadlines_along(scene: Scene, jump: timedelta) -> None:
    """Whoever had 280 s left has 280 s left, and the beginning has moved too."""
    await scene.set_grace(300 * SECOND)
    await scene.disconnect("e1", "c1")
    await scene.pass_time(20 * SECOND)
    scene.clock.jump(jump)
    await scene.turn()
    await scene.turn()

    row = await scene.row("e1")
    assert row.status is DISCONNECTED
    assert row.dead_after == scene.clock.now() + 280 * SECOND
    assert row.grace_started_at == scene.clock.now() - 20 * SECOND


async def test_a_jump_forward_kills_nobody(scene: Scene) -> None:
    """It may have been a suspended machine: the grace of a fault starts now."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(20 * SECOND)
    scene.clock.jump(HOUR)
    await scene.pass_time(FAULT_GRACE - SECOND)
    assert await scene.status("e1") is DISCONNECTED

    scene.connect("e1", "c2")
    await scene.pass_time(FAULT_GRACE)
    assert await scene.status("e1") is HEALTHY
    assert await scene.recoveries() == []


async def test_a_jump_back_spares_nobody(scene: Scene) -> None:
    """The dead are found when their grace has passed, not an hour later."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(20 * SECOND)
    scene.clock.jump(-HOUR)

    await scene.pass_time(9 * SECOND)
    assert await scene.status("e1") is DISCONNECTED
    await scene.pass_time(SECOND)
    assert await scene.status("e1") is DEAD


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_jump_moves_what_the_ledger_waits_for(
    scene: Scene, jump: timedelta
) -> None:
    """Nothing comes up an hour early, and nothing is put off for an hour."""
    await wait_in_the_ledger(scene, 100 * SECOND)
    await scene.pass_time(10 * SECOND)
    scene.clock.jump(jump)
    await scene.turn()

    [recovery] = await scene.recoveries()
    assert recovery.next_attempt_at == scene.clock.now() + 90 * SECOND
    assert recovery.order_deadline == scene.clock.now() + 190 * SECOND


async def test_what_the_ledger_wrote_after_a_jump_is_right_already(
    scene: Scene,
) -> None:
    """Otherwise it would be put off by the whole jump."""
    await scene.turn()
    scene.clock.jump(HOUR)
    await wait_in_the_ledger(scene, 100 * SECOND)
    await scene.turn()

    [recovery] = await scene.recoveries()
    assert recovery.next_attempt_at == scene.clock.now() + 100 * SECOND


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_loss_after_a_jump_has_its_own_grace(
    scene: Scene, jump: timedelta
) -> None:
    """What was moved is only what was written by the clock as it went before."""
    scene.connect("e1", "c1")
    await scene.disconnect("e2", "c2")
    scene.clock.jump(jump)
    scene.lose("e1", "c1")
    await scene.turn()
    await scene.turn()

    assert (await scene.row("e1")).dead_after == scene.clock.now() + GRACE


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_jump_is_audited_once_and_warned_of(
    scene: Scene, jump: timedelta
) -> None:
    """One entry an organization, of Relay itself, about no target."""
    await scene.disconnect("e1", "c1")
    scene.clock.jump(jump)
    with structlog.testing.capture_logs() as logs:
        await scene.pass_time(5 * SECOND)

    [entry] = [
        record.entry
        for record in await scene.audit()
        if record.entry.operation not in {"executor.connect", "executor.disconnect"}
    ]
    assert entry.operation == "clock.jump"
    assert entry.organization == "local"
    assert entry.subject.display == "Relay"
    assert entry.target is None
    assert entry.details == {"jump_secs": jump.total_seconds()}
    [warning] = [log for log in logs if log["event"] == "clock_jumped"]
    assert warning["log_level"] == "warning"
    assert warning["executors"] == 1


async def test_small_differences_are_no_jumps_however_many(scene: Scene) -> None:
    """Slewing moves no deadline, in either direction, and is not audited."""
    await scene.set_grace(300 * SECOND)
    await scene.disconnect("e1", "c1")
    before = await scene.row("e1")
    for _ in range(20):
        scene.clock.jump(SECOND / 2)
        await scene.pass_time(SECOND)

    assert await scene.row("e1") == before
    assert "clock.jump" not in await scene.operations()


async def test_a_jump_in_an_outage_is_followed_when_the_store_is_back(
    scene: Scene,
) -> None:
    """Before the first verdict, whatever the outage was."""
    await scene.set_grace(300 * SECOND)
    await scene.disconnect("e1", "c1")
    scene.store.is_down = True
    for _ in range(10):
        await scene.clock.advance(SECOND)
        with pytest.raises(StoreUnavailableError):
            await scene.turn()
    scene.clock.jump(HOUR)
    scene.store.is_down = False
    await scene.turn()
    await scene.turn()

    row = await scene.row("e1")
    assert row.dead_after == scene.clock.now() + 290 * SECOND


async def test_a_jump_that_could_not_be_followed_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is judged by the new clock as long as the deadlines are by the old."""

    async def refuse(self: DeadlineRepository, *args: object, **names: object) -> int:
        raise StoreUnavailableError("not now")

    await scene.disconnect("e1", "c1")
    scene.clock.jump(HOUR)
    with monkeypatch.context() as patch:
        patch.setattr(DeadlineRepository, "shift_recoveries", refuse)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await scene.turn()
    assert "clock.jump" not in await scene.operations()

    await scene.turn()
    await scene.turn()

    assert await scene.status("e1") is DISCONNECTED
    assert (await scene.operations()).count("clock.jump") == 1


async def test_a_slow_answer_is_no_jump(scene: Scene) -> None:
    """Three seconds between question and answer move nothing."""
    await scene.disconnect("e1", "c1")
    before = await scene.row("e1")
    scene.store.stall_next_read(3 * SECOND)
    async with scene.background(scene.turn()) as asked:
        await scene.until(lambda: scene.store.is_stalling)
        await scene.clock.advance(3 * SECOND)
        await scene.until(asked.done)
    await scene.turn()

    assert await scene.row("e1") == before
    assert "clock.jump" not in await scene.operations()


async def test_a_loss_behind_a_slow_answer_is_not_moved_back(scene: Scene) -> None:
    """Too slow an answer hides a jump; what is written by it is by the new clock."""
    scene.connect("e1", "c1")
    await scene.disconnect("e2", "c2")
    await scene.pass_time(10 * SECOND)
    scene.clock.jump(-3 * SECOND)
    scene.lose("e1", "c1")
    scene.store.stall_next_write(2 * SECOND)
    async with scene.background(scene.turn()) as asked:
        await scene.until(lambda: scene.store.is_stalling)
        await scene.clock.advance(2 * SECOND)
        await scene.until(asked.done)
    lost_at = scene.clock.now()
    await scene.pass_time(SECOND)

    assert "clock.jump" in await scene.operations()
    assert (await scene.row("e1")).dead_after == lost_at + GRACE
    assert (await scene.row("e2")).dead_after == lost_at - 12 * SECOND + GRACE
