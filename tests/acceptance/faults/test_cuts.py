"""Connections that are reset: all at once, and again and again."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import pytest

from tests.acceptance.environments import PYTHON
from tests.acceptance.fleet import open_fleet
from tests.acceptance.processes import CLOCK
from tests.acceptance.proxy import open_proxy
from tests.acceptance.stage import Stage
from tests.acceptance.verdicts import each_step_began_once, nobody_died

pytestmark = pytest.mark.acceptance

STEPS = 25


async def test_a_mass_cut_makes_nobody_dead(
    stage: Stage, store_settings: Mapping[str, str]
) -> None:
    """
    200 sockets end at once, twice; the clients dial 1 to 5 s later, and that is it.

    About 30 s.
    """
    relay = await stage.relay(**store_settings)
    async with (
        open_proxy(relay.port) as proxy,
        open_fleet(proxy.url, 200, redial=(1.0, 5.0)) as fleet,
    ):
        worker = await stage.executor(PYTHON[0], "worker", relay=relay, through=proxy)
        await fleet.is_healthy(relay, within=30)
        for application in ("loop", "fleet"):
            await relay.configure(application, executorTimeoutSecs=10)
        await worker.begin("w", steps=STEPS, seconds=1)
        await stage.steps.reached("w", 2, within=20)

        for cut in (1, 2):
            proxy.reset()
            await relay.status_is("loop", worker.executor_id, "DISCONNECTED", within=5)
            await fleet.is_back(relay, dialled=1 + cut, within=15)
            await relay.status_is("loop", worker.executor_id, "HEALTHY", within=5)

        await stage.succeeded("w", within=40)
        assert each_step_began_once(stage, "w", STEPS)
        assert await nobody_died(relay)


async def test_a_flapping_link_makes_nobody_dead(stage: Stage) -> None:
    """
    A link that is reset every 2 s for 20 s: work goes on, and it is told once.

    About 35 s, with a grace that is shorter than the flapping.
    """
    relay = await stage.relay()
    async with open_proxy(relay.port) as proxy:
        worker = await stage.executor(PYTHON[0], "worker", relay=relay, through=proxy)
        peer = await stage.executor(PYTHON[0], "peer", relay=relay)
        await relay.configure("loop", executorTimeoutSecs=10)
        await worker.begin("w", steps=STEPS, seconds=1)
        await stage.steps.reached("w", 2, within=20)

        for _ in range(10):
            proxy.reset()
            await CLOCK.sleep(timedelta(seconds=2))

        await relay.status_is("loop", worker.executor_id, "HEALTHY", within=10)
        await stage.succeeded("w", within=20)
        assert each_step_began_once(stage, "w", STEPS)
        assert await relay.executors("loop") == {
            worker.executor_id: "HEALTHY",
            peer.executor_id: "HEALTHY",
        }
        assert await nobody_died(relay)
        [told] = await relay.audit(operation="executor.flapping")
        assert told["details"]["executor_id"] == worker.executor_id
        history = Counter(
            entry["operation"]
            for entry in await relay.audit(limit="1000")
            if entry["details"].get("executor_id") == worker.executor_id
        )
        assert history == {
            "executor.connect": 1,
            "executor.disconnect": told["details"]["cuts"],
            "executor.reconnect": told["details"]["cuts"] - 1,
            "executor.flapping": 1,
        }
