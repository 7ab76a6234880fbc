"""Retention reaches the executors' database."""

import pytest

from tests.acceptance.companies import Company
from tests.acceptance.processes import until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance


async def test_retention_deletes_finished_workflows_only(
    stage: Stage, everybody: Company
) -> None:
    """
    Finished workflows older than gcTimeThresholdMs go; one that runs stays.

    About 15 s.
    """
    relay = await stage.relay(RELAY_RETENTION_INTERVAL_SECS="2")
    workers = await everybody.enter("worker", relay)
    for name, executor in workers.items():
        for number in range(3):
            old = f"{name}-{number}"
            await executor.begin(old, steps=1, seconds=0)
            await executor.finish(old, within=20)
        await executor.begin(name, steps=200, seconds=1)

    await everybody.configure(relay, gcTimeThresholdMs=1000)

    for name in workers:

        async def are_gone(name: str = name) -> bool:
            return set(await everybody.workflows(name)) == {name}

        await until(f"the old workflows of {name} are deleted", are_gone, within=30)
        assert (await everybody.workflow(name)).status == "PENDING"


async def test_the_global_timeout_cancels_what_runs_too_long(
    stage: Stage, everybody: Company
) -> None:
    """
    A workflow older than globalTimeoutMs ends CANCELLED.

    About 15 s.
    """
    relay = await stage.relay(RELAY_RETENTION_INTERVAL_SECS="2")
    workers = await everybody.enter("worker", relay)
    await everybody.begin(workers, steps=200, seconds=1)

    await everybody.configure(relay, globalTimeoutMs=2000)

    for name in workers:

        async def is_cancelled(name: str = name) -> bool:
            return (await everybody.workflow(name)).status == "CANCELLED"

        await until(f"the workflow of {name} is cancelled", is_cancelled, within=30)
