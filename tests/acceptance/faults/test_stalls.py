"""Processes that stand still for 40 s and go on: Relay, and executors."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from tests.acceptance.companies import Company
from tests.acceptance.fleet import open_fleet
from tests.acceptance.processes import CLOCK
from tests.acceptance.stage import Stage
from tests.acceptance.verdicts import each_step_began_once, nobody_died

pytestmark = pytest.mark.acceptance

STALL = timedelta(seconds=40)
STEPS = 50


async def test_a_stall_of_relay_makes_nobody_dead(
    stage: Stage, company: Company, store_settings: Mapping[str, str]
) -> None:
    """
    SIGSTOP to Relay for longer than the grace: all are HEALTHY afterwards.

    About 60 s. A part of the fleet hangs up a moment before, so that its deadlines pass
    meanwhile, and another part while Relay cannot see it; all of them dial in vain.
    """
    relay = await stage.relay(RELAY_FAULT_GRACE_SECS="60", **store_settings)
    workers = await company.enter("worker", relay)
    async with open_fleet(relay.url, 50, redial=(2.0, 5.0)) as fleet:
        await fleet.is_healthy(relay, within=20)
        await company.configure(relay, executorTimeoutSecs=30)
        await relay.configure("fleet", executorTimeoutSecs=30)
        await company.begin(workers, steps=STEPS, seconds=1)
        await company.reached(2, within=20)

        fleet.hang_up(fleet.ids[:15])
        await fleet.is_missed(relay, fleet.ids[:15], within=5)
        relay.pause()
        await CLOCK.sleep(timedelta(seconds=1))
        fleet.hang_up(fleet.ids[15:30])
        await CLOCK.sleep(STALL)
        relay.resume()

        await fleet.is_healthy(relay, within=30)
        await company.all_are(relay, workers, "HEALTHY", within=30)
        await company.succeeded(within=30)
        for name in workers:
            assert each_step_began_once(stage, name, STEPS)
        assert await nobody_died(relay)


async def test_a_stall_of_executors_within_their_grace_costs_nothing(
    stage: Stage, company: Company
) -> None:
    """
    SIGSTOP to executors for 40 s of a grace of 60 s: they go on where they stood.

    About 60 s. Silence is noticed after 25 s, as by default.
    """
    relay = await stage.relay()
    workers = await company.enter("worker", relay)
    await company.enter("peer", relay)
    await company.configure(relay, executorTimeoutSecs=60)
    await company.begin(workers, steps=10, seconds=1)
    await company.reached(2, within=20)

    for executor in workers.values():
        executor.pause()
    await CLOCK.sleep(STALL)
    for name, executor in workers.items():
        assert (await relay.executors(name))[executor.executor_id] == "DISCONNECTED"
        executor.resume()

    await company.all_are(relay, workers, "HEALTHY", within=20)
    await company.succeeded(within=20)
    for name in workers:
        assert each_step_began_once(stage, name, 10)
    assert await nobody_died(relay)
