"""Last-seen times, the reconciliation of rows and sockets, the gauge."""

import pytest

from relay.ids import ConnectionId
from relay.liveness.states import ExecutorStatus
from relay.monitor import flush
from tests.monitor.scene import GRACE, SECOND, Scene

HEALTHY = ExecutorStatus.HEALTHY
DISCONNECTED = ExecutorStatus.DISCONNECTED


async def test_last_seen_times_follow_again_and_again(scene: Scene) -> None:
    """The row of a connected executor is brought up to date while Relay runs."""
    scene.connect("e1", "c1")
    async with scene.background(scene.monitor.run()):
        await scene.until_row("e1")
        began = scene.clock.now()
        await scene.until_seen("e1", after=began + 20 * SECOND)


async def test_last_seen_times_are_written_at_the_end(scene: Scene) -> None:
    """A stop of Relay loses none of them."""
    scene.connect("e1", "c1")
    await scene.turn()
    await scene.clock.advance(10 * SECOND)
    await scene.monitor.finish()

    assert (await scene.row("e1")).last_seen_at == scene.clock.now()


async def test_a_loss_that_was_never_recorded_is_found(scene: Scene) -> None:
    """A row that says on line without a socket gets the grace of a fault."""
    scene.connect("e1", "c1")
    await scene.turn()
    del scene.sockets.open[ConnectionId("c1")]
    async with scene.background(scene.monitor.run()):
        await scene.until_status("e1", DISCONNECTED, advance=True)

    loss = (await scene.audit())[-1].entry.details
    assert loss["reason"] == "not_noticed"
    assert (loss["is_fault"], loss["grace_secs"]) == (True, 60)


async def test_an_arrival_that_was_never_recorded_is_found(scene: Scene) -> None:
    """A socket without a row that says so is brought on record."""
    scene.connect("e1", "c1")
    scene.monitor = scene.new_monitor()  # and with it goes the noted arrival
    async with scene.background(scene.monitor.run()):
        await scene.until_row("e1", advance=True)

    row = await scene.row("e1")
    assert (row.status, row.connection_id) == (HEALTHY, "c1")


async def test_a_fleet_is_compared_page_by_page(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many pages its rows are, what was missed is found and nothing else."""
    monkeypatch.setattr(flush, "PAGE", 2)
    for number in range(5):
        scene.connect(f"e{number}", f"c{number}")
    await scene.turn()
    del scene.sockets.open[ConnectionId("c4")]
    scene.connect("e1", "c-new")
    scene.monitor = scene.new_monitor()  # and with it goes the noted arrival
    async with scene.background(scene.monitor.run()):
        await scene.until_status("e4", DISCONNECTED, advance=True)

    assert (await scene.row("e1")).connection_id == "c-new"
    assert (await scene.operations())[5:] == [
        "executor.disconnect",
        "executor.reconnect",
    ]


async def test_rows_that_match_their_sockets_are_left_alone(scene: Scene) -> None:
    """Reconciling what is right changes no row and audits nothing."""
    scene.connect("e1", "c1")
    await scene.turn()
    before = await scene.operations()
    async with scene.background(scene.monitor.run()):
        for _ in range(5):
            await scene.clock.advance(31 * SECOND)
            await scene.store.ping()

    row = await scene.row("e1")
    assert (row.status, row.epoch) == (HEALTHY, 1)
    assert await scene.operations() == before


async def test_gauge_shows_executors_by_status(scene: Scene) -> None:
    """Every status has a figure, and it follows the rows."""
    scene.connect("e1", "c1")
    await scene.disconnect("e2", "c2")
    await scene.pass_time(GRACE)

    def figures() -> list[float | None]:
        return [
            scene.metrics.registry.get_sample_value(
                "relay_executors", {"status": status.value}
            )
            for status in (HEALTHY, DISCONNECTED, ExecutorStatus.DEAD)
        ]

    async with scene.background(scene.monitor.run()):
        await scene.until(lambda: figures() == [1, 0, 1])
        scene.lose("e1", "c1")
        await scene.until(lambda: figures() == [0, 1, 1], advance=True)
