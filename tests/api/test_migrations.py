"""Stranded work moved to another version, over HTTP."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relay.ids import AppVersion, ExecutorId, ExecutorRef
from relay.liveness.states import ExecutorStatus
from relay.records import AuditStatus, RecoveryState
from relay.tasks import TaskSet
from relay_api.routes import migrations
from tests.api.house import House, problem
from tests.recovery.records import make_recovery

RECOVERY = "/relay/v1/orgs/local/apps/shop/recoveries/r-1"
MIGRATE, MIGRATION = f"{RECOVERY}/migrate", f"{RECOVERY}/migration"
ORDER = {"appVersion": "v2"}


async def strand(house: House) -> House:
    """`e1` of version `v1` is dead and owned `w1`; an executor of `v2` is there."""
    ref = await house.register("shop")
    executor = await house.add_executor(ref, "e1", ExecutorStatus.DEAD)
    async with house.store.write() as work:
        recovery = make_recovery(
            ExecutorRef(ref, ExecutorId("e1")),
            epoch=executor.epoch,
            app_version=AppVersion("v1"),
        )
        await work.recoveries.insert(replace(recovery, state=RecoveryState.STRANDED))
    house.executors.work.add("e1", "v1", "w1")
    house.executors.work.record("w1", {1: None, 2: None})
    house.peers.connect("e2", "v2", application=ref)
    return house


@pytest.fixture
async def shop(house: House) -> House:
    """A house with stranded work."""
    return await strand(house)


@pytest.fixture
async def running(shop: House) -> AsyncIterator[House]:
    """The same, where what is begun is carried on with."""
    async with TaskSet("test") as tasks:
        tasks.spawn(shop.migrations.run(), name="migrations")
        yield shop


def shown(state: str, of_workflow: str, *, is_dry: bool = False) -> dict[str, Any]:
    """The answer about a migration and its one workflow, that far."""
    counts = dict.fromkeys(("planned", "moved", "refused", "skipped", "failed"), 0)
    return {
        "recoveryId": "r-1",
        "appVersion": "v2",
        "dryRun": is_dry,
        "state": state,
        "method": "REWIND",
        "hasMore": False,
        "counts": counts | {of_workflow.lower(): 1},
        "workflows": [
            {
                "workflowId": "w1",
                "name": "checkout",
                "state": of_workflow,
                "startStep": 3,
                "newWorkflowId": None,
                "queueName": None,
                "reason": None,
            }
        ],
    }


async def test_a_dry_run_shows_the_plan(shop: House) -> None:
    """200, with every workflow; nothing is done, and nothing audited."""
    before = await shop.audit()

    response = await shop.client.post(MIGRATE, json={**ORDER, "dryRun": True})

    assert response.status_code == 200
    assert response.json() == shown("PLANNED", "PLANNED", is_dry=True)
    assert await shop.audit() == before
    problem(await shop.client.get(MIGRATION), 404)


async def test_a_run_is_answered_at_its_end(running: House) -> None:
    """200, if it does not take long; it can be read again."""
    response = await running.client.post(MIGRATE, json=ORDER)

    assert response.status_code == 200
    assert response.json() == shown("ENDED", "MOVED")
    assert "location" not in response.headers
    again = await running.client.get(MIGRATION)
    assert (again.status_code, again.json()) == (200, shown("ENDED", "MOVED"))


async def test_a_run_that_takes_longer_goes_on(
    shop: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """202, and where its end is found."""
    monkeypatch.setattr(migrations, "ANSWER_WITHIN", timedelta())

    response = await shop.client.post(MIGRATE, json=ORDER)

    assert response.status_code == 202
    assert response.headers["location"] == MIGRATION
    assert response.json() == shown("RUNNING", "PLANNED")
    assert (await shop.client.get(MIGRATION)).json()["state"] == "RUNNING"
    recovery = await shop.client.get(RECOVERY)
    assert recovery.json()["state"] == "MIGRATING"
    problem(await shop.client.post(f"{RECOVERY}/retry"), 409)


async def test_who_began_it_stands_in_the_audit_log(running: House) -> None:
    await running.client.post(MIGRATE, json=ORDER)

    [begun] = await running.audit(operation="recovery.migrate")
    assert begun.entry.status is AuditStatus.SUCCESS
    assert begun.entry.details["target_version"] == "v2"
    story = (await running.client.get(RECOVERY)).json()["story"]
    assert [each["operation"] for each in story] == [
        "recovery.migrate",
        "workflow.migrate",
        "recovery.migrated",
    ]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"appVersion": "v1"}, 422, "body.appVersion"),
        ({"appVersion": "v9"}, 409, "connected are v2"),
        ({"appVersion": ""}, 422, "body.appVersion"),
        ({"appVersion": " "}, 422, "body.appVersion"),
        ({"appVersion": "v" * 513}, 422, "body.appVersion"),
        ({"appVersion": "v\0"}, 422, "body.appVersion"),
        ({"appVersion": 2}, 422, "body.appVersion"),
        ({"appVersion": "v2", "dryRun": "yes"}, 422, "body.dryRun"),
        ({"appVersion": "v2", "force": True}, 422, "body.force"),
        ({}, 422, "body.appVersion"),
    ],
)
async def test_an_order_that_cannot_be_is_refused_and_audited(
    shop: House, body: dict[str, Any], status: int, said: str
) -> None:
    document = problem(await shop.client.post(MIGRATE, json=body), status)

    assert said in str(document)
    [refused] = await shop.audit(operation="recovery.migrate")
    assert refused.entry.status is AuditStatus.FAILURE


async def test_only_stranded_recoveries_are_moved(shop: House) -> None:
    await shop.client.post(f"{RECOVERY}/retry")

    document = problem(await shop.client.post(MIGRATE, json=ORDER), 409)

    assert "only stranded work is moved" in document["detail"]


async def test_without_an_executor_to_ask_nothing_is_planned(shop: House) -> None:
    view = await shop.registry.applications.get("shop")
    shop.executors.disconnect(view.record)

    problem(await shop.client.post(MIGRATE, json=ORDER), 503)

    assert (await shop.client.get(RECOVERY)).json()["state"] == "STRANDED"


async def test_a_key_needs_the_right_to_change_the_application(keyed: House) -> None:
    """To look takes less."""
    await strand(keyed)
    reader = await keyed.mint("reader", ["application.read"])

    problem(await keyed.client.post(MIGRATE, json=ORDER, headers=reader), 403)
    problem(await keyed.client.get(MIGRATION, headers=reader), 404)


async def test_what_does_not_exist_is_not_found(shop: House) -> None:
    for path in ("r-9/migrate", "r-9/migration"):
        url = f"/relay/v1/orgs/local/apps/shop/recoveries/{path}"
        method = "POST" if path.endswith("migrate") else "GET"
        body = ORDER if method == "POST" else None
        problem(await shop.client.request(method, url, json=body), 404)


async def test_both_operations_are_described(shop: House) -> None:
    document = (await shop.client.get("/relay/v1/openapi.json")).json()

    ids = {
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
    }
    assert {"migrateRecovery", "getMigration"} <= ids
    [order] = [
        item["post"]
        for path, item in document["paths"].items()
        if path.endswith("/migrate")
    ]
    assert {"200", "202"} <= order["responses"].keys()
