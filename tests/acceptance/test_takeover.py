"""The main job: an executor dies in the middle of a step, a peer finishes its work."""

import pytest

from tests.acceptance.environments import JAVA, PYTHON, SDKS, Sdk, skip_without
from tests.acceptance.processes import ExecutorProcess, RelayProcess
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance

STEPS = 5


@pytest.mark.parametrize("end", ["kill", "terminate"])
@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_a_peer_finishes_the_work_of_a_dead_executor(
    stage: Stage, sdk: Sdk, end: str
) -> None:
    """SIGKILL or SIGTERM in mid-step: SUCCESS on the peer, each finished step once."""
    skip_without(sdk)

    await _take_over(stage, await stage.relay(), sdk, end)


@pytest.mark.parametrize("sdk", PYTHON[:1], ids=str)
async def test_relay_keeps_its_records_in_postgresql_too(
    relay_database_url: str, stage: Stage, sdk: Sdk
) -> None:
    """The same story with Relay's own store on PostgreSQL."""
    relay = await stage.relay(RELAY_DATABASE_URL=relay_database_url)

    await _take_over(stage, relay, sdk, "kill")

    assert not list(stage.directory.rglob("relay.db"))


async def _take_over(stage: Stage, relay: RelayProcess, sdk: Sdk, end: str) -> None:
    victim = await stage.executor(sdk, "victim", relay=relay)
    peer = await stage.executor(sdk, "peer", relay=relay)
    await relay.configure("loop", executorTimeoutSecs=2)
    await victim.begin("w", steps=STEPS, seconds=1)
    await stage.steps.reached("w", 3, within=20)

    await _end(victim, end)

    at_death = await stage.database.workflow("w")
    await stage.succeeded("w", within=60)
    await relay.status_is("loop", victim.executor_id, None, within=20)
    begun = stage.steps.executors_of("begin", "w")
    assert at_death.recorded_steps == 2
    assert [begun[step] for step in (1, 2)] == [[victim.executor_id]] * 2
    assert begun[3] == [victim.executor_id, peer.executor_id]
    assert [begun[step] for step in (4, 5)] == [[peer.executor_id]] * 2
    assert (await relay.executors("loop")) == {peer.executor_id: "HEALTHY"}
    story = [entry["operation"] for entry in await relay.audit()]
    for operation in (
        "executor.disconnect",
        "executor.dead",
        "recovery.order",
        "recovery.verify",
        "executor.delete",
    ):
        assert operation in story


@pytest.mark.parametrize("sdk", [*PYTHON, *JAVA], ids=str)
async def test_thirty_workflows_at_once_are_handed_over(stage: Stage, sdk: Sdk) -> None:
    """
    All workflows of the dead succeed elsewhere; no recorded step runs again.

    Java starts them on the spot, where the others queue them.
    """
    skip_without(sdk)
    relay = await stage.relay()
    victim = await stage.executor(sdk, "victim", relay=relay)
    peer = await stage.executor(sdk, "peer", relay=relay)
    await relay.configure("loop", executorTimeoutSecs=2)
    names = [f"w{number}" for number in range(30)]
    for name in names:
        await victim.begin(name, steps=STEPS, seconds=1.5)
    await stage.steps.reached(names[-1], 2, within=60)

    await victim.kill()

    at_death = await stage.database.workflows()
    await stage.succeeded(*names, within=120)
    await relay.status_is("loop", victim.executor_id, None, within=20)
    unfinished = [name for name in names if at_death[name].status == "PENDING"]
    assert unfinished
    for name in names:
        begun = stage.steps.executors_of("begin", name)
        recorded = at_death[name].recorded_steps
        for step in range(1, STEPS + 1):
            if step <= recorded:
                assert begun[step] == [victim.executor_id], (name, step)
            else:
                assert begun[step][-1] == peer.executor_id, (name, step)
                assert len(begun[step]) <= 2, (name, step)


async def _end(executor: ExecutorProcess, how: str) -> None:
    if how == "kill":
        await executor.kill()
    else:
        await executor.terminate()
