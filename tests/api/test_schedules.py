"""Schedules, queues and versions, as an executor tells them."""

from typing import Any
from urllib.parse import quote

import pytest

from relay.records import AuditStatus
from tests.api.house import House, problem

APP = "/v2/orgs/local/apps/shop"
SCHEDULES = f"{APP}/schedules"
DAY = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-02T00:00:00+00:00"}
ODD_NAMES = ["a/b", "a?b", "a#b", "100 %", "%2F", "日本", "x" * 512]


@pytest.fixture
async def shop(house: House) -> House:
    """A house with the application `shop`."""
    await house.register("shop")
    return house


async def test_schedule_has_the_documented_shape(shop: House) -> None:
    """The queue it uses has no place in it."""
    expected = {
        "scheduleId": "schedule-nightly",
        "scheduleName": "nightly",
        "workflowName": "report",
        "workflowClass": None,
        "cronExpression": "0 3 * * *",
        "status": "ACTIVE",
        "context": "None",
        "lastFiredAt": "2026-01-01T03:00:00.000Z",
        "automaticBackfill": False,
        "cronTimezone": "UTC",
        "applicationName": "shop",
    }

    assert (await shop.client.get(f"{SCHEDULES}/nightly")).json() == expected
    assert (await shop.client.get(SCHEDULES)).json() == [expected]


async def test_listing_of_schedules_passes_filters_on(shop: House) -> None:
    """The context is loaded unless the caller does not want it."""
    await shop.client.get(SCHEDULES, params={"status": "", "loadContext": "false"})
    await shop.client.get(
        SCHEDULES,
        params={"status": "PAUSED", "workflowName": "w", "scheduleNamePrefix": "n"},
    )

    first, second = shop.executors.received("list_schedules")
    assert first["body"] == {"application_name": ["shop"], "load_context": False}
    assert second["body"] == {
        "application_name": ["shop"],
        "load_context": True,
        "status": ["PAUSED"],
        "workflow_name": ["w"],
        "schedule_name_prefix": ["n"],
    }


@pytest.mark.parametrize(
    ("verb", "status"), [("pause", "PAUSED"), ("resume", "ACTIVE")]
)
async def test_schedule_is_paused_and_resumed(
    shop: House, verb: str, status: str
) -> None:
    """Nothing is answered but that it is done."""
    response = await shop.client.post(f"{SCHEDULES}/nightly/{verb}")

    assert (response.status_code, response.content) == (204, b"")
    shown = (await shop.client.get(f"{SCHEDULES}/nightly")).json()
    assert shown["status"] == status
    entry = (await shop.audit())[0].entry
    assert (entry.operation, entry.status) == (f"schedule.{verb}", AuditStatus.SUCCESS)
    assert entry.target is not None
    assert (entry.target.kind, entry.target.id) == ("schedule", "nightly")


async def test_trigger_answers_where_the_workflow_is(shop: House) -> None:
    """It can be read there."""
    response = await shop.client.post(f"{SCHEDULES}/nightly/trigger")

    workflow_id = response.json()["workflowId"]
    assert response.status_code == 201
    assert response.headers["location"] == f"{APP}/workflows/{workflow_id}"
    assert (await shop.client.get(response.headers["location"])).status_code == 200


async def test_backfill_answers_what_it_started(shop: House) -> None:
    """The span goes to the executor in its own spelling."""
    response = await shop.client.post(f"{SCHEDULES}/nightly/backfill", json=DAY)

    assert response.status_code == 200
    assert len(response.json()["workflowIds"]) == 2
    assert shop.executors.received("backfill_schedule") == [
        {
            "schedule_name": "nightly",
            "start": "2026-01-01T00:00:00.000+00:00",
            "end": "2026-01-02T00:00:00.000+00:00",
        }
    ]
    assert (await shop.audit())[0].entry.operation == "schedule.backfill"


async def test_backfill_of_nothing_may_be_empty(shop: House) -> None:
    """A schedule need not have a time in the span."""
    shop.executors.replies["backfill_schedule"] = {"workflow_ids": []}

    response = await shop.client.post(f"{SCHEDULES}/nightly/backfill", json=DAY)

    assert response.json() == {"workflowIds": []}


@pytest.mark.parametrize("end", ["2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"])
async def test_backfill_needs_a_span(shop: House, end: str) -> None:
    """No executor is asked about one that ends before it begins."""
    response = await shop.client.post(
        f"{SCHEDULES}/nightly/backfill", json={**DAY, "endTime": end}
    )

    [flaw] = problem(response, 422)["errors"]
    assert flaw["location"] == "body.endTime"
    assert shop.executors.requests == []


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_any_text_can_be_a_name(shop: House, name: str) -> None:
    """However odd, it reaches the executor as it was written, and the audit log."""
    shop.executors.application.schedules[name] = "ACTIVE"
    shop.executors.application.queues.add(name)
    path = quote(name, safe="")

    schedule = await shop.client.get(f"{SCHEDULES}/{path}")
    queue = await shop.client.get(f"{APP}/queues/{path}")
    paused = await shop.client.post(f"{SCHEDULES}/{path}/pause")

    assert schedule.json()["scheduleName"] == name
    assert queue.json()["name"] == name
    assert paused.status_code == 204
    target = (await shop.audit())[0].entry.target
    assert target is not None
    assert target.id == name


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "schedules/gone", None),
        ("POST", "schedules/gone/pause", None),
        ("POST", "schedules/gone/resume", None),
        ("POST", "schedules/gone/trigger", None),
        ("POST", "schedules/gone/backfill", DAY),
        ("GET", "queues/gone", None),
        ("PATCH", "versions/latest", {"versionName": "gone"}),
    ],
)
async def test_unknown_name_is_404(
    shop: House, method: str, path: str, body: Any
) -> None:
    """Also where SDKs claim success; nothing is changed."""
    response = await shop.client.request(method, f"{APP}/{path}", json=body)

    assert "gone" in problem(response, 404)["detail"]
    asked = {request["type"] for request in shop.executors.requests}
    assert asked <= {"get_schedule", "get_queue", "list_application_versions"}


async def test_queue_has_the_documented_shape(shop: House) -> None:
    """Without the limits of its partitions, which the contract does not have."""
    expected = {
        "name": "jobs",
        "concurrency": 10,
        "workerConcurrency": None,
        "rateLimitMax": 100,
        "rateLimitPeriodSecs": 60.0,
        "priorityEnabled": False,
        "partitionQueue": False,
        "pollingIntervalSecs": 1.0,
        "applicationName": "shop",
    }

    assert (await shop.client.get(f"{APP}/queues/jobs")).json() == expected
    assert (await shop.client.get(f"{APP}/queues")).json() == [expected]


async def test_version_is_made_the_latest(shop: House) -> None:
    """The list begins with it from then on."""
    shop.executors.application.versions |= {"v2": 1_790_000_000_000}

    before = (await shop.client.get(f"{APP}/versions")).json()
    response = await shop.client.patch(
        f"{APP}/versions/latest", json={"versionName": "v1"}
    )
    after = (await shop.client.get(f"{APP}/versions")).json()

    assert response.status_code == 204
    assert [version["versionName"] for version in before] == ["v2", "v1"]
    assert [version["versionName"] for version in after] == ["v1", "v2"]
    assert before[1] == {
        "versionId": "version-v1",
        "versionName": "v1",
        "versionTimestamp": "2026-05-28T20:26:40.000Z",
        "createdAt": "2026-05-28T20:26:40.000Z",
    }
    entry = (await shop.audit())[0].entry
    assert entry.operation == "application.set_latest_version"
    assert entry.details["version_name"] == "v1"
