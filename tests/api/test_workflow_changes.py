"""Workflows, changed through an executor, and what the audit log says of it."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from relay.errors import ExecutorBusyError, NoExecutorError
from relay.ids import AppName, ExecutorId
from relay.records import AuditStatus
from relay.registry import SHELL_ACTOR, ApplicationChange
from tests.api.house import House, open_house, problem

WORKFLOWS = "/v2/orgs/local/apps/shop/workflows"


@pytest.fixture
async def shop(house: House) -> House:
    """A house with the application `shop` and its workflows `done` and `running`."""
    await house.register("shop")
    house.executors.work.add("e1", "v1", "running", "done")
    house.executors.work.finish("done")
    return house


async def read_audit(house: House) -> list[tuple[str, AuditStatus, str, str]]:
    """The entries about workflows, newest first."""
    return [
        (
            record.entry.operation,
            record.entry.status,
            record.entry.target.kind if record.entry.target else "",
            record.entry.target.id if record.entry.target else "",
        )
        for record in await house.audit()
        if record.entry.operation.startswith("workflow.")
    ]


@pytest.mark.parametrize(
    ("path", "body", "message_type", "asked"),
    [
        ("cancel", None, "cancel", {"cancel_children": False}),
        ("cancel", {"cancelChildren": True}, "cancel", {"cancel_children": True}),
        ("resume", None, "resume", {}),
        ("resume", {"queueName": "jobs"}, "resume", {"queue_name": "jobs"}),
        ("resume", {"queueName": ""}, "resume", {}),
    ],
)
async def test_one_workflow_is_changed(
    shop: House, path: str, body: Any, message_type: str, asked: dict[str, Any]
) -> None:
    """The body may be missing; the executor reads one id and no list."""
    response = await shop.client.post(f"{WORKFLOWS}/running/{path}", json=body)

    assert (response.status_code, response.content) == (204, b"")
    assert shop.executors.received(message_type) == [
        {"workflow_id": "running", **asked}
    ]
    assert await read_audit(shop) == [
        (f"workflow.{path}", AuditStatus.SUCCESS, "workflow", "running")
    ]


async def test_deleting_takes_its_option_from_the_query(shop: House) -> None:
    """And says for certain whether the children go too."""
    await shop.client.delete(f"{WORKFLOWS}/done")
    await shop.client.delete(f"{WORKFLOWS}/running?deleteChildren=true")

    first, second = shop.executors.received("delete")
    assert first == {"workflow_id": "done", "delete_children": False}
    assert second == {"workflow_id": "running", "delete_children": True}
    problem(await shop.client.get(f"{WORKFLOWS}/done"), 404)


@pytest.mark.parametrize(
    ("path", "body", "message_type", "asked"),
    [
        ("cancel", {"cancelChildren": True}, "cancel", {"cancel_children": True}),
        ("delete", {"deleteChildren": True}, "delete", {"delete_children": True}),
        ("resume", {"queueName": "jobs"}, "resume", {"queue_name": "jobs"}),
    ],
)
async def test_many_workflows_are_changed_at_once(
    shop: House, path: str, body: Any, message_type: str, asked: dict[str, Any]
) -> None:
    """By one message, in one audit entry about the application."""
    ids = ["done", "running"]

    response = await shop.client.post(
        f"{WORKFLOWS}/bulk-{path}", json={"workflowIds": ids, **body}
    )

    assert (response.status_code, response.content) == (204, b"")
    [received] = shop.executors.received(message_type)
    assert received == {"workflow_id": "done", "workflow_ids": ids, **asked}
    assert await read_audit(shop) == [
        (f"workflow.bulk_{path}", AuditStatus.SUCCESS, "application", "shop")
    ]
    details = (await shop.audit())[0].entry.details
    assert details["workflow_ids"] == ids
    assert details["workflow_count"] == 2
    assert details["application_name"] == "shop"


@pytest.mark.parametrize("path", ["bulk-cancel", "bulk-resume", "bulk-delete"])
async def test_no_workflow_at_all_is_no_question(shop: House, path: str) -> None:
    """It succeeds without an executor, but not for an application that is unknown."""
    shop.executors.error = NoExecutorError(AppName("shop"))

    response = await shop.client.post(f"{WORKFLOWS}/{path}", json={"workflowIds": []})
    unknown = await shop.client.post(
        f"/v2/orgs/local/apps/unknown/workflows/{path}", json={"workflowIds": []}
    )

    assert response.status_code == 204
    problem(unknown, 404)


async def test_fork_answers_where_the_copy_is(shop: House) -> None:
    """Its id is made by Relay, unless the caller has one."""
    made = await shop.client.post(f"{WORKFLOWS}/done/fork")
    named = await shop.client.post(
        f"{WORKFLOWS}/done/fork", json={"newWorkflowId": "a/b?c", "startStep": 3.0}
    )

    new_id = made.json()["workflowId"]
    assert made.status_code == named.status_code == 201
    assert made.headers["location"] == f"{WORKFLOWS}/{new_id}"
    assert named.json() == {"workflowId": "a/b?c"}
    assert named.headers["location"] == f"{WORKFLOWS}/a%2Fb%3Fc"
    assert (await shop.client.get(named.headers["location"])).status_code == 200
    first, second = shop.executors.received("fork_workflow")
    assert (first["body"]["new_workflow_id"], first["body"]["start_step"]) == (
        new_id,
        0,
    )
    assert second["body"]["start_step"] == 3
    details = (await shop.audit())[0].entry.details
    assert details["new_workflow_id"] == "a/b?c"


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        ({"root_path": "/conductor"}, "/conductor"),
        ({"public_url": "https://relay.example/base"}, "https://relay.example/base"),
    ],
)
async def test_location_leads_through_the_proxy(
    migrated_file: Path, tmp_path: Path, settings: dict[str, str], prefix: str
) -> None:
    """Whether or not the proxy has taken its prefix away."""
    async with open_house(migrated_file, tmp_path, **settings) as house:
        await house.register("shop")
        house.executors.work.add("e1", "v1", "done")

        answer = await house.client.post(
            f"{WORKFLOWS}/done/fork", json={"newWorkflowId": "é"}
        )

    assert answer.headers["location"] == f"{prefix}{WORKFLOWS}/%C3%A9"


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ({"fromLastFailure": True, "fromLastStep": False}, {"from_last_failure": True}),
        ({"fromLastStep": True, "fromStepName": " "}, {"from_last_step": True}),
        ({"fromStep": 0, "fromLastFailure": False}, {"from_step": 0}),
        ({"fromStepName": "charge"}, {"from_step_name": "charge"}),
    ],
)
async def test_fork_from_failure_has_one_mode(
    shop: House, mode: dict[str, Any], asked: dict[str, Any]
) -> None:
    """What is false or blank does not count, and is not sent."""
    body = {"workflowIds": ["done", "running"], "appVersion": "v2", **mode}

    response = await shop.client.post(f"{WORKFLOWS}/bulk-fork-from-failure", json=body)

    assert response.status_code == 200
    assert len(response.json()["workflowIds"]) == 2
    [received] = shop.executors.received("fork_from_failure")
    ids = ["done", "running"]
    assert received["body"] == {
        "workflow_ids": ids,
        "application_version": "v2",
        **asked,
    }


async def test_fork_of_nothing_is_nothing(shop: House) -> None:
    """Without a question, but the mode is checked all the same."""
    path = f"{WORKFLOWS}/bulk-fork-from-failure"

    response = await shop.client.post(
        path, json={"workflowIds": [], "fromLastStep": True}
    )
    wrong = await shop.client.post(path, json={"workflowIds": []})

    assert response.json() == {"workflowIds": []}
    assert shop.executors.requests == []
    problem(wrong, 422)


async def test_import_has_to_be_allowed(shop: House) -> None:
    """A Python application unpickles what it is given."""
    body = {"serializedWorkflow": "gASVAA=="}

    refusal = problem(await shop.client.post(f"{WORKFLOWS}/import", json=body), 403)
    await shop.registry.applications.change(
        SHELL_ACTOR, "shop", ApplicationChange(imports_allowed=True)
    )
    response = await shop.client.post(f"{WORKFLOWS}/import", json=body)

    assert "importsAllowed" in refusal["detail"]
    assert (response.status_code, response.content) == (201, b"")
    assert shop.executors.received("import_workflow") == [
        {"serialized_workflow": "gASVAA=="}
    ]
    assert [entry[:2] for entry in await read_audit(shop)] == [
        ("workflow.import", AuditStatus.SUCCESS),
        ("workflow.import", AuditStatus.FAILURE),
    ]


async def test_import_that_is_not_allowed_is_refused_before_it_is_read(
    shop: House,
) -> None:
    """Each could be as large as a message, and held in memory for nothing."""
    answers: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"{WORKFLOWS}/import",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("192.0.2.7", 1),
    }
    await shop.serve(scope, receive, send)

    assert answers[0]["status"] == 403
    assert [entry[:2] for entry in await read_audit(shop)] == [
        ("workflow.import", AuditStatus.FAILURE)
    ]


async def test_import_may_be_as_large_as_a_message(
    migrated_file: Path, tmp_path: Path
) -> None:
    """Other bodies may not."""
    limit = 3 * 1024 * 1024
    largest = json.dumps({"serializedWorkflow": ""}).replace('""', f'"{"A" * limit}"')
    largest = largest.replace("A" * limit, "A" * (2 * limit - len(largest)))
    headers = {"Content-Type": "application/json"}
    async with open_house(migrated_file, tmp_path, max_message_bytes=limit) as house:
        await house.register("shop")
        await house.registry.applications.change(
            SHELL_ACTOR, "shop", ApplicationChange(imports_allowed=True)
        )

        taken, refused = [
            await house.client.post(
                f"{WORKFLOWS}/import", content=text, headers=headers
            )
            for text in (largest, largest + " ")
        ]
        other = await house.client.post(
            f"{WORKFLOWS}/bulk-cancel", content=largest, headers=headers
        )

    assert len(largest) == limit
    assert taken.status_code == 201
    assert str(limit) in problem(refused, 413)["detail"]
    problem(other, 413)


async def test_import_beside_something_deep_is_refused(
    migrated_file: Path, tmp_path: Path
) -> None:
    """As a body that is no JSON, like a short one that is as deep."""
    text = "A" * (2 * 1024 * 1024)
    async with open_house(migrated_file, tmp_path) as house:
        await house.register("shop")
        await house.registry.applications.change(
            SHELL_ACTOR, "shop", ApplicationChange(imports_allowed=True)
        )

        answers = [
            await house.client.post(
                f"{WORKFLOWS}/import",
                content=f'{{"serializedWorkflow": "{long}", "deep": {"[" * 100_000}',
                headers={"Content-Type": "application/json"},
            )
            for long in (text, "")
        ]

    for answer in answers:
        assert problem(answer, 400)["detail"] == "the body is not JSON"


async def test_id_that_is_very_long_is_the_one_that_is_meant(shop: House) -> None:
    """Wherever it stands, and however little sense it makes."""
    longest = "x" * (512 * 1024)

    await shop.client.post(f"{WORKFLOWS}/bulk-cancel", json={"workflowIds": [longest]})

    [received] = shop.executors.received("cancel")
    assert received["workflow_id"] == longest


@pytest.mark.parametrize("workflow_id", ["a/b", "é" * 512, "x" * 512, "import", "%2F"])
async def test_change_of_an_odd_id_is_audited_under_it(
    shop: House, workflow_id: str
) -> None:
    """Whether it succeeds or fails."""
    path = f"{WORKFLOWS}/{quote(workflow_id, safe='')}"

    cancelled = await shop.client.post(f"{path}/cancel")
    problem(await shop.client.post(f"{path}/resume"), 404)

    assert cancelled.status_code == 204
    assert await read_audit(shop) == [
        ("workflow.resume", AuditStatus.FAILURE, "workflow", workflow_id),
        ("workflow.cancel", AuditStatus.SUCCESS, "workflow", workflow_id),
    ]


async def test_longer_id_is_shortened_in_the_audit_log(shop: House) -> None:
    """An index holds no more of it."""
    problem(await shop.client.post(f"{WORKFLOWS}/{'x' * 4000}/resume"), 404)

    [(_, _, _, target)] = await read_audit(shop)
    assert target == "x" * 512


async def test_what_is_refused_is_audited(shop: House) -> None:
    """With the words that the caller was told."""
    shop.executors.error = ExecutorBusyError(ExecutorId("e1"), 9)

    problem(await shop.client.post(f"{WORKFLOWS}/done/cancel"), 503)
    problem(await shop.client.delete(f"{WORKFLOWS}/done?deleteChildren=x"), 422)

    deleted, cancelled = (await shop.audit())[:2]
    assert deleted.entry.details == {
        "application_name": "shop",
        "error": "validation failed: query.deleteChildren: must be true or false",
    }
    assert cancelled.entry.operation == "workflow.cancel"
    assert "9 requests" in cancelled.entry.details["error"]


async def test_change_needs_the_permission_to_write(keyed: House) -> None:
    """Reading does not."""
    await keyed.register("shop")
    keyed.executors.work.add("e1", "v1", "done")
    headers = await keyed.mint("reader", ["application.read"])

    read = await keyed.client.get(f"{WORKFLOWS}/done", headers=headers)
    refused = await keyed.client.post(f"{WORKFLOWS}/done/cancel", headers=headers)

    assert read.status_code == 200
    problem(refused, 403)
    assert [asked["type"] for asked in keyed.executors.requests] == ["get_workflow"]


async def test_change_goes_on_when_its_client_goes(shop: House) -> None:
    """An executor may have made it already, and what is made is written down."""
    shop.executors.pause = asyncio.Event()
    is_read = False

    async def receive() -> dict[str, Any]:
        nonlocal is_read
        if is_read:
            await shop.executors.asked.wait()
            return {"type": "http.disconnect"}
        is_read = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Any) -> None:
        """Nobody is there."""

    async def answer_later() -> None:
        await shop.executors.asked.wait()
        assert shop.executors.pause is not None
        shop.executors.pause.set()

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"{WORKFLOWS}/running/cancel",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("192.0.2.7", 1),
    }
    await asyncio.gather(shop.serve(scope, receive, send), answer_later())

    assert len(shop.executors.received("cancel")) == 1
    assert await read_audit(shop) == [
        ("workflow.cancel", AuditStatus.SUCCESS, "workflow", "running")
    ]


async def test_failed_bulk_is_audited_with_its_workflows(shop: House) -> None:
    """A hundred of them by name; none where the body could not be read."""
    shop.executors.error = ExecutorBusyError(ExecutorId("e1"), 1000)
    ids = [f"w{number}" for number in range(250)]

    failed = await shop.client.post(
        f"{WORKFLOWS}/bulk-cancel", json={"workflowIds": ids}
    )
    refused = await shop.client.post(
        f"{WORKFLOWS}/bulk-cancel", json={"workflowIds": [1]}
    )

    problem(failed, 503)
    problem(refused, 422)
    unread, read = [record.entry.details for record in await shop.audit()][:2]
    assert read["workflow_ids"] == ids[:100]
    assert read["workflow_count"] == 250
    assert "workflow_ids" not in unread


async def test_change_from_another_origin_is_refused(shop: House) -> None:
    """In local mode a page has no key, but a reader it could act for."""
    response = await shop.client.post(
        f"{WORKFLOWS}/done/cancel", headers={"Origin": "https://evil.example"}
    )

    problem(response, 403)
    assert shop.executors.requests == []
