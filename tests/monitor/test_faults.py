"""Restarts, outages, standstills and poison: nobody dies of Relay's own troubles."""

import pytest
import structlog

from relay.errors import StoreUnavailableError
from relay.liveness.states import ExecutorStatus
from relay.monitor.sweep import Sweep, Sweeper
from tests.monitor.scene import FAULT_GRACE, GRACE, SECOND, Scene

HEALTHY = ExecutorStatus.HEALTHY
DISCONNECTED = ExecutorStatus.DISCONNECTED
DEAD = ExecutorStatus.DEAD


async def test_a_restart_gives_everybody_the_grace_of_a_fault(scene: Scene) -> None:
    """Whoever was on line or in its grace gets 60 s from the start."""
    scene.connect("e1", "c1")
    await scene.disconnect("e2", "c2")
    await scene.clock.advance(600 * SECOND)
    await scene.restart()

    for executor in ("e1", "e2"):
        row = await scene.row(executor)
        assert row.status is DISCONNECTED
        assert row.dead_after == scene.clock.now() + FAULT_GRACE
        assert row.grace_is_fault
        assert row.unseen_starts == 1
    assert (await scene.audit())[-1].entry.details["reason"] == "relay_started"


async def test_a_restart_leaves_the_dead_dead(scene: Scene) -> None:
    """A start of Relay is no news about somebody who is dead."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE)
    before = await scene.row("e1")
    await scene.restart()

    assert await scene.row("e1") == before
    assert before.status is DEAD


async def test_a_restart_kills_nobody_who_redials(scene: Scene) -> None:
    """Away for ten minutes with Relay, back within the grace: no recovery."""
    scene.connect("e1", "c1")
    await scene.turn()
    await scene.clock.advance(600 * SECOND)
    await scene.restart()
    await scene.pass_time(FAULT_GRACE - SECOND)
    scene.connect("e1", "c2")
    await scene.pass_time(FAULT_GRACE)

    assert await scene.status("e1") is HEALTHY
    assert await scene.recoveries() == []


async def test_three_unseen_starts_are_enough(scene: Scene) -> None:
    """A Relay that restarts every 50 s still finds the dead, and says why."""
    scene.connect("e1", "c1")
    await scene.turn()
    for _ in range(3):
        await scene.pass_time(50 * SECOND)
        await scene.restart()
    last_chance = (await scene.row("e1")).dead_after

    await scene.pass_time(50 * SECOND)
    with structlog.testing.capture_logs() as logs:
        await scene.restart()
    assert (await scene.row("e1")).dead_after == last_chance
    assert [log["unseen_starts"] for log in logs if log["event"] == "executor_unseen"]
    await scene.pass_time(10 * SECOND)
    assert await scene.status("e1") is DEAD


async def test_being_seen_resets_the_count_of_starts(scene: Scene) -> None:
    """An executor that returns after each restart may be away after each restart."""
    for start in range(6):
        scene.connect("e1", f"c{start}")
        await scene.turn()
        await scene.restart()
        await scene.pass_time(10 * SECOND)

    assert (await scene.row("e1")).unseen_starts == 1


async def test_start_waits_for_the_store(scene: Scene) -> None:
    """A store that is away at the start delays it, and nothing is skipped."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.store.is_down = True
    scene.sockets.open.clear()
    scene.monitor = scene.new_monitor()
    async with scene.background(scene.monitor.start()) as started:
        await scene.clock.advance(20 * SECOND)
        assert not started.done()

        scene.store.is_down = False
        await scene.until(started.done, advance=True)

    assert await scene.status("e1") is DISCONNECTED


async def test_an_outage_of_the_store_kills_nobody(scene: Scene) -> None:
    """When the store returns, a deadline that passed meanwhile is raised first."""
    await scene.disconnect("e1", "c1")
    async with scene.background(scene.monitor.run()):
        scene.store.is_down = True
        await scene.clock.advance(300 * SECOND)
        scene.store.is_down = False
        returned = scene.clock.now()
        await scene.until_raised("e1")
    # The loop may have ended between raising and noting it: that is done again once.
    await scene.turn()

    row = await scene.row("e1")
    assert row.status is DISCONNECTED
    assert row.dead_after is not None
    assert row.dead_after >= returned + FAULT_GRACE

    await scene.pass_time(row.dead_after - scene.clock.now() + SECOND)
    assert await scene.status("e1") is DEAD


async def test_a_short_outage_of_the_store_raises_deadlines_too(scene: Scene) -> None:
    """Whoever redialled in it may have been refused, however short it was."""
    await scene.disconnect("e1", "c1")
    scene.store.is_down = True
    async with scene.background(scene.monitor.run()):
        await scene.clock.advance(SECOND)
        scene.store.is_down = False
        returned = scene.clock.now()
        await scene.clock.advance(SECOND)
        await scene.until_deadline("e1", not_before=returned + FAULT_GRACE)

    assert (await scene.row("e1")).grace_is_fault


async def test_the_end_of_a_long_outage_is_noticed_soon(scene: Scene) -> None:
    """However long the store was away, what waits is written within five seconds."""
    scene.store.is_down = True
    scene.connect("e1", "c1")
    async with scene.background(scene.monitor.run()):
        await scene.clock.advance(300 * SECOND)
        scene.store.is_down = False
        await scene.clock.advance(5 * SECOND)
        await scene.until_row("e1")


async def test_news_waits_for_the_store(scene: Scene) -> None:
    """What happened during an outage is written after it, in order."""
    scene.store.is_down = True
    scene.connect("e1", "c1")
    with pytest.raises(StoreUnavailableError):
        await scene.turn()
    scene.lose("e1", "c1")
    scene.connect("e1", "c2")
    with pytest.raises(StoreUnavailableError):
        await scene.turn()

    scene.store.is_down = False
    await scene.turn()

    row = await scene.row("e1")
    assert (row.status, row.connection_id, row.epoch) == (HEALTHY, "c2", 2)


async def test_a_store_that_takes_nothing_is_told_of(scene: Scene) -> None:
    """Whoever asks hears why, until what happened meanwhile is written."""

    def is_told() -> bool:
        try:
            scene.monitor.check_writing()
        except StoreUnavailableError as error:
            return error.reason == "switched off"
        return False

    scene.connect("e1", "c1")
    scene.store.is_down = True
    async with scene.background(scene.monitor.run()):
        await scene.until(is_told)
        scene.store.is_down = False
        await scene.until(lambda: not is_told(), advance=True)

    assert await scene.status("e1") is HEALTHY


async def test_a_standstill_of_relay_kills_nobody(scene: Scene) -> None:
    """Deadlines that passed while nobody looked are raised before they are judged."""
    await scene.disconnect("e1", "c1")
    await scene.clock.advance(120 * SECOND)
    await scene.turn()

    row = await scene.row("e1")
    assert row.status is DISCONNECTED
    assert row.dead_after == scene.clock.now() + FAULT_GRACE


async def test_a_standstill_of_the_store_kills_nobody(scene: Scene) -> None:
    """An answer that took minutes is no ground for a verdict."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE - SECOND)
    scene.store.stall_next_read(120 * SECOND)
    async with scene.background(scene.turn()) as asked:
        await scene.until(lambda: scene.store.is_stalling)
        await scene.clock.advance(120 * SECOND)
        await scene.until(asked.done)
    assert await scene.status("e1") is DISCONNECTED

    await scene.turn()
    assert await scene.status("e1") is DISCONNECTED


async def test_poison_does_not_hold_up_the_others(scene: Scene) -> None:
    """What cannot be written is dropped and logged; the rest of its batch is not."""
    scene.connect("e1", "c1")
    scene.connect("bad", "c2", hostname=object())  # type: ignore[arg-type]  # poison
    scene.connect("e3", "c3")
    with structlog.testing.capture_logs() as logs:
        await scene.turn()

    assert await scene.status("e1") is HEALTHY
    assert await scene.status("e3") is HEALTHY
    assert await scene.find("bad") is None
    [dropped] = [log for log in logs if log["event"] == "news_dropped"]
    assert dropped["executor_id"] == "bad"
    assert dropped["exc_info"]


async def test_run_survives_an_unexpected_failure(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in one turn is logged, and the next turn takes place."""
    failures = iter([ArithmeticError("a defect")])
    sweep = Sweeper.sweep

    async def fail_once(self: Sweeper) -> Sweep:
        for failure in failures:
            raise failure
        return await sweep(self)

    monkeypatch.setattr(Sweeper, "sweep", fail_once)
    with structlog.testing.capture_logs() as logs:
        async with scene.background(scene.monitor.run()):
            scene.connect("e1", "c1")
            await scene.until_row("e1", advance=True)
            scene.lose("e1", "c1")
            await scene.until_status("e1", DISCONNECTED, advance=True)

    assert any(log["event"] == "monitor_failed" for log in logs)


async def test_run_writes_news_without_waiting_for_a_second(scene: Scene) -> None:
    """The inbox wakes the loop; no time has to pass."""
    async with scene.background(scene.monitor.run()):
        scene.connect("e1", "c1")
        await scene.until_row("e1")

        scene.lose("e1", "c1")
        await scene.until_status("e1", DISCONNECTED)


async def test_run_looks_at_moved_deadlines_at_once(scene: Scene) -> None:
    """After a PATCH the deadline is judged without waiting for the next second."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(10 * SECOND)
    async with scene.background(scene.monitor.run()):
        await scene.set_grace(5 * SECOND)
        await scene.until_status("e1", DEAD)


async def test_finish_writes_what_is_noted(scene: Scene) -> None:
    """The departures of a drain are in the rows when Relay stops."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.lose("e1", "c1", is_fault=True)
    await scene.monitor.finish()

    assert await scene.status("e1") is DISCONNECTED


async def test_finish_says_that_last_seen_times_are_lost(scene: Scene) -> None:
    """With nothing else to write, an unreachable store costs one line."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.store.is_down = True
    with structlog.testing.capture_logs() as logs:
        await scene.monitor.finish()

    assert [log["event"] for log in logs] == ["last_seen_not_written"]


async def test_finish_ends_although_the_store_does_not_answer(scene: Scene) -> None:
    """A stop is bounded: it gives up with a line that says what is lost."""
    scene.connect("e1", "c1")
    scene.store.is_down = True
    with structlog.testing.capture_logs() as logs:
        async with scene.background(scene.monitor.finish()) as finished:
            await scene.clock.advance(15 * SECOND)
            await scene.until(finished.done)

    [log] = [log for log in logs if log["event"] == "monitor_stopped_early"]
    assert log["unwritten"] == 1
