"""The HTTP API as the checks use it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from tests.acceptance.processes import ExecutorProcess, RelayProcess, until

APPLICATION = "loop"


class Unsupported(Exception):  # noqa: N818 - a finding, not an error
    """The SDK does not know what was asked."""


class Api:
    """One application behind one Relay, and the executor that performs it."""

    def __init__(self, relay: RelayProcess, executor: ExecutorProcess) -> None:
        self.relay = relay
        self.executor = executor

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        status: int = 200,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """
        The JSON of an answer with that status, or nothing if it has no body.

        Raises:
            Unsupported: the SDK does not know the message, or an option of it.
        """
        response = await self.send(method, path, body, params=params)
        if "does not know" in response.text or "would ignore" in response.text:
            raise Unsupported(response.json()["detail"])
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The answer, whatever it is."""
        return await self.relay.http.request(
            method,
            f"/v2/orgs/local/apps/{APPLICATION}/{path}",
            json=body,
            params=params,
            timeout=30,
        )

    async def workflow(self, workflow_id: str) -> dict[str, Any]:
        """One workflow, which exists."""
        shown: dict[str, Any] = await self.call(
            "GET", f"workflows/{quote(workflow_id, safe='')}"
        )
        return shown

    async def becomes(self, workflow_id: str, *statuses: str, within: float) -> None:
        """Wait until a workflow has one of these statuses."""

        async def look() -> bool:
            return (await self.workflow(workflow_id))["status"] in statuses

        await until(f"{workflow_id} is {' or '.join(statuses)}", look, within=within)

    async def is_gone(self, workflow_id: str) -> None:
        """Demand that a workflow does not exist."""
        response = await self.send("GET", f"workflows/{quote(workflow_id, safe='')}")
        assert response.status_code == 404, response.text


def instant(text: str) -> datetime:
    """An instant of an answer: RFC 3339 in UTC with milliseconds."""
    assert text.endswith("Z"), text
    return datetime.fromisoformat(text)
