"""What of an application can be set: by the contract, and in Relay's own settings."""

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.liveness.states import ExecutorStatus
from relay.records import AuditStatus
from tests.api.house import LONG_AGO, House, problem

APPS = "/v2/orgs/local/apps"


async def test_update_app_maps_seconds_and_milliseconds(house: House) -> None:
    """Each property is read in its own unit and given back in it."""
    await house.register("shop")
    body = {
        "executorTimeoutSecs": 70,
        "gcTimeThresholdMs": 80_001,
        "gcRowsThreshold": 9_002,
        "globalTimeoutMs": 100_003,
        "privateMode": True,
    }

    response = await house.client.patch(f"{APPS}/shop", json=body)

    record = (await house.registry.applications.get("shop")).record
    assert (response.status_code, response.content) == (204, b"")
    assert record.executor_timeout == timedelta(seconds=70)
    assert record.gc_time_threshold == timedelta(milliseconds=80_001)
    assert record.gc_rows_threshold == 9_002
    assert record.global_timeout == timedelta(milliseconds=100_003)
    shown = (await house.client.get(f"{APPS}/shop")).json()
    assert {name: shown[name] for name in body} == body
    entry = (await house.audit())[0].entry
    assert entry.details == {
        "application_name": "shop",
        "executor_timeout_secs": 70,
        "gc_time_threshold_ms": 80_001,
        "gc_rows_threshold": 9_002,
        "global_timeout_ms": 100_003,
        "private_mode": True,
    }


@pytest.mark.parametrize("off", [0, None])
@pytest.mark.parametrize(
    "name", ["gcTimeThresholdMs", "gcRowsThreshold", "globalTimeoutMs"]
)
async def test_update_app_switches_a_threshold_off(
    house: House, name: str, off: int | None
) -> None:
    """0 and null both clear one threshold, and only that."""
    thresholds = {
        "gcTimeThresholdMs": 11_000,
        "gcRowsThreshold": 12_000,
        "globalTimeoutMs": 13_000,
    }
    await house.register("shop")
    await house.client.patch(f"{APPS}/shop", json=thresholds)

    response = await house.client.patch(f"{APPS}/shop", json={name: off})

    shown = (await house.client.get(f"{APPS}/shop")).json()
    assert response.status_code == 204
    assert {key: shown[key] for key in thresholds} == {**thresholds, name: None}


async def test_update_app_moves_running_deadlines(house: House) -> None:
    """A new timeout counts from where the grace began, and the monitor is told."""
    ref = await house.register("shop")
    gone = await house.add_executor(
        ref,
        "e1",
        ExecutorStatus.DISCONNECTED,
        grace_started_at=LONG_AGO,
        dead_after=LONG_AGO + timedelta(seconds=60),
    )

    await house.client.patch(f"{APPS}/shop", json={"executorTimeoutSecs": 600})

    async with house.store.read() as work:
        record = await work.executors.find(gone.ref.key)
    assert record is not None
    assert record.dead_after == LONG_AGO + timedelta(seconds=600)
    assert len(house.rechecks) == 1


async def test_update_app_without_a_new_timeout_moves_no_deadline(house: House) -> None:
    """Other settings do not disturb the monitor."""
    await house.register("shop")

    await house.client.patch(
        f"{APPS}/shop", json={"executorTimeoutSecs": 60, "privateMode": True}
    )

    assert house.rechecks == []


@pytest.mark.parametrize(("seconds", "warnings"), [(44, 1), (45, 0)])
async def test_timeout_shorter_than_a_dead_link_is_noticed_warns(
    house: House, seconds: int, warnings: int
) -> None:
    """Below 45 s an executor may be recovered while it still runs."""
    await house.register("shop")

    with capture_logs() as logged:
        await house.client.patch(f"{APPS}/shop", json={"executorTimeoutSecs": seconds})

    events = [line["event"] for line in logged]
    assert events.count("executor_timeout_is_short") == warnings


TEN_YEARS_SECS = 3650 * 86_400

REFUSED_PATCHES = [
    ({"executorTimeoutSecs": 0}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": -1}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": None}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": True}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": 60.5}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": "60"}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": TEN_YEARS_SECS + 1}, "body.executorTimeoutSecs"),
    ({"executorTimeoutSecs": 10**30}, "body.executorTimeoutSecs"),
    ({"gcTimeThresholdMs": -1}, "body.gcTimeThresholdMs"),
    ({"gcTimeThresholdMs": TEN_YEARS_SECS * 1000 + 1}, "body.gcTimeThresholdMs"),
    ({"gcTimeThresholdMs": 10**30}, "body.gcTimeThresholdMs"),
    ({"globalTimeoutMs": -1}, "body.globalTimeoutMs"),
    ({"globalTimeoutMs": TEN_YEARS_SECS * 1000 + 1}, "body.globalTimeoutMs"),
    ({"gcRowsThreshold": -1}, "body.gcRowsThreshold"),
    ({"gcRowsThreshold": 2**63}, "body.gcRowsThreshold"),
    ({"gcRowsThreshold": 1.5}, "body.gcRowsThreshold"),
    ({"privateMode": None}, "body.privateMode"),
    ({"privateMode": "yes"}, "body.privateMode"),
    ({"name": "other"}, "body.name"),
    ({"executor_timeout_secs": 60}, "body.executor_timeout_secs"),
]


@pytest.mark.parametrize(("body", "location"), REFUSED_PATCHES)
async def test_update_app_refuses_values_no_rule_accepts(
    house: House, body: dict[str, Any], location: str
) -> None:
    """A bad value is 422, says where, changes nothing and is audited as a failure."""
    await house.register("shop")
    before = (await house.client.get(f"{APPS}/shop")).json()

    response = await house.client.patch(
        f"{APPS}/shop", json={"gcRowsThreshold": 5} | body
    )

    document = problem(response, 422)
    assert document["detail"] == "validation failed"
    assert [error["location"] for error in document["errors"]] == [location]
    assert (await house.client.get(f"{APPS}/shop")).json() == before
    entry = (await house.audit())[0].entry
    assert (entry.operation, entry.status) == (
        "application.update",
        AuditStatus.FAILURE,
    )
    assert location in entry.details["error"]
    assert entry.details["application_name"] == "shop"


@pytest.mark.parametrize(
    "body",
    [
        {"executorTimeoutSecs": 1},
        {"executorTimeoutSecs": TEN_YEARS_SECS},
        {"gcTimeThresholdMs": TEN_YEARS_SECS * 1000},
        {"gcRowsThreshold": 2**63 - 1},
    ],
)
async def test_update_app_accepts_the_bounds(
    house: House, body: dict[str, int]
) -> None:
    """The outermost values that make sense are kept exactly."""
    await house.register("shop")

    response = await house.client.patch(f"{APPS}/shop", json=body)

    shown = (await house.client.get(f"{APPS}/shop")).json()
    assert response.status_code == 204
    assert {name: shown[name] for name in body} == body


async def test_update_app_needs_a_body(house: House) -> None:
    """An absent body is a validation error, as the contract requires it."""
    await house.register("shop")

    document = problem(await house.client.patch(f"{APPS}/shop"), 422)

    assert document["errors"][0]["location"] == "body"


async def test_relay_settings_hold_the_version_policy(house: House) -> None:
    """`versionPolicy` is shown and changed under Relay's own path."""
    await house.register("shop")
    path = "/relay/v1/orgs/local/apps/shop/settings"
    before = await house.client.get(path)

    response = await house.client.patch(path, json={"versionPolicy": "any"})

    assert before.json() == {"versionPolicy": "same", "importsAllowed": False}
    assert response.status_code == 204
    after = (await house.client.get(path)).json()
    assert after == {"versionPolicy": "any", "importsAllowed": False}
    assert (await house.audit())[0].entry.details["version_policy"] == "any"


async def test_imports_are_off_until_they_are_allowed(house: House) -> None:
    """`importsAllowed` is a setting of its own, and who set it is audited."""
    await house.register("shop")
    path = "/relay/v1/orgs/local/apps/shop/settings"

    response = await house.client.patch(path, json={"importsAllowed": True})

    assert response.status_code == 204
    after = (await house.client.get(path)).json()
    assert after == {"versionPolicy": "same", "importsAllowed": True}
    assert (await house.audit())[0].entry.details["imports_allowed"] is True


async def test_who_may_write_cannot_allow_imports(keyed: House) -> None:
    """It would be to give oneself the run of the executors; forbidding is free."""
    await keyed.register("shop")
    path = "/relay/v1/orgs/local/apps/shop/settings"
    writer = await keyed.mint("writer", ["application.write"])
    both = await keyed.mint("admin", ["application.write", "organization.write"])

    refused = await keyed.client.patch(
        path, json={"importsAllowed": True}, headers=writer
    )
    allowed = await keyed.client.patch(
        path, json={"importsAllowed": True}, headers=both
    )
    forbidden = await keyed.client.patch(
        path, json={"importsAllowed": False}, headers=writer
    )

    assert "organization.write" in problem(refused, 403)["detail"]
    assert (allowed.status_code, forbidden.status_code) == (204, 204)
    statuses = [record.entry.status.value for record in await keyed.audit()]
    assert statuses[:3] == ["success", "success", "failure"]


@pytest.mark.parametrize("policy", ["newest", None, 1])
async def test_relay_settings_refuse_an_unknown_policy(
    house: House, policy: object
) -> None:
    """There are two policies."""
    await house.register("shop")

    response = await house.client.patch(
        "/relay/v1/orgs/local/apps/shop/settings", json={"versionPolicy": policy}
    )

    document = problem(response, 422)
    assert document["errors"][0]["location"] == "body.versionPolicy"
