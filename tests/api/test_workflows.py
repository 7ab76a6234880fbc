"""Workflows, read through an executor."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from relay.errors import ConnectionLostError, NoExecutorError
from relay.ids import AppName, ExecutorId
from relay.registry import SHELL_ACTOR, ApplicationChange
from tests.api.house import House, open_house, problem

WORKFLOWS = "/v2/orgs/local/apps/shop/workflows"
ODD_IDS = [
    "a/b",
    "/",
    "a?b=c&d",
    "a#b",
    "100 %",
    "%2F",
    "%252F",
    "a b",
    "a+b",
    "überweisung-日本-🙂",
    "search",
    "import",
    "bulk-cancel",
    "aggregates",
    "x" * 512,
    "é" * 512,
    'quo"te\\',
    "line\nbreak",
    "a;b=c,d:e@f",
]
SINGLE_READS = ["", "/steps", "/events", "/notifications", "/streams", "/export"]


@pytest.fixture
async def shop(house: House) -> House:
    """A house with the application `shop` and its workflows `done` and `running`."""
    await house.register("shop")
    house.executors.work.add("e1", "v1", "running", "done")
    house.executors.work.finish("done")
    return house


async def test_workflow_has_the_documented_shape(shop: House) -> None:
    """Every property is there, null where the executor says nothing."""
    shop.executors.replies["get_workflow"] = {
        "output": {
            "WorkflowUUID": "done",
            "Status": "SUCCESS",
            "WorkflowName": "checkout",
            "AuthenticatedRoles": "['admin']",
            "Input": "(('book',), {})",
            "Output": "'sold'",
            "CreatedAt": "1767225600000",
            "UpdatedAt": "1767225601500",
            "WorkflowTimeoutMS": "60000",
            "Priority": "7",
            "Attributes": '{"tier": "gold"}',
            "ApplicationName": "shop",
        }
    }

    response = await shop.client.get(f"{WORKFLOWS}/done")

    assert response.status_code == 200
    assert response.json() == {
        "workflowId": "done",
        "status": "SUCCESS",
        "workflowName": "checkout",
        "workflowClass": None,
        "workflowConfig": None,
        "user": None,
        "assumedRole": None,
        "roles": "['admin']",
        "input": "(('book',), {})",
        "output": "'sold'",
        "error": None,
        "createdAt": "2026-01-01T00:00:00.000Z",
        "updatedAt": "2026-01-01T00:00:01.500Z",
        "queueName": None,
        "appVersion": None,
        "executorId": None,
        "timeoutMs": 60000,
        "deadline": None,
        "deduplicationId": None,
        "priority": 7,
        "queuePartitionKey": None,
        "forkedFrom": None,
        "wasForkedFrom": False,
        "parentWorkflowId": None,
        "dequeuedAt": None,
        "delayUntil": None,
        "completedAt": None,
        "attributes": '{"tier": "gold"}',
        "scheduleName": None,
        "applicationName": "shop",
    }


async def test_search_without_a_body_finds_everything(shop: House) -> None:
    """No limit, no filter, no payload; `application_name` and every flag are sent."""
    response = await shop.client.post(f"{WORKFLOWS}/search")

    assert [row["workflowId"] for row in response.json()] == ["running", "done"]
    [asked] = shop.executors.received("list_workflows")
    assert asked == {
        "body": {
            "application_name": ["shop"],
            "sort_desc": False,
            "queues_only": False,
            "load_input": False,
            "load_output": False,
        }
    }


async def test_search_passes_every_condition_on(shop: House) -> None:
    """Under the names and in the spelling that executors understand."""
    lists = {
        "workflowIds": "workflow_uuids",
        "workflowName": "workflow_name",
        "user": "authenticated_user",
        "status": "status",
        "appVersion": "application_version",
        "forkedFrom": "forked_from",
        "parentWorkflowId": "parent_workflow_id",
        "queueName": "queue_name",
        "executorId": "executor_id",
        "scheduleName": "schedule_name",
        "workflowIdPrefix": "workflow_id_prefix",
    }
    instants = {
        "startTime": "start_time",
        "endTime": "end_time",
        "completedAfter": "completed_after",
        "completedBefore": "completed_before",
        "dequeuedAfter": "dequeued_after",
        "dequeuedBefore": "dequeued_before",
    }

    await shop.client.post(
        f"{WORKFLOWS}/search",
        json={
            **{name: [f"{name}-1", " ", f"{name}-2"] for name in lists},
            **dict.fromkeys(instants, "2026-01-01T02:00:00.123999+02:00"),
            "hasParent": False,
            "wasForkedFrom": True,
            "attributes": {"tier": ["gold", 1.5, None]},
            "limit": 7.0,
            "offset": 3,
            "sortDesc": True,
            "queuesOnly": True,
            "loadInput": True,
            "loadOutput": True,
        },
    )

    [asked] = shop.executors.received("list_workflows")
    assert asked["body"] == {
        **{wire: [f"{name}-1", f"{name}-2"] for name, wire in lists.items()},
        **dict.fromkeys(instants.values(), "2026-01-01T00:00:00.123+00:00"),
        "has_parent": False,
        "was_forked_from": True,
        "attributes": {"tier": ["gold", 1.5, None]},
        "limit": 7,
        "offset": 3,
        "sort_desc": True,
        "queues_only": True,
        "load_input": True,
        "load_output": True,
        "application_name": ["shop"],
    }


@pytest.mark.parametrize("nothing", [None, [], [""], ["  "]])
async def test_empty_condition_is_none(shop: House, nothing: object) -> None:
    """Null, an empty list and blank texts are what an absent one is."""
    body = {"status": nothing, "workflowIds": nothing, "limit": 0, "offset": 0}

    await shop.client.post(f"{WORKFLOWS}/search", json=body)

    [asked] = shop.executors.received("list_workflows")
    assert not asked["body"].keys() & {"status", "workflow_uuids", "limit", "offset"}


async def test_listing_takes_its_conditions_from_the_query(shop: House) -> None:
    """A blank one is none, and 0 is no limit."""
    await shop.client.get(
        WORKFLOWS,
        params={"status": "ERROR", "workflowName": "", "limit": 2, "sortDesc": "true"},
    )
    await shop.client.get(WORKFLOWS, params={"limit": 0, "loadOutput": "true"})

    first, second = shop.executors.received("list_workflows")
    assert first["body"]["status"] in ("ERROR", ["ERROR"])
    assert "workflow_name" not in first["body"]
    assert (first["body"]["limit"], first["body"]["sort_desc"]) == (2, True)
    assert "limit" not in second["body"]
    assert second["body"]["load_output"] is True


@pytest.mark.parametrize("path", SINGLE_READS)
@pytest.mark.parametrize("workflow_id", ODD_IDS)
async def test_any_text_can_be_an_id(shop: House, workflow_id: str, path: str) -> None:
    """However odd, it reaches the executor as it was written."""
    shop.executors.work.add("e1", "v1", workflow_id)

    response = await shop.client.get(f"{WORKFLOWS}/{quote(workflow_id, safe='')}{path}")

    assert response.status_code == 200, response.text
    assert {asked["workflow_id"] for asked in shop.executors.requests} == {workflow_id}


@pytest.mark.parametrize("path", SINGLE_READS)
async def test_unknown_workflow_is_404(shop: House, path: str) -> None:
    """Also what belongs to one."""
    detail = problem(await shop.client.get(f"{WORKFLOWS}/gone{path}"), 404)["detail"]

    assert "gone" in detail


async def test_workflow_of_another_application_does_not_exist(shop: House) -> None:
    """Several may share one system database."""
    row = {"WorkflowUUID": "done", "Status": "SUCCESS", "ApplicationName": "other"}
    shop.executors.replies["get_workflow"] = {"output": row}

    for path in SINGLE_READS:
        problem(await shop.client.get(f"{WORKFLOWS}/done{path}"), 404)


async def test_steps_can_be_read_in_pages(shop: House) -> None:
    """As everywhere, 0 is no limit."""
    shown = await shop.client.get(f"{WORKFLOWS}/done/steps", params={"limit": 1})
    await shop.client.get(f"{WORKFLOWS}/done/steps", params={"limit": 0, "offset": 4})

    [step] = shown.json()
    assert step["startedAt"].endswith("Z")
    assert (step["stepId"], step["stepName"]) == (1, "charge")
    first, second = shop.executors.received("list_steps")
    assert first["limit"] == 1
    assert "limit" not in second
    assert second["offset"] == 4


async def test_what_belongs_to_a_workflow_is_shown(shop: House) -> None:
    """Events, notifications, streams and the export."""

    async def get(path: str) -> Any:
        return (await shop.client.get(f"{WORKFLOWS}/done/{path}")).json()

    assert await get("events") == [{"key": "progress", "value": "half"}]
    assert await get("streams") == [{"key": "log", "values": ["one", "two"]}]
    [notification] = await get("notifications")
    assert notification.keys() == {"topic", "message", "createdAt", "consumed"}
    assert await get("export?exportChildren=true") == {"serializedWorkflow": "ZG9uZQ=="}
    assert shop.executors.received("export_workflow")[0]["export_children"] is True


async def test_private_application_shows_no_payload(shop: House) -> None:
    """Relay does not even ask for it."""
    await shop.registry.applications.change(
        SHELL_ACTOR, "shop", ApplicationChange(private_mode=True)
    )
    row = {"WorkflowUUID": "done", "Status": "ERROR", "Input": "secret", "Error": "x"}
    shop.executors.replies["get_workflow"] = {"output": row}

    shown = (await shop.client.get(f"{WORKFLOWS}/done")).json()
    await shop.client.post(f"{WORKFLOWS}/search", json={"loadInput": True})

    assert (shown["input"], shown["error"]) == (None, None)
    assert shop.executors.received("get_workflow")[0]["load_input"] is False
    asked = shop.executors.received("list_workflows")[0]["body"]
    assert (asked["load_input"], asked["load_output"]) == (False, False)
    for path in ("events", "notifications", "streams", "export"):
        refusal = problem(await shop.client.get(f"{WORKFLOWS}/done/{path}"), 403)
        assert "private" in refusal["detail"]


async def test_no_executor_is_503_and_a_lost_one_502(shop: House) -> None:
    """With a hint when to try again."""
    shop.executors.error = NoExecutorError(AppName("shop"))
    nobody = await shop.client.get(WORKFLOWS)
    shop.executors.error = ConnectionLostError(ExecutorId("e1"), delivered=True)
    lost = await shop.client.get(WORKFLOWS)

    problem(nobody, 503)
    assert nobody.headers["retry-after"] == "5"
    problem(lost, 502)


async def test_schema_of_one_workflow_is_named(
    migrated_file: Path, tmp_path: Path
) -> None:
    """Not of those in a list."""
    url = "https://relay.example"
    async with open_house(migrated_file, tmp_path, public_url=url) as house:
        await house.register("shop")
        house.executors.work.add("e1", "v1", "one")

        single = (await house.client.get(f"{WORKFLOWS}/one")).json()
        export = (await house.client.get(f"{WORKFLOWS}/one/export")).json()
        [listed] = (await house.client.get(WORKFLOWS)).json()

    assert single.pop("$schema") == f"{url}/schemas/Workflow.json"
    assert export["$schema"] == f"{url}/schemas/ExportWorkflowOutputBody.json"
    assert listed == {**single, "input": None, "output": None}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/search"), ("GET", "/done"), ("GET", "/done/export")],
)
async def test_client_that_goes_ends_a_read(
    shop: House, method: str, path: str
) -> None:
    """Nobody waits for an executor on behalf of nobody."""
    shop.executors.pause = asyncio.Event()
    gone = asyncio.Event()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not sent:
            sent.append("body")
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def leave() -> None:
        await shop.executors.asked.wait()
        gone.set()

    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": f"{WORKFLOWS}{path}",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("192.0.2.7", 1),
    }
    await asyncio.gather(shop.serve(scope, receive, send), leave())

    assert answers[0]["status"] == 499
    assert shop.executors.requests == []


async def test_client_that_stays_is_answered(shop: House) -> None:
    """However long it takes."""
    shop.executors.pause = asyncio.Event()

    async def answer_later() -> None:
        await shop.executors.asked.wait()
        assert shop.executors.pause is not None
        shop.executors.pause.set()

    async def ask() -> httpx.Response:
        return await shop.client.get(f"{WORKFLOWS}/done")

    response, _ = await asyncio.gather(ask(), answer_later())

    assert response.status_code == 200
