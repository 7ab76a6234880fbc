"""Whom Relay believes alive: idle, cut off for a moment, or while Relay is away."""

from datetime import timedelta

import pytest

from tests.acceptance.environments import SDKS, Sdk, skip_without
from tests.acceptance.processes import CLOCK, until
from tests.acceptance.proxy import open_proxy
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_an_idle_executor_stays_connected(stage: Stage, sdk: Sdk) -> None:
    """An executor with nothing to do keeps its first socket for over a minute."""
    skip_without(sdk)
    relay = await stage.relay()
    executor = await stage.executor(sdk, "idle", relay=relay)

    await CLOCK.sleep(timedelta(seconds=66))

    assert await relay.executors("loop") == {executor.executor_id: "HEALTHY"}
    operations = [entry["operation"] for entry in await relay.audit()]
    assert operations.count("executor.connect") == 1
    assert "executor.disconnect" not in operations


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_a_return_within_the_grace_period_starts_no_recovery(
    stage: Stage, sdk: Sdk
) -> None:
    """Cut in mid-step: DISCONNECTED, then HEALTHY again, and nothing runs twice."""
    skip_without(sdk)
    relay = await stage.relay()
    async with open_proxy(relay.port) as proxy:
        worker = await stage.executor(sdk, "worker", relay=proxy.url)
        await relay.status_is("loop", worker.executor_id, "HEALTHY", within=15)
        await stage.executor(sdk, "peer", relay=relay)
        await relay.configure("loop", executorTimeoutSecs=10)
        await worker.begin("w", steps=4, seconds=1)
        await stage.steps.reached("w", 2, within=20)

        proxy.cut()

        await stage.succeeded("w", within=30)
        await relay.status_is("loop", worker.executor_id, "HEALTHY", within=15)
        await CLOCK.sleep(timedelta(seconds=11))
        operations = [entry["operation"] for entry in await relay.audit()]
        assert "executor.disconnect" in operations
        assert "executor.reconnect" in operations
        assert "executor.dead" not in operations
        assert await relay.recoveries("loop") == []
        assert set(stage.steps.count_begun("w").values()) == {1}


@pytest.mark.parametrize("sdk", SDKS, ids=str)
@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_restart_of_relay_makes_nobody_dead(
    stage: Stage, sdk: Sdk, end: str
) -> None:
    """Relay killed or stopped and started again: all executors return, none is DEAD."""
    skip_without(sdk)
    relay = await stage.relay()
    worker = await stage.executor(sdk, "worker", relay=relay)
    peer = await stage.executor(sdk, "peer", relay=relay)
    await relay.configure("loop", executorTimeoutSecs=1)
    await worker.begin("w", steps=8, seconds=1)
    await stage.steps.reached("w", 2, within=20)

    await (relay.kill() if end == "kill" else relay.terminate())
    assert relay.exit_code == (-9 if end == "kill" else 0)
    await CLOCK.sleep(timedelta(seconds=2))
    await relay.start()

    for executor in (worker, peer):
        await relay.status_is("loop", executor.executor_id, "HEALTHY", within=15)
    await stage.succeeded("w", within=30)
    await CLOCK.sleep(timedelta(seconds=10))
    assert set((await relay.executors("loop")).values()) == {"HEALTHY"}
    operations = [entry["operation"] for entry in await relay.audit()]
    assert "executor.dead" not in operations
    assert await relay.recoveries("loop") == []
    assert set(stage.steps.count_begun("w").values()) == {1}


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
    """With the default hold of 30 s a DEAD executor waits for it, and no longer."""
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


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_a_patch_of_the_timeout_moves_an_open_deadline(
    stage: Stage, sdk: Sdk
) -> None:
    """A shorter executorTimeoutSecs applies to who is DISCONNECTED already."""
    skip_without(sdk)
    relay = await stage.relay()
    victim = await stage.executor(sdk, "victim", relay=relay)
    await stage.executor(sdk, "peer", relay=relay)
    await relay.configure("loop", executorTimeoutSecs=3600)
    await victim.kill()
    await relay.status_is("loop", victim.executor_id, "DISCONNECTED", within=10)

    await relay.configure("loop", executorTimeoutSecs=1)

    await relay.status_is("loop", victim.executor_id, None, within=20)
