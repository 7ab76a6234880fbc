"""Why a workflow does not move, as real executors of each language let Relay tell."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.acceptance.environments import (
    GO,
    JAVA,
    PYTHON,
    TYPESCRIPT,
    Sdk,
    skip_without,
)
from tests.acceptance.operations.api import APPLICATION, instant
from tests.acceptance.processes import CLOCK, RelayProcess, until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance

NEWEST = [PYTHON[0], TYPESCRIPT[0], GO[0], JAVA[0]]
ROOT = f"/relay/v1/orgs/local/apps/{APPLICATION}"

RECOVERING = ("recovery_scheduled", "recovery_ordered", "recovery_waiting")
"""It is due, under way, or nobody answers who could do it."""

each_language = pytest.mark.parametrize("sdk", NEWEST, ids=str)


@each_language
async def test_it_is_told_what_becomes_of_a_dead_executors_work(
    stage: Stage, sdk: Sdk
) -> None:
    """
    It runs; its executor is away, is dead, has an heir, has none of its version.

    The heir stands still, so that a recovery is due and does not end. About 40 s.
    """
    skip_without(sdk)
    relay = await stage.relay(RELAY_ORDER_TIMEOUT_SECS="2")
    await relay.configure(APPLICATION, executorTimeoutSecs=4)
    victim = await stage.executor(sdk, "victim", relay=relay, version="v1")
    async with asyncio.TaskGroup() as tasks:
        heir_starts = tasks.create_task(
            stage.executor(sdk, "heir", relay=relay, version="v1")
        )
        tasks.create_task(stage.executor(sdk, "witness", relay=relay, version="v2"))
    heir = heir_starts.result()
    await victim.begin("long", steps=9, seconds=2)
    await stage.steps.reached("long", 1, within=20)
    running = await diagnose(relay, "long")
    assert (running["code"], running["status"]) == ("running", "PENDING")
    assert running["details"]["executorId"] == victim.executor_id
    assert (await list_attention(relay)) == {}

    await victim.kill()

    away = await told(relay, "long", "owner_disconnected", within=10)
    assert instant(away["details"]["deadAfter"]) > instant(away["since"])

    heir.pause()

    dead = await told(relay, "long", *RECOVERING, within=40)
    assert dead["details"]["executorId"] == victim.executor_id
    assert dead["details"]["recoveryId"]
    assert (await list_attention(relay))["long"]["code"] in RECOVERING

    await heir.kill()

    stranded = await told(relay, "long", "recovery_stranded", within=40)
    assert stranded["details"]["appVersion"] == "v1"
    assert stranded["details"]["liveVersions"] == ["v2"]
    listed = await list_attention(relay)
    assert listed["long"]["code"] == "recovery_stranded"
    old, new = await list_versions(relay)
    assert (old["appVersion"], old["pending"], old["safeToRetire"]) == ("v1", 1, False)
    assert old["executors"]["dead"] >= 1
    assert (new["appVersion"], new["pending"], new["isLatest"]) == ("v2", 0, True)

    last = await stage.executor(sdk, "last", relay=relay, version="v1")

    await stage.steps.ran_on("long", last.executor_id, within=30)
    saved = await told(relay, "long", "running", within=20)
    assert saved["details"]["executorId"] == last.executor_id


@each_language
async def test_it_is_told_what_work_in_a_queue_waits_for(
    stage: Stage, sdk: Sdk
) -> None:
    """A place in an executor, a moment, and a version that nobody runs. About 20 s."""
    skip_without(sdk)
    relay = await stage.relay()
    await relay.configure(APPLICATION, executorTimeoutSecs=1)
    executor = await stage.executor(sdk, "executor", relay=relay, version="v1")
    await executor.perform()
    for name in ("one", "two", "three"):
        await executor.enqueue(name, seconds=600)
        if name != "three":
            await stage.steps.reached(name, 1, within=20)
    await executor.enqueue("later", seconds=0, delay=600)

    full = await told(relay, "three", "queue_full", within=10)
    later = await told(relay, "later", "delayed", within=10)

    assert full["details"]["limit"] == "worker"
    assert (full["details"]["most"], full["details"]["running"]) == (2, 2)
    [holder] = full["details"]["runningIn"]
    assert holder == {"executorId": executor.executor_id, "count": 2}
    away = (instant(later["details"]["until"]) - CLOCK.now()).total_seconds()
    assert 540 < away < 660
    listed = await list_attention(relay)
    assert {name: row["code"] for name, row in listed.items()} == {
        "three": "queue_full",
        "later": "delayed",
    }

    await stage.executor(sdk, "other", relay=relay, version="v2")
    await executor.kill()

    absent = await told(relay, "three", "version_absent", within=20)
    assert absent["details"]["appVersion"] == "v1"
    assert absent["details"]["liveVersions"] == ["v2"]
    old = (await list_versions(relay))[0]
    assert (old["enqueued"], old["delayed"], old["pending"]) == (1, 1, 2)


async def diagnose(relay: RelayProcess, workflow: str) -> Mapping[str, Any]:
    """What is found about a workflow."""
    shown = await relay.http.get(f"{ROOT}/workflows/{workflow}/diagnosis", timeout=30)
    assert shown.status_code == 200, shown.text
    found: Mapping[str, Any] = shown.json()
    assert found["workflowId"] == workflow
    assert found["sentence"].endswith("."), found
    return found


async def told(
    relay: RelayProcess, workflow: str, *codes: str, within: float
) -> Mapping[str, Any]:
    """Wait until one of these is found about a workflow."""

    async def look() -> Mapping[str, Any] | None:
        found = await diagnose(relay, workflow)
        return found if found["code"] in codes else None

    return await until(f"{workflow} is {' or '.join(codes)}", look, within=within)


async def list_attention(relay: RelayProcess) -> Mapping[str, Mapping[str, Any]]:
    """What does not move, by its id."""
    shown = await relay.http.get(f"{ROOT}/attention", timeout=30)
    assert shown.status_code == 200, shown.text
    page = shown.json()
    assert page["nextOffset"] is None
    assert page["scanned"] == page["moving"] + len(page["items"])
    return {row["workflowId"]: row for row in page["items"]}


async def list_versions(relay: RelayProcess) -> list[Mapping[str, Any]]:
    """The versions, by name, and what is left of their work."""
    shown = await relay.http.get(f"{ROOT}/versions", timeout=30)
    assert shown.status_code == 200, shown.text
    rows: list[Mapping[str, Any]] = shown.json()["versions"]
    return rows
