"""Work belongs to an application version, and waits for an executor of it."""

import pytest

from tests.acceptance.companies import Company
from tests.acceptance.processes import RelayProcess, until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance


async def test_work_of_a_version_nobody_runs_is_stranded_until_one_joins(
    stage: Stage, everybody: Company
) -> None:
    """
    Only v2 lives: work of v1 stays PENDING and STRANDED; v1 joins: SUCCESS.

    About 25 s.
    """
    relay = await stage.relay()
    victims = await everybody.enter("victim", relay, version="v1")
    await everybody.enter("other", relay, version="v2")
    await everybody.configure(relay, executorTimeoutSecs=1)
    await everybody.begin(victims, steps=6, seconds=1)
    await everybody.reached(2, within=20)

    for victim in victims.values():
        await victim.kill()

    for name, victim in victims.items():
        await _state_is(relay, name, "STRANDED", within=40)
        stranded = await everybody.workflow(name)
        assert (stranded.status, stranded.executor_id) == (
            "PENDING",
            victim.executor_id,
        ), name
        assert (await relay.executors(name))[victim.executor_id] == "DEAD"

    heirs = await everybody.enter("heir", relay, version="v1")

    await everybody.succeeded(within=60)
    await everybody.all_are(relay, victims, None, within=20)
    for name, heir in heirs.items():
        await _state_is(relay, name, "DONE", within=20)
        assert stage.steps.executors_of("begin", name)[6] == [heir.executor_id], name


async def test_a_dead_executor_of_an_old_version_without_work_is_forgotten(
    stage: Stage, everybody: Company
) -> None:
    """
    Nothing pending: the record goes, although nobody of that version lives.

    About 15 s.
    """
    relay = await stage.relay()
    victims = await everybody.enter("victim", relay, version="v1")
    others = await everybody.enter("other", relay, version="v2")
    await everybody.configure(relay, executorTimeoutSecs=1)

    for victim in victims.values():
        await victim.kill()

    await everybody.all_are(relay, victims, None, within=30)
    for name, other in others.items():
        assert await relay.executors(name) == {other.executor_id: "HEALTHY"}
        await _state_is(relay, name, "DONE", within=10)
    assert await relay.count_of("executor.delete") == len(victims)
    assert await relay.count_of("recovery.order") == 0


async def _state_is(
    relay: RelayProcess, application: str, state: str, *, within: float
) -> None:
    async def look() -> bool:
        rows = await relay.recoveries(application)
        return [row["state"] for row in rows] == [state]

    await until(f"the only recovery of {application} is {state}", look, within=within)
