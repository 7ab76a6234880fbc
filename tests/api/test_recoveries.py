"""Recoveries over HTTP."""

from typing import Any

import pytest

from relay.ids import ApplicationRef, AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import AuditStatus, RecoveryRecord
from relay.registry import SHELL_ACTOR
from tests.api.braked import KNOWN, brake
from tests.api.house import House, problem

RECOVERIES = "/relay/v1/orgs/local/apps/shop/recoveries"


async def open_one(
    house: House, ref: ApplicationRef, executor_id: str
) -> RecoveryRecord:
    """An open recovery of an executor that Relay never saw."""
    return await house.ledger.order(
        ref, ExecutorId(executor_id), AppVersion("v1"), by=SHELL_ACTOR.subject
    )


async def test_order_opens_a_recovery(house: House) -> None:
    """201 with the recovery and where it is found."""
    await house.register("shop")

    response = await house.client.post(
        RECOVERIES, json={"executorId": "e1", "appVersion": "v1"}
    )

    assert response.status_code == 201
    recovery = response.json()
    assert response.headers["location"] == f"{RECOVERIES}/{recovery['id']}"
    assert {
        key: recovery[key]
        for key in ("executorId", "appVersion", "state", "attempts", "closedAt")
    } == {
        "executorId": "e1",
        "appVersion": "v1",
        "state": "READY",
        "attempts": 0,
        "closedAt": None,
    }
    found = await house.client.get(response.headers["location"])
    assert found.json()["id"] == recovery["id"]


async def test_every_key_of_a_recovery_is_there(house: House) -> None:
    """Unknown facts are null, never left out."""
    ref = await house.register("shop")
    await open_one(house, ref, "e1")

    [recovery] = (await house.client.get(RECOVERIES)).json()

    assert recovery.keys() == {
        "id",
        "executorId",
        "appVersion",
        "state",
        "lostAt",
        "openedAt",
        "updatedAt",
        "closedAt",
        "nextAttemptAt",
        "attempts",
        "target",
        "orderedAt",
        "orderDeadline",
        "acknowledgedAt",
        "pendingCount",
        "pendingIds",
        "suspects",
        "brakeLevel",
        "triedVersions",
        "reason",
        "verified",
    }


@pytest.mark.parametrize(
    ("body", "location"),
    [
        ({}, "body.executorId"),
        ({"executorId": "e1"}, "body.appVersion"),
        ({"executorId": 1, "appVersion": "v1"}, "body.executorId"),
        ({"executorId": " ", "appVersion": "v1"}, "body.executorId"),
        ({"executorId": "e\u0000", "appVersion": "v1"}, "body.executorId"),
        ({"executorId": "e1", "appVersion": "v1", "force": True}, "body.force"),
    ],
)
async def test_order_refuses_a_bad_body(
    house: House, body: dict[str, Any], location: str
) -> None:
    """Nothing is opened, and the attempt is audited."""
    await house.register("shop")

    document = problem(await house.client.post(RECOVERIES, json=body), 422)

    assert document["errors"][0]["location"] == location
    assert (await house.client.get(RECOVERIES)).json() == []
    entry = (await house.audit())[0].entry
    assert (entry.operation, entry.status) == (
        "recovery.request",
        AuditStatus.FAILURE,
    )


async def test_order_for_a_living_executor_is_a_conflict(house: House) -> None:
    """Only work of DEAD executors is recovered."""
    ref = await house.register("shop")
    await house.add_executor(ref, "e1", ExecutorStatus.HEALTHY)

    response = await house.client.post(
        RECOVERIES, json={"executorId": "e1", "appVersion": "v1"}
    )

    problem(response, 409)
    assert (await house.audit())[0].entry.status is AuditStatus.FAILURE


async def test_list_is_newest_first_and_filtered(house: House) -> None:
    """By state, which may be repeated, and page by page."""
    ref = await house.register("shop")
    for executor_id in ("e1", "e2"):
        await open_one(house, ref, executor_id)
    recovery = await open_one(house, ref, "e3")
    await house.client.post(
        f"{RECOVERIES}/{recovery.id}/abandon", json={"reason": "obsolete"}
    )

    async def listed(**query: Any) -> list[str]:
        response = await house.client.get(RECOVERIES, params=query)
        return [entry["executorId"] for entry in response.json()]

    assert await listed() == ["e3", "e2", "e1"]
    assert await listed(state="READY") == ["e2", "e1"]
    assert await listed(state=["READY", "ABANDONED"]) == ["e3", "e2", "e1"]
    assert await listed(state="DONE") == []
    assert await listed(limit=1, offset=1) == ["e2"]


async def test_list_refuses_an_unknown_state(house: House) -> None:
    """States are a closed set."""
    await house.register("shop")

    document = problem(
        await house.client.get(RECOVERIES, params={"state": "LOST"}), 422
    )

    assert document["errors"][0]["location"].startswith("query.state")
    problem(await house.client.get(RECOVERIES, params={"limit": "1001"}), 422)


async def test_get_tells_the_whole_story(house: House) -> None:
    """Oldest first, with who did it."""
    ref = await house.register("shop")
    recovery = await open_one(house, ref, "e1")
    path = f"{RECOVERIES}/{recovery.id}"
    await house.client.post(f"{path}/abandon", json={"reason": "obsolete"})

    response = await house.client.get(path)

    story = response.json()["story"]
    assert [entry["operation"] for entry in story] == [
        "recovery.request",
        "recovery.abandon",
    ]
    assert story[1]["subject"] == "local"
    assert story[1]["details"]["reason"] == "obsolete"
    assert response.json()["reason"] == "obsolete"
    assert response.json()["state"] == "ABANDONED"


async def test_retry_makes_it_due(house: House) -> None:
    """200 with the row as it is now; audited as a release."""
    ref = await house.register("shop")
    recovery = await open_one(house, ref, "e1")

    response = await house.client.post(f"{RECOVERIES}/{recovery.id}/retry")

    assert response.status_code == 200
    assert response.json()["state"] == "READY"
    entry = (await house.audit())[0].entry
    assert (entry.operation, entry.source_ip) == ("recovery.release", "192.0.2.7")


async def test_suspects_of_the_crash_brake_are_shown(house: House) -> None:
    """With their history, in the list and in the story, and until when it waits."""
    ref = await house.register("shop")
    recovery = await brake(house, await open_one(house, ref, "e1"))
    await open_one(house, ref, "e2")

    _, listed = (await house.client.get(RECOVERIES)).json()
    told = (await house.client.get(f"{RECOVERIES}/{recovery.id}")).json()

    assert listed["suspects"] == [
        {
            "workflowId": "known",
            "name": "charge",
            "losses": 4,
            "lastLostAt": "2026-01-01T12:00:00.000Z",
        },
        {"workflowId": "forgotten", "name": None, "losses": None, "lastLostAt": None},
    ]
    assert (listed["state"], listed["brakeLevel"]) == ("BRAKED", 1)
    assert listed["lostAt"] == "2026-01-01T12:00:00.000Z"
    assert listed["nextAttemptAt"] == "2026-01-01T12:03:00.000Z"
    del told["story"]
    assert told == listed


async def test_retry_releases_the_crash_brake(house: House) -> None:
    """It is due now, and its suspects are forgotten."""
    ref = await house.register("shop")
    recovery = await brake(house, await open_one(house, ref, "e1"))

    response = await house.client.post(f"{RECOVERIES}/{recovery.id}/retry")

    shown = response.json()
    assert (shown["state"], shown["suspects"], shown["brakeLevel"]) == ("READY", [], 0)
    async with house.store.read() as work:
        assert await work.workflow_losses.find_many(ref.id, [KNOWN]) == {}


async def test_abandon_needs_a_reason(house: House) -> None:
    """An empty reason is none."""
    ref = await house.register("shop")
    recovery = await open_one(house, ref, "e1")
    path = f"{RECOVERIES}/{recovery.id}/abandon"

    problem(await house.client.post(path), 422)
    problem(await house.client.post(path, json={"reason": "  "}), 422)

    [shown] = (await house.client.get(RECOVERIES)).json()
    assert shown["state"] == "READY"


async def test_closed_recovery_is_left_alone(house: House) -> None:
    """Retrying or abandoning it again is a conflict, and audited."""
    ref = await house.register("shop")
    recovery = await open_one(house, ref, "e1")
    path = f"{RECOVERIES}/{recovery.id}"
    await house.client.post(f"{path}/abandon", json={"reason": "obsolete"})

    problem(await house.client.post(f"{path}/retry"), 409)
    problem(await house.client.post(f"{path}/abandon", json={"reason": "x"}), 409)

    newest = [record.entry for record in (await house.audit())[:2]]
    assert [entry.operation for entry in newest] == [
        "recovery.abandon",
        "recovery.release",
    ]
    assert all(entry.status is AuditStatus.FAILURE for entry in newest)


async def test_recovery_of_another_application_does_not_exist(house: House) -> None:
    """The path names the application, and counts."""
    await house.register("shop")
    bank = await house.register("bank")
    recovery = await open_one(house, bank, "e1")

    for method, tail in [("GET", ""), ("POST", "/retry")]:
        response = await house.client.request(
            method, f"{RECOVERIES}/{recovery.id}{tail}"
        )
        problem(response, 404)


async def test_recoveries_of_an_unknown_application_are_404(house: House) -> None:
    """Not an empty list."""
    problem(await house.client.get(RECOVERIES), 404)
