"""A link that carries nothing, in one direction or in both, while TCP keeps it open."""

import pytest

from tests.acceptance.companies import Company
from tests.acceptance.environments import PYTHON
from tests.acceptance.proxy import Drop, open_proxy
from tests.acceptance.stage import SHARP, Stage
from tests.acceptance.verdicts import each_step_began_once, nobody_died

pytestmark = pytest.mark.acceptance

STEPS = 12


@pytest.mark.parametrize("is_down_too", [True, False], ids=["both ways", "upwards"])
async def test_who_returns_within_the_grace_was_never_dead(
    stage: Stage, everybody: Company, *, is_down_too: bool
) -> None:
    """
    Silence is DISCONNECTED, the return HEALTHY, and their work goes on all the while.

    About 20 s.
    """
    relay = await stage.relay(**SHARP)
    async with open_proxy(relay.port) as proxy:
        workers = await everybody.enter("worker", relay, through=proxy)
        await everybody.enter("peer", relay)
        await everybody.configure(relay, executorTimeoutSecs=60)
        await everybody.begin(workers, steps=STEPS, seconds=1)
        await everybody.reached(2, within=20)

        proxy.degrade(up=Drop(), down=Drop() if is_down_too else None)

        await everybody.all_are(relay, workers, "DISCONNECTED", within=10)
        await everybody.reached(STEPS - 2, within=20)
        for name, worker in workers.items():
            shown = await relay.executors(name)
            assert shown[worker.executor_id] == "DISCONNECTED", name
        proxy.heal()
        await everybody.all_are(relay, workers, "HEALTHY", within=20)
        await everybody.succeeded(within=20)
        for name in workers:
            assert each_step_began_once(stage, name, STEPS)
        assert await relay.count_of("executor.reconnect") >= len(workers)
        assert await nobody_died(relay)


async def test_an_order_into_a_link_that_is_deaf_is_made_up_for(stage: Stage) -> None:
    """
    The only peer pings but hears nothing: it stays, and does the work when it can.

    About 60 s: its SDK gives the link up after 40 to 46 s, and dials a new one.
    """
    sdk = PYTHON[0]
    relay = await stage.relay()
    async with open_proxy(relay.port) as proxy:
        victim = await stage.executor(sdk, "victim", relay=relay)
        peer = await stage.executor(sdk, "peer", relay=relay, through=proxy)
        await relay.configure("loop", executorTimeoutSecs=10)
        await victim.begin("w", steps=4, seconds=1)
        await stage.steps.reached("w", 2, within=20)

        proxy.degrade(down=Drop(), to_new=False)
        await victim.kill()

        await relay.status_is("loop", victim.executor_id, "DEAD", within=20)
        assert (await relay.executors("loop"))[peer.executor_id] == "HEALTHY"
        await stage.succeeded("w", within=90)
        await relay.status_is("loop", victim.executor_id, None, within=30)
        assert await relay.executors("loop") == {peer.executor_id: "HEALTHY"}
        assert await relay.count_of("executor.dead") == 1
        begun = stage.steps.executors_of("begin", "w")
        assert begun[1] == [victim.executor_id]
        assert begun[4] == [peer.executor_id]
