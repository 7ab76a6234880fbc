"""Executors that came in before their application had a row."""

from relay.hub.events import Loss
from relay.ids import ConnectionId
from relay.liveness.states import ExecutorStatus
from tests.monitor.scene import APPLICATION, Scene


async def test_an_application_is_registered_before_its_executors_are_recorded(
    scene: Scene,
) -> None:
    """The store was away when they came; now nobody has to leave for it."""
    async with scene.database.write() as work:
        record = await work.applications.find_by_id(APPLICATION.id)
        assert record is not None
        await work.applications.delete(APPLICATION.id)
    scene.newcomers.waiting[APPLICATION.id] = record
    scene.connect("e1", "c1")

    await scene.turn()

    assert (await scene.row("e1")).status is ExecutorStatus.HEALTHY
    assert scene.sockets.closed == []


async def test_executors_of_a_newcomer_that_got_no_row_are_shown_out(
    scene: Scene,
) -> None:
    """Another application has the name, or it was deleted: they redial and hear so."""
    async with scene.database.write() as work:
        await work.applications.delete(APPLICATION.id)
    scene.connect("e1", "c1")

    await scene.turn()

    assert scene.sockets.closed == [(ConnectionId("c1"), Loss.DELETED)]
