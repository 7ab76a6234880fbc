"""Retention reaches the executors' database."""

import pytest

from tests.acceptance.environments import SDKS, Sdk, skip_without
from tests.acceptance.processes import until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_retention_deletes_finished_workflows_only(
    stage: Stage, sdk: Sdk
) -> None:
    """Finished workflows older than gcTimeThresholdMs go; one that runs stays."""
    skip_without(sdk)
    relay = await stage.relay(RELAY_RETENTION_INTERVAL_SECS="2")
    executor = await stage.executor(sdk, "worker", relay=relay)
    finished = [f"old{number}" for number in range(3)]
    for name in finished:
        await executor.begin(name, steps=1, seconds=0)
    await stage.succeeded(*finished, within=20)
    await executor.begin("running", steps=200, seconds=1)

    await relay.configure("loop", gcTimeThresholdMs=1000)

    async def are_gone() -> bool:
        return set(await stage.database.workflows()) == {"running"}

    await until("the finished workflows are deleted", are_gone, within=30)
    assert (await stage.database.workflow("running")).status == "PENDING"


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_the_global_timeout_cancels_what_runs_too_long(
    stage: Stage, sdk: Sdk
) -> None:
    """A workflow older than globalTimeoutMs ends CANCELLED."""
    skip_without(sdk)
    relay = await stage.relay(RELAY_RETENTION_INTERVAL_SECS="2")
    executor = await stage.executor(sdk, "worker", relay=relay)
    await executor.begin("running", steps=200, seconds=1)

    await relay.configure("loop", globalTimeoutMs=2000)

    async def is_cancelled() -> bool:
        return (await stage.database.workflow("running")).status == "CANCELLED"

    await until("the workflow is cancelled", is_cancelled, within=30)
