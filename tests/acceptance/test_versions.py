"""Work belongs to an application version, and waits for an executor of it."""

import pytest

from tests.acceptance.environments import SDKS, Sdk, skip_without
from tests.acceptance.processes import RelayProcess, until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_work_of_a_version_nobody_runs_is_stranded_until_one_joins(
    stage: Stage, sdk: Sdk
) -> None:
    """Only v2 lives: work of v1 stays PENDING and STRANDED; v1 joins: SUCCESS."""
    skip_without(sdk)
    relay = await stage.relay()
    victim = await stage.executor(sdk, "victim", relay=relay, version="v1")
    await stage.executor(sdk, "other", relay=relay, version="v2")
    await relay.configure("loop", executorTimeoutSecs=1)
    await victim.begin("w", steps=4, seconds=1)
    await stage.steps.reached("w", 2, within=20)

    await victim.kill()

    await _state_is(relay, "STRANDED", within=40)
    stranded = await stage.database.workflow("w")
    assert stranded.status == "PENDING"
    assert stranded.executor_id == victim.executor_id
    assert (await relay.executors("loop"))[victim.executor_id] == "DEAD"

    heir = await stage.executor(sdk, "heir", relay=relay, version="v1")

    await stage.succeeded("w", within=60)
    await relay.status_is("loop", victim.executor_id, None, within=20)
    await _state_is(relay, "DONE", within=20)
    assert stage.steps.executors_of("begin", "w")[4] == [heir.executor_id]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_a_dead_executor_of_an_old_version_without_work_is_forgotten(
    stage: Stage, sdk: Sdk
) -> None:
    """Nothing pending: the record goes, although nobody of that version lives."""
    skip_without(sdk)
    relay = await stage.relay()
    victim = await stage.executor(sdk, "victim", relay=relay, version="v1")
    other = await stage.executor(sdk, "other", relay=relay, version="v2")
    await relay.configure("loop", executorTimeoutSecs=1)

    await victim.kill()

    await relay.status_is("loop", victim.executor_id, None, within=30)
    assert await relay.executors("loop") == {other.executor_id: "HEALTHY"}
    await _state_is(relay, "DONE", within=10)
    operations = [entry["operation"] for entry in await relay.audit()]
    assert "executor.delete" in operations
    assert "recovery.order" not in operations


async def _state_is(relay: RelayProcess, state: str, *, within: float) -> None:
    async def look() -> bool:
        rows = await relay.recoveries("loop")
        return [row["state"] for row in rows] == [state]

    await until(f"the only recovery is {state}", look, within=within)
