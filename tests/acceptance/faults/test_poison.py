"""A workflow that kills whichever process runs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.acceptance.environments import PYTHON
from tests.acceptance.faults.crews import Crew, open_crew
from tests.acceptance.processes import RelayProcess, until
from tests.acceptance.stage import Stage
from tests.postgres import PostgresServer

pytestmark = pytest.mark.acceptance

APART_SECS = 11
"""Losses within 10 s of each other count as one: a host that goes takes several."""

OTHERS = ("other-1", "other-2", "other-3")


async def test_a_workflow_that_kills_its_processes_is_braked_and_no_other(
    stage: Stage,
) -> None:
    """
    Three losses: BRAKED with the right suspect, whose cancelling ends it.

    About 105 s: 40 for three losses, 60 of rest. Other workflows finish all the while,
    and another death in the middle is recovered at once.
    """
    relay = await stage.relay()
    async with _poisoned_crew(stage, relay) as crew:
        braked = await _find_braked(relay, within=90)

        _check_suspect(stage, braked)
        await stage.succeeded(*OTHERS, within=10)

        # No other row is slowed down.
        await until("the crew is complete", crew.is_complete, within=30)
        victim, *_, heir = crew.living
        await victim.begin("innocent", steps=4, seconds=1)
        await stage.steps.reached("innocent", 2, within=20)
        await victim.kill()
        await stage.succeeded("innocent", within=25)
        await relay.status_is("loop", victim.executor_id, None, within=20)
        assert (await _show(relay, braked["id"]))["state"] == "BRAKED"

        await heir.cancel("poison")

        await _is_done(relay, braked["id"], within=75)
        assert (await stage.database.workflow("poison")).status == "CANCELLED"
        assert len(stage.steps.executors_of("begin", "poison")[1]) == 3
        assert len(crew.hired) == 3 + 3 + 1
        assert await relay.count_of("recovery.brake") == 1
        assert await relay.count_of("executor.dead") == 4
        assert set((await relay.executors("loop")).values()) == {"HEALTHY"}
        assert b"recovery_braked" in relay.log.read_bytes()


async def test_an_operator_ends_the_brake_at_once(
    stage: Stage, postgres_server: PostgresServer
) -> None:
    """
    Cancelled and retried: asked about without the rest, and done without an order.

    About 45 s, with the store on PostgreSQL.
    """
    database = postgres_server.create_database()
    relay = await stage.relay(RELAY_DATABASE_URL=database.url)
    async with _poisoned_crew(stage, relay) as crew:
        braked = await _find_braked(relay, within=90)
        _check_suspect(stage, braked)
        orders = await relay.count_of("recovery.order")
        await until("the crew is complete", crew.is_complete, within=30)

        await crew.living[-1].cancel("poison")
        await relay.command("recoveries", "retry", braked["id"])

        await _is_done(relay, braked["id"], within=15)
        assert await relay.count_of("recovery.order") == orders
        assert len(stage.steps.executors_of("begin", "poison")[1]) == 3
        await stage.succeeded(*OTHERS, within=10)
        assert set((await relay.executors("loop")).values()) == {"HEALTHY"}


@asynccontextmanager
async def _poisoned_crew(stage: Stage, relay: RelayProcess) -> AsyncIterator[Crew]:
    """Three who work, one of them on the poison as well."""
    await relay.configure("loop", executorTimeoutSecs=1)
    async with open_crew(stage, relay, PYTHON[0], size=3) as crew:
        for executor, name in zip(crew.living, OTHERS, strict=True):
            await executor.begin(name, steps=3, seconds=1)
        await crew.living[0].poison("poison", seconds=APART_SECS)
        yield crew


def _check_suspect(stage: Stage, braked: dict[str, Any]) -> None:
    assert len(stage.steps.executors_of("begin", "poison")[1]) == 3
    [suspect] = braked["suspects"]
    assert (suspect["workflowId"], suspect["name"]) == ("poison", "poison")
    assert suspect["losses"] == 3


async def _find_braked(relay: RelayProcess, *, within: float) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        rows = await relay.recoveries("loop")
        return next((row for row in rows if row["state"] == "BRAKED"), None)

    return await until("a recovery is BRAKED", look, within=within)


async def _is_done(relay: RelayProcess, recovery: str, *, within: float) -> None:
    async def look() -> bool:
        return bool((await _show(relay, recovery))["state"] == "DONE")

    await until("the braked row is DONE", look, within=within)


async def _show(relay: RelayProcess, recovery: str) -> dict[str, Any]:
    rows = await relay.recoveries("loop")
    return next(row for row in rows if row["id"] == recovery)
