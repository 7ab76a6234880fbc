"""Work of a version that nobody runs any more is moved to another one."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from relay.tasks import TaskSet
from tests.acceptance.companies import Company, application_of, open_company
from tests.acceptance.environments import PYTHON, SDKS, TYPESCRIPT
from tests.acceptance.processes import ExecutorProcess, RelayProcess, until
from tests.acceptance.stage import Stage
from tests.postgres import PostgresServer

pytestmark = pytest.mark.acceptance

STEPS = 4
CROWD = [f"w{number}" for number in range(30)]
"""Enough workflows for a migration that takes a second or two."""

REWINDING = {application_of(sdk) for sdk in (PYTHON[0], TYPESCRIPT[0])}
"""Applications whose SDK lets a workflow keep its id."""


@pytest.fixture
def trio(stage: Stage, postgres_server: PostgresServer) -> Iterator[Company]:
    """The newest Python and TypeScript, which rewind, and an old one, which forks."""
    sdks = [PYTHON[0], TYPESCRIPT[0], PYTHON[1]]
    with open_company(stage, postgres_server, sdks) as company:
        yield company


async def test_stranded_work_is_finished_in_another_version(
    stage: Stage, everybody: Company
) -> None:
    """
    Under its own id, or as a fork; what was recorded runs once.

    A dry run tells what would be done, and does nothing. About 30 s.
    """
    relay = await stage.relay()
    victims = await everybody.enter("victim", relay, version="v1")
    heirs = await everybody.enter("heir", relay, version="v2")
    await everybody.configure(relay, executorTimeoutSecs=1)
    await everybody.begin(victims, steps=STEPS, seconds=1)
    await everybody.reached(3, within=20)
    for victim in victims.values():
        await victim.kill()

    for name in everybody.sdks:
        recovery = await stranded(relay, name)
        recorded = (await everybody.workflow(name)).recorded_steps

        plan = await migrate(relay, name, recovery, dry_run=True)

        assert plan["state"] == "PLANNED", name
        assert plan["method"] == ("REWIND" if name in REWINDING else "FORK"), name
        assert [row["workflowId"] for row in plan["workflows"]] == [name]
        assert plan["counts"]["planned"] == 1, name
        assert (await everybody.workflow(name)).status == "PENDING", name
        assert recorded == 2, name
        await is_in_state(relay, name, "STRANDED", within=1)

    assert await relay.count_of("recovery.migrate") == 0
    for name, heir in heirs.items():
        report = await migrate(relay, name, (await stranded(relay, name)))

        assert report["state"] == "ENDED", report
        assert report["counts"]["moved"] == 1, report
        (row,) = report["workflows"]
        moved = row["newWorkflowId"] or name
        assert (moved == name) == (name in REWINDING), name
        await is_finished(everybody, name, moved)
        begun = stage.steps.executors_of("begin", name)
        begun_there = stage.steps.executors_of("begin", moved)
        owner = victims[name].executor_id
        assert (begun[1], begun[2]) == ([owner], [owner]), name
        assert begun_there[3][-1] == heir.executor_id, name
        assert begun_there[4] == [heir.executor_id], name
        if moved != name:
            assert set(begun_there) == {3, 4}, name
            assert (await everybody.workflow(name)).status == "CANCELLED", name
        await is_in_state(relay, name, "DONE", within=20)
        (closed,) = await relay.recoveries(name)
        assert closed["verified"] is True, name
        await relay.status_is(name, owner, None, within=10)
    assert await relay.count_of("recovery.order") == 0
    assert await relay.count_of("workflow.migrate") == len(SDKS)


async def test_moved_work_loses_nothing(stage: Stage, trio: Company) -> None:
    """
    Families keep their ids or stay; messages keep a workflow where they are read.

    A parent awaits its child by its id: it is rewound with it, and never forked. Of
    steps side by side the missing one runs, and none that was recorded. About 40 s.
    """
    relay = await stage.relay()
    victims = await trio.enter("victim", relay, version="v1")
    heirs = await trio.enter("heir", relay, version="v2")
    await trio.configure(relay, executorTimeoutSecs=1)
    for name, victim in victims.items():
        await victim.begin(f"{name}-told", steps=9, seconds=1)
        await victim.begin_pair(f"{name}-pair", seconds=6)
        await victim.begin_family(name, steps=STEPS, seconds=1)
    for name in trio.sdks:
        await stage.steps.reached(f"{name}-child", 2, within=20)
    for victim in victims.values():
        await victim.kill()
    for name, heir in heirs.items():
        known = await trio.workflows(name)
        assert {workflow.status for workflow in known.values()} == {"PENDING"}, name
        assert known[f"{name}-pair"].recorded_steps == 1, name
        await heir.send(f"{name}-told", "rain")

    for name, heir in heirs.items():
        report = await migrate(relay, name, await stranded(relay, name))

        rows = {row["workflowId"]: row for row in report["workflows"]}
        told, pair = rows[f"{name}-told"], rows[f"{name}-pair"]
        stays = {told["workflowId"]}
        assert told["state"] == "REFUSED", told
        assert "message" in told["reason"], told
        owner, target = victims[name].executor_id, heir.executor_id
        await _has_run_what_was_missing(stage, trio, name, pair, owner, target)
        if name in REWINDING:
            await _has_moved_as_a_family(stage, trio, name, rows, owner, target)
        else:
            _is_refused_as_a_family(name, rows)
            stays |= {name, f"{name}-child"}
        known = await trio.workflows(name)
        assert {one for one in known if known[one].status == "PENDING"} == stays
        assert set(known) == {*rows, pair["newWorkflowId"] or pair["workflowId"]}
        await stranded(relay, name)
        (row,) = await relay.recoveries(name)
        assert set(row["pendingIds"]) == stays, name


async def _has_run_what_was_missing(
    stage: Stage,
    company: Company,
    name: str,
    pair: Mapping[str, Any],
    owner: str,
    target: str,
) -> None:
    assert pair["state"] == "MOVED", pair
    moved = pair["newWorkflowId"] or pair["workflowId"]
    await is_finished(company, name, moved)
    before = stage.steps.executors_of("begin", pair["workflowId"])
    begun = stage.steps.executors_of("begin", moved)
    assert before[2] == [owner], name
    assert (begun[1][-1], begun[3]) == (target, [target]), name
    assert moved == pair["workflowId"] or 2 not in begun, name


async def _has_moved_as_a_family(
    stage: Stage,
    company: Company,
    name: str,
    rows: Mapping[str, Mapping[str, Any]],
    owner: str,
    target: str,
) -> None:
    child = f"{name}-child"
    assert (rows[child]["state"], rows[name]["state"]) == ("MOVED", "MOVED"), rows
    assert list(rows).index(child) < list(rows).index(name)
    await is_finished(company, name, name)
    begun = stage.steps.executors_of("begin", child)
    assert (begun[1], begun[4]) == ([owner], [target]), name
    assert stage.steps.count_begun(name) == {1: 1, 2: 1}, name


def _is_refused_as_a_family(name: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    child = f"{name}-child"
    assert (rows[child]["state"], rows[name]["state"]) == ("REFUSED", "REFUSED"), rows
    assert name in rows[child]["reason"], rows
    assert child in rows[name]["reason"], rows


async def test_executor_that_connects_during_a_migration_gets_no_order(
    stage: Stage,
) -> None:
    """
    It is of the very version whose work is being moved, and finds none of it.

    About 25 s.
    """
    relay = await stage.relay()
    async with migration_under_way(stage, relay) as (heir, recovery):
        heir.pause()
        late = await stage.executor(PYTHON[0], "late", relay=relay, version="v1")
        assert (await state_of(relay, "loop")) == "MIGRATING"
        heir.resume()
        await has_moved_all(relay, recovery, within=40)

    await stage.succeeded(*CROWD, within=30)
    await is_in_state(relay, "loop", "DONE", within=20)
    assert await relay.count_of("recovery.order") == 0
    for name in CROWD:
        begun = stage.steps.executors_of("begin", name)
        assert late.executor_id not in {one for each in begun.values() for one in each}


async def test_migration_goes_on_after_a_crash_of_relay(stage: Stage) -> None:
    """
    SIGKILL in the middle: what was begun is finished, and nothing moves twice.

    About 45 s.
    """
    relay = await stage.relay()
    async with migration_under_way(stage, relay) as (heir, recovery):
        await relay.kill()
    await relay.start()
    await relay.status_is("loop", heir.executor_id, "HEALTHY", within=30)

    await has_moved_all(relay, recovery, within=40)

    await stage.succeeded(*CROWD, within=30)
    await is_in_state(relay, "loop", "DONE", within=20)
    assert await relay.count_of("recovery.order") == 0
    assert await relay.count_of("recovery.migrated") == 1
    for name in CROWD:
        begun = stage.steps.executors_of("begin", name)
        assert len(begun[1]) == 1, name
        assert begun[3] == [heir.executor_id], name


@asynccontextmanager
async def migration_under_way(
    stage: Stage, relay: RelayProcess
) -> AsyncIterator[tuple[ExecutorProcess, str]]:
    """
    A crowd of workflows of a dead executor, some of which have moved already.

    Whom they move to, and the id of the recovery. They move without a break, so the
    block has a second or so.
    """
    victim = await stage.executor(PYTHON[0], "victim", relay=relay, version="v1")
    heir = await stage.executor(PYTHON[0], "heir", relay=relay, version="v2")
    await relay.configure("loop", executorTimeoutSecs=1)
    for name in CROWD:
        await victim.begin(name, steps=3, seconds=2)
    for name in CROWD:
        await stage.steps.reached(name, 2, within=30)
    await victim.kill()
    recovery = await stranded(relay, "loop")
    async with TaskSet("migration") as tasks:
        tasks.spawn(_order_moved(relay, recovery), name="order")
        await until(
            "the first has moved", lambda: _has_begun(relay, recovery), within=20
        )
        yield heir, recovery


async def _order_moved(relay: RelayProcess, recovery: str) -> None:
    # Relay may be gone before it answers.
    with suppress(httpx.TransportError):
        await migrate(relay, "loop", recovery)


async def _has_begun(relay: RelayProcess, recovery: str) -> bool:
    report = await read_migration(relay, "loop", recovery)
    if report is None or report["counts"]["moved"] == 0:
        return False
    assert report["state"] == "RUNNING", "it was over too soon to be disturbed"
    return True


async def migrate(
    relay: RelayProcess, application: str, recovery: str, *, dry_run: bool = False
) -> Mapping[str, Any]:
    """Order the work of a recovery moved to v2; what Relay says about it."""
    shown = await relay.http.post(
        f"{_path(application, recovery)}/migrate",
        json={"appVersion": "v2", "dryRun": dry_run},
        timeout=30,
    )
    assert shown.status_code in (200, 202), shown.text
    report: Mapping[str, Any] = shown.json()
    return report


async def read_migration(
    relay: RelayProcess, application: str, recovery: str
) -> Mapping[str, Any] | None:
    """The migration of a recovery, if there is one."""
    shown = await relay.http.get(f"{_path(application, recovery)}/migration")
    if shown.status_code == 404:
        return None
    assert shown.status_code == 200, shown.text
    report: Mapping[str, Any] = shown.json()
    return report


async def has_moved_all(relay: RelayProcess, recovery: str, *, within: float) -> None:
    """Wait until the migration has ended, with the whole crowd moved."""

    async def look() -> Mapping[str, Any] | None:
        report = await read_migration(relay, "loop", recovery)
        assert report is not None
        return report if report["state"] == "ENDED" else None

    ended = await until("the migration has ended", look, within=within)
    assert ended["counts"]["moved"] == len(CROWD), ended


async def stranded(relay: RelayProcess, application: str) -> str:
    """Wait until the only recovery of `application` is STRANDED; its id."""
    await is_in_state(relay, application, "STRANDED", within=40)
    (row,) = await relay.recoveries(application)
    return str(row["id"])


async def state_of(relay: RelayProcess, application: str) -> str:
    """The state of the only recovery of `application`."""
    (row,) = await relay.recoveries(application)
    return str(row["state"])


async def is_in_state(
    relay: RelayProcess, application: str, state: str, *, within: float
) -> None:
    """Wait until the only recovery of `application` is in `state`."""

    async def look() -> bool:
        rows = await relay.recoveries(application)
        return [row["state"] for row in rows] == [state]

    await until(f"the recovery of {application} is {state}", look, within=within)


async def is_finished(company: Company, application: str, workflow: str) -> None:
    """Wait until `workflow` of `application` is SUCCESS."""

    async def look() -> bool:
        known = await company.workflows(application)
        return workflow in known and known[workflow].status == "SUCCESS"

    await until(f"{workflow} of {application} succeeded", look, within=30)


def _path(application: str, recovery: str) -> str:
    return f"/relay/v1/orgs/local/apps/{application}/recoveries/{recovery}"
