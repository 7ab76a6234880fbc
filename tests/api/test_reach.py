"""A key that is limited to an application, and workflows of another one."""

import json
from typing import Any

import pytest

from tests.api.house import House

WORKFLOWS = "/v2/orgs/local/apps/shop/workflows"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "{id}/cancel", {}),
        ("POST", "{id}/resume", {}),
        ("DELETE", "{id}", None),
        ("POST", "{id}/fork", {}),
        ("POST", "{id}/fork", {"newWorkflowId": "ours"}),
        *(
            ("POST", f"bulk-{verb}", {"workflowIds": ids, **options})
            for ids in (["{id}"], ["ours", "{id}"])
            for verb, options in (
                ("cancel", {}),
                ("resume", {}),
                ("delete", {}),
                ("fork-from-failure", {"fromLastStep": True}),
            )
        ),
    ],
)
async def test_limited_key_cannot_tell_anothers_workflow_from_an_unknown_one(
    keyed: House, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """Executors would do it: they look for ids in the database that several share."""
    await keyed.register("shop")
    keyed.executors.work.add("e1", "v1", "ours", "theirs")
    keyed.executors.work.assign("shop", "ours")
    keyed.executors.work.assign("bank", "theirs")
    headers = await keyed.mint("limited", ["application.write"], ["shop"])

    async def attempt(id_: str) -> tuple[int, str]:
        answer = await keyed.client.request(
            method,
            f"{WORKFLOWS}/{path}".replace("{id}", id_),
            headers={**headers, "Content-Type": "application/json"},
            content=None if body is None else json.dumps(body).replace("{id}", id_),
        )
        return answer.status_code, answer.text.replace(id_, "{id}")

    foreign, unknown = await attempt("theirs"), await attempt("nobodys")

    assert foreign == unknown
    assert "theirs" not in {
        id_
        for request in keyed.executors.requests
        if request["type"] not in ("get_workflow", "list_workflows")
        for id_ in (request.get("workflow_id"), *request.get("workflow_ids", ()))
    }
