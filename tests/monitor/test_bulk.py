"""Ten thousand at once."""

from relay.liveness.states import ExecutorStatus
from relay.monitor.monitor import BATCH
from tests.monitor.scene import Scene

MANY = 10_000


async def test_ten_thousand_arrivals_are_written_in_chunks(scene: Scene) -> None:
    """Each executor has its row and its audit entry, and no transaction is huge."""
    for number in range(MANY):
        scene.connect(f"e{number}", f"c{number}")
    writes = scene.store.writes
    await scene.monitor.finish()

    assert scene.store.writes - writes >= MANY // BATCH
    async with scene.store.read() as work:
        counts = await work.executors.count_by_status()
    assert counts[ExecutorStatus.HEALTHY] == MANY
    assert (await scene.operations()).count("executor.connect") == MANY
