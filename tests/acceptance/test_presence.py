"""Whom Relay believes alive: idle, cut off for a moment, or while Relay is away."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from tests.acceptance.companies import Company
from tests.acceptance.environments import SDKS
from tests.acceptance.fleet import open_fleet
from tests.acceptance.processes import CLOCK, until
from tests.acceptance.proxy import open_proxy
from tests.acceptance.stage import Stage
from tests.acceptance.verdicts import each_step_began_once, nobody_died

pytestmark = pytest.mark.acceptance


async def test_idle_executors_stay_connected(stage: Stage, everybody: Company) -> None:
    """
    An executor with nothing to do keeps its first socket for over a minute.

    About 75 s.
    """
    relay = await stage.relay()
    members = await everybody.enter("idle", relay)

    await CLOCK.sleep(timedelta(seconds=66))

    for name, executor in members.items():
        assert await relay.executors(name) == {executor.executor_id: "HEALTHY"}
    assert await relay.count_of("executor.connect") == len(members)
    assert await relay.count_of("executor.disconnect") == 0


async def test_a_return_within_the_grace_period_starts_no_recovery(
    stage: Stage, everybody: Company
) -> None:
    """
    Cut in mid-step: DISCONNECTED, then HEALTHY again, and nothing runs twice.

    About 30 s.
    """
    relay = await stage.relay()
    async with open_proxy(relay.port) as proxy:
        workers = await everybody.enter("worker", relay, through=proxy)
        await everybody.enter("peer", relay)
        await everybody.configure(relay, executorTimeoutSecs=10)
        await everybody.begin(workers, steps=6, seconds=1)
        await everybody.reached(2, within=20)

        proxy.reset()

        await everybody.succeeded(within=30)
        await everybody.all_are(relay, workers, "HEALTHY", within=15)
        await CLOCK.sleep(timedelta(seconds=11))
        for operation in ("executor.disconnect", "executor.reconnect"):
            assert await relay.count_of(operation) == len(workers)
        assert await nobody_died(relay)
        for name in workers:
            assert await relay.recoveries(name) == []
            assert each_step_began_once(stage, name, 6)


async def test_restarts_of_relay_make_nobody_dead(
    stage: Stage, everybody: Company, store_settings: Mapping[str, str]
) -> None:
    """
    Killed and started, stopped and started: all executors return, and 200 at once.

    About 130 s. The grace of their applications is shorter than Relay is away, that
    after a start is the default: all of them dial every second meanwhile, but Go, which
    waits twice as long each time, 45 s at most.
    """
    grace = timedelta(seconds=60)
    settings = {**store_settings, "RELAY_FAULT_GRACE_SECS": f"{grace.seconds}"}
    relay = await stage.relay(**settings)
    workers = await everybody.enter("worker", relay)
    peers = await everybody.enter("peer", relay)
    async with open_fleet(relay.url, 200) as fleet:
        await fleet.is_healthy(relay, within=30)
        await everybody.configure(relay, executorTimeoutSecs=1)
        await relay.configure("fleet", executorTimeoutSecs=1)
        await everybody.begin(workers, steps=90, seconds=1)
        await everybody.reached(2, within=20)

        for end, exit_code in ((relay.kill, -9), (relay.terminate, 0)):
            await end()
            assert relay.exit_code == exit_code
            await CLOCK.sleep(timedelta(seconds=2))
            await relay.start()

            for members in (workers, peers):
                await everybody.all_are(relay, members, "HEALTHY", within=60)
            await fleet.is_healthy(relay, within=15)

        await CLOCK.sleep(grace)
        await everybody.succeeded(within=60)
        for name in workers:
            assert set((await relay.executors(name)).values()) == {"HEALTHY"}
            assert await relay.recoveries(name) == []
            assert each_step_began_once(stage, name, 90)
        assert set((await relay.executors("fleet")).values()) == {"HEALTHY"}
        assert await nobody_died(relay)


async def test_an_executor_that_died_while_relay_was_away_is_recovered(
    stage: Stage,
) -> None:
    """A death during a restart of Relay is found out after it, and its work is done."""
    sdk = SDKS[0]
    relay = await stage.relay(RELAY_FAULT_GRACE_SECS="4")
    victim = await stage.executor(sdk, "victim", relay=relay)
    peer = await stage.executor(sdk, "peer", relay=relay)
    await relay.configure("loop", executorTimeoutSecs=1)
    await victim.begin("w", steps=4, seconds=1)
    await stage.steps.reached("w", 2, within=20)

    await relay.kill()
    await victim.kill()
    await relay.start()

    await stage.succeeded("w", within=60)
    await relay.status_is("loop", victim.executor_id, None, within=20)
    assert await relay.executors("loop") == {peer.executor_id: "HEALTHY"}


async def test_nothing_is_ordered_within_the_hold_after_a_restart(
    stage: Stage,
) -> None:
    """
    With the default hold of 30 s a DEAD executor waits for it, and no longer.

    About 45 s.
    """
    sdk = SDKS[0]
    relay = await stage.relay(RELAY_START_HOLD_SECS="", RELAY_FAULT_GRACE_SECS="4")
    victim = await stage.executor(sdk, "victim", relay=relay)
    await stage.executor(sdk, "peer", relay=relay)
    await relay.configure("loop", executorTimeoutSecs=1)
    await victim.begin("w", steps=4, seconds=1)
    await stage.steps.reached("w", 2, within=20)
    await relay.kill()
    await victim.kill()

    restarted = CLOCK.monotonic()
    await relay.start()
    await relay.status_is("loop", victim.executor_id, "DEAD", within=20)

    async def is_ordered() -> bool:
        entries = await relay.audit()
        return any(entry["operation"] == "recovery.order" for entry in entries)

    await until("its work is ordered", is_ordered, within=45)
    assert CLOCK.monotonic() - restarted >= 30
    await stage.succeeded("w", within=30)


async def test_a_patch_of_the_timeout_moves_an_open_deadline(
    stage: Stage, everybody: Company
) -> None:
    """
    A shorter executorTimeoutSecs applies to who is DISCONNECTED already.

    About 15 s.
    """
    relay = await stage.relay()
    victims = await everybody.enter("victim", relay)
    await everybody.enter("peer", relay)
    await everybody.configure(relay, executorTimeoutSecs=3600)
    for victim in victims.values():
        await victim.kill()
    await everybody.all_are(relay, victims, "DISCONNECTED", within=10)

    await everybody.configure(relay, executorTimeoutSecs=1)

    await everybody.all_are(relay, victims, None, within=20)
