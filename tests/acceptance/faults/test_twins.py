"""Two live processes that call themselves by one executor id."""

from datetime import timedelta

import pytest

from tests.acceptance.environments import PYTHON
from tests.acceptance.processes import CLOCK, RelayProcess
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance

TWIN = "twin"
GRACE_SECS = 3


async def test_two_processes_with_one_id_do_not_fight_and_die_together(
    stage: Stage,
) -> None:
    """
    Both stay connected; the id is DEAD when the second one has gone, and only once.

    About 35 s. Each would dial again a second after the other one had thrown it out.
    """
    sdk = PYTHON[0]
    relay = await stage.relay()
    peer = await stage.executor(sdk, "peer", relay=relay)
    first = await stage.executor(sdk, "first", relay=relay, executor_id=TWIN)
    second = await stage.executor(sdk, "second", relay=relay, executor_id=TWIN)
    await relay.configure("loop", executorTimeoutSecs=GRACE_SECS)

    collision = await relay.wait_for("executor.collision", within=20)
    before = await _count_arrivals(relay)
    await CLOCK.sleep(timedelta(seconds=10))

    assert collision["details"]["executor_id"] == TWIN
    assert await relay.count_of("executor.collision") == 1
    assert await _count_arrivals(relay) == before
    assert await _is_colliding(relay)

    await first.begin("w", steps=30, seconds=1)
    await stage.steps.reached("w", 2, within=20)
    await first.kill()
    await CLOCK.sleep(timedelta(seconds=GRACE_SECS + 3))
    assert await relay.executors("loop") == {
        TWIN: "HEALTHY",
        peer.executor_id: "HEALTHY",
    }
    assert not await _is_colliding(relay)
    assert await relay.count_of("executor.dead") == 0

    await second.kill()

    await stage.steps.reached("w", 4, within=30)
    await relay.status_is("loop", TWIN, None, within=20)
    assert stage.steps.executors_of("begin", "w")[4] == [peer.executor_id]
    assert await relay.count_of("executor.dead") == 1
    assert await relay.count_of("recovery.order") == 1
    assert await relay.executors("loop") == {peer.executor_id: "HEALTHY"}


async def _count_arrivals(relay: RelayProcess) -> int:
    told = ("executor.connect", "executor.reconnect", "executor.disconnect")
    return sum([await relay.count_of(operation) for operation in told])


async def _is_colliding(relay: RelayProcess) -> bool:
    shown = await relay.http.get("/relay/v1/orgs/local/apps/loop/executors")
    assert shown.status_code == 200, shown.text
    return {row["executorId"]: row["collision"] for row in shown.json()}[TWIN] is True
