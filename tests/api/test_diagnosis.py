"""Why workflows do not move, asked over HTTP."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from relay.errors import NoExecutorError
from relay.ids import ApplicationRef, AppName
from relay.liveness.states import ExecutorStatus
from relay.registry import SHELL_ACTOR, ApplicationChange
from tests.api.house import LONG_AGO, House, problem

OWN = "/relay/v1/orgs/local/apps/shop"


@pytest.fixture
async def shop(house: House) -> House:
    """A house with the application `shop`: `e1` owns `running`, and `done` is done."""
    await house.register("shop")
    house.executors.work.add("e1", "v1", "running", "done")
    house.executors.work.finish("done")
    return house


async def find_shop(house: House) -> ApplicationRef:
    return (await house.registry.applications.get("shop")).record.ref


def answer_row(house: House, **fields: Any) -> None:
    """Let an executor tell this of the one workflow."""
    row = {"WorkflowUUID": "w", "Status": "PENDING", "CreatedAt": "1767225600000"}
    house.executors.replies["get_workflow"] = {"output": {**row, **fields}}


async def test_diagnosis_has_the_documented_shape(shop: House) -> None:
    """Every property is there, and the instants are as everywhere."""
    await shop.add_executor(await find_shop(shop), "e1", ExecutorStatus.DISCONNECTED)
    answer_row(
        shop,
        WorkflowName="checkout",
        ExecutorID="e1",
        ApplicationVersion="v1",
    )

    response = await shop.client.get(f"{OWN}/workflows/w/diagnosis")

    assert response.status_code == 200, response.text
    assert response.json() == {
        "workflowId": "w",
        "workflowName": "checkout",
        "status": "PENDING",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "appVersion": "v1",
        "executorId": "e1",
        "queueName": None,
        "code": "owner_disconnected",
        "sentence": (
            "Its executor e1 has lost its connection; unless it is back by"
            " 2026-01-01T00:01:00Z, it is recovered elsewhere."
        ),
        "since": "2026-01-01T00:00:01.000Z",
        "details": {"executorId": "e1", "deadAfter": "2026-01-01T00:01:00.000Z"},
    }


async def test_a_finished_workflow_says_so(shop: House) -> None:
    shown = (await shop.client.get(f"{OWN}/workflows/done/diagnosis")).json()

    assert (shown["code"], shown["details"]) == ("finished", {"status": "SUCCESS"})


@pytest.mark.parametrize("workflow_id", ["a/b", "a?b", "100 %", "日本", "x" * 512])
async def test_any_text_can_be_an_id(shop: House, workflow_id: str) -> None:
    shop.executors.work.add("e1", "v1", workflow_id)

    path = f"{OWN}/workflows/{quote(workflow_id, safe='')}/diagnosis"
    shown = (await shop.client.get(path)).json()

    assert shown["workflowId"] == workflow_id


async def test_unknown_workflow_and_anothers_are_404(shop: House) -> None:
    """Several applications may share one system database."""
    problem(await shop.client.get(f"{OWN}/workflows/gone/diagnosis"), 404)

    answer_row(shop, ApplicationName="bank")
    problem(await shop.client.get(f"{OWN}/workflows/w/diagnosis"), 404)


async def test_attention_leaves_out_what_runs_and_counts_it(shop: House) -> None:
    ref = await find_shop(shop)
    shop.peers.connect("e1", application=ref, last_seen_at=LONG_AGO)
    shop.executors.work.add("ghost", "v1", "orphan")

    shown = (await shop.client.get(f"{OWN}/attention")).json()

    assert [item["workflowId"] for item in shown["items"]] == ["orphan"]
    assert shown["items"][0]["code"] == "owner_unknown"
    assert {key: shown[key] for key in ("scanned", "moving", "nextOffset")} == {
        "scanned": 2,
        "moving": 1,
        "nextOffset": None,
    }


async def test_attention_is_read_in_pages(shop: House) -> None:
    shop.executors.work.add("e1", "v1", "second", "third")

    first = (await shop.client.get(f"{OWN}/attention?limit=2")).json()
    second = (await shop.client.get(f"{OWN}/attention?limit=2&offset=2")).json()

    assert (first["scanned"], first["nextOffset"]) == (2, 2)
    assert (second["scanned"], second["nextOffset"]) == (1, None)
    [asked, _] = shop.executors.received("list_workflows")
    assert asked["body"]["status"] == ["PENDING", "ENQUEUED", "DELAYED"]
    assert asked["body"]["sort_desc"] is False


@pytest.mark.parametrize(
    ("query", "status"), [("limit=0", 422), ("limit=1001", 422), ("offset=-1", 422)]
)
async def test_attention_refuses_pages_that_cannot_be(
    shop: House, query: str, status: int
) -> None:
    problem(await shop.client.get(f"{OWN}/attention?{query}"), status)


async def test_versions_show_what_is_left_of_each(shop: House) -> None:
    await shop.add_executor(await find_shop(shop), "e1")

    shown = (await shop.client.get(f"{OWN}/versions")).json()

    assert shown == {
        "latestVersion": "v1",
        "unversioned": 0,
        "versions": [
            {
                "appVersion": "v1",
                "executors": {"healthy": 1, "disconnected": 0, "dead": 0},
                "pending": 1,
                "enqueued": 0,
                "delayed": 0,
                "lastSeenAt": "2026-01-01T00:00:02.000Z",
                "isLatest": True,
                "safeToRetire": False,
                "reason": "It has 1 unfinished workflow: 1 pending.",
            }
        ],
    }


async def test_without_an_executor_only_the_versions_are_answered(
    shop: House,
) -> None:
    """Of them the rows are shown, and that nobody could count."""
    await shop.add_executor(await find_shop(shop), "e1", ExecutorStatus.DEAD)
    shop.executors.error = NoExecutorError(AppName("shop"))

    problem(await shop.client.get(f"{OWN}/workflows/w/diagnosis"), 503)
    problem(await shop.client.get(f"{OWN}/attention"), 503)
    shown = (await shop.client.get(f"{OWN}/versions")).json()

    [version] = shown["versions"]
    assert (shown["latestVersion"], shown["unversioned"]) == (None, None)
    assert (version["pending"], version["isLatest"]) == (None, None)
    assert "could not be counted" in version["reason"]


async def test_private_application_is_diagnosed_without_payloads(shop: House) -> None:
    await shop.registry.applications.change(
        SHELL_ACTOR, "shop", ApplicationChange(private_mode=True)
    )
    answer_row(shop, Input="secret", Error="secret", Status="ERROR")

    shown = await shop.client.get(f"{OWN}/workflows/w/diagnosis")

    assert shown.json()["code"] == "finished"
    assert "secret" not in shown.text
    [asked] = shop.executors.received("get_workflow")
    assert (asked["load_input"], asked["load_output"]) == (False, False)


@pytest.mark.parametrize(
    "path", ["/workflows/done/diagnosis", "/attention", "/versions"]
)
async def test_client_that_goes_ends_a_diagnosis(shop: House, path: str) -> None:
    """Nobody waits for an executor on behalf of nobody."""
    shop.executors.pause = asyncio.Event()
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        await shop.executors.asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{OWN}{path}",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("192.0.2.7", 1),
    }
    await shop.serve(scope, receive, send)

    assert statuses[0] == 499
    assert shop.executors.requests == []
