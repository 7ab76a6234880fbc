"""
Two applications whose executors share a system database, and a key for each.

What `SECURITY.md` promises: to the holder of one key nothing of the other application
exists, and nothing of it can be touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.environments import (
    GO,
    JAVA,
    PYTHON,
    TYPESCRIPT,
    Sdk,
    skip_without,
)
from tests.acceptance.operations.api import Api
from tests.acceptance.processes import RelayProcess, until
from tests.acceptance.stage import Stage

pytestmark = pytest.mark.acceptance

OURS, THEIRS = "ours", "theirs"
"""The applications; their executors have the versions `v1` and `v2`."""

SPAN = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-02T00:00:00Z"}
KNOWN = ("story", "busy", "failing", "nightly", "jobs", "v2")
"""What the other application has."""

ABOUT_ONE: Sequence[tuple[str, str, str, object]] = (
    # Method, path, the name that stands in it or in the body, body.
    ("GET", "workflows/{name}", "story", None),
    ("GET", "workflows/{name}/steps", "story", None),
    ("GET", "workflows/{name}/events", "story", None),
    ("GET", "workflows/{name}/notifications", "story", None),
    ("GET", "workflows/{name}/streams", "story", None),
    ("GET", "workflows/{name}/export", "story", None),
    ("GET", "workflows/{name}/diagnosis", "busy", None),
    ("POST", "workflows/{name}/fork", "story", {}),
    ("POST", "workflows/{name}/resume", "failing", {}),
    ("POST", "workflows/{name}/cancel", "busy", {"cancelChildren": True}),
    ("DELETE", "workflows/{name}", "story", None),
    ("POST", "workflows/bulk-cancel", "busy", {"workflowIds": ["{name}", "none"]}),
    ("POST", "workflows/bulk-delete", "story", {"workflowIds": ["{name}", "none"]}),
    ("POST", "workflows/bulk-resume", "failing", {"workflowIds": ["{name}"]}),
    (
        "POST",
        "workflows/bulk-fork-from-failure",
        "failing",
        {"workflowIds": ["{name}"], "fromLastFailure": True},
    ),
    ("GET", "queues/{name}", "jobs", None),
    ("GET", "schedules/{name}", "nightly", None),
    ("POST", "schedules/{name}/pause", "nightly", None),
    ("POST", "schedules/{name}/resume", "nightly", None),
    ("POST", "schedules/{name}/trigger", "nightly", None),
    ("POST", "schedules/{name}/backfill", "nightly", SPAN),
    ("PATCH", "versions/latest", "v2", {"versionName": "{name}"}),
)
SHOWING: Sequence[tuple[str, str, object]] = (
    ("GET", "workflows", None),
    ("POST", "workflows/search", {"loadInput": True, "loadOutput": True}),
    ("POST", "workflows/search", {"workflowIds": ["story", "busy", "failing"]}),
    ("POST", "workflows/search", {"parentWorkflowId": ["story"]}),
    ("GET", "queues", None),
    ("GET", "schedules", None),
    ("GET", "versions", None),
    ("GET", "attention", None),
)
"""All that lists something."""
OF_RELAY = ("attention", "workflows/busy/diagnosis", "workflows/nix/diagnosis")
"""What is Relay's own, and no part of the contract."""
RIGHTS = ("websocket.connect", "application.read", "application.write")


@dataclass(frozen=True, slots=True)
class Desk:
    """The HTTP API of one application to the holder of a key."""

    relay: RelayProcess
    application: str
    key: str

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status of an answer and what it says."""
        root = "/relay/v1" if path in OF_RELAY else "/v2"
        response = await self.relay.http.request(
            method,
            f"{root}/orgs/local/apps/{self.application}/{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=30,
        )
        told = response.json() if response.content else None
        if isinstance(told, dict):
            # An id of the answer itself.
            told.pop("instance", None)
        return response.status_code, told

    async def have(self, method: str, path: str, body: object = None) -> Any:
        """What a request returns that succeeds."""
        status, told = await self.ask(method, path, body)
        assert status < 300, (path, told)
        return told

    async def show_all(self) -> Mapping[str, object]:
        """Everything that can be listed."""
        return {
            f"{method} {path} {body}": await self.have(method, path, body)
            for method, path, body in SHOWING
        }


async def open_both(stage: Stage, sdk: Sdk) -> tuple[Api, Desk, Desk]:
    """The other application has everything; ours has the workflows `own` and `mine`."""
    skip_without(sdk)
    relay = await stage.relay(RELAY_AUTH="keys")
    admin = (await relay.command("key", "create", "--admin")).strip()
    relay.http.headers["Authorization"] = f"Bearer {admin}"
    desks = []
    executors = []
    for name, version in ((OURS, "v1"), (THEIRS, "v2")):
        await relay.configure(name)
        rights = [word for right in RIGHTS for word in ("--permission", right)]
        command = ("key", "create", name, "--app", name, *rights)
        key = (await relay.command(*command)).strip()
        desks.append(Desk(relay, name, key))
        executors.append(
            await stage.executor(
                sdk, name, relay=relay, application=name, version=version, key=key
            )
        )
    ours, theirs = executors
    await ours.begin("own", steps=1, seconds=0)
    await ours.begin("mine", steps=1, seconds=0)
    await theirs.perform()
    await theirs.begin("busy", steps=1, seconds=300)
    await stage.steps.reached("busy", 1, within=20)
    await stage.succeeded("own", "mine", within=20)
    return Api(relay, ours), desks[0], desks[1]


@pytest.mark.parametrize("sdk", [PYTHON[0], TYPESCRIPT[0], GO[0]], ids=str)
async def test_nothing_of_another_application_is_shown_or_touched(
    stage: Stage, sdk: Sdk
) -> None:
    """
    By whatever operation; what is theirs is answered as what does not exist.

    About 25 s.
    """
    _, ours, theirs = await open_both(stage, sdk)
    before = await theirs.show_all()
    assert "story" in str(before)

    for method, path, name, body in ABOUT_ONE:
        told = await ours.ask(method, *_about(path, name, body))
        of_none = await ours.ask(method, *_about(path, "nix", body))

        assert of_none[0] in (204, 404), (method, path, of_none)
        expected = (of_none[0], _renamed(of_none[1], "nix", name))
        assert told == expected, (method, path)
    for path, body in (
        ("workflows/bulk-resume", {"workflowIds": ["own", "failing"]}),
        ("workflows/own/fork", {"newWorkflowId": "story"}),
    ):
        status, told = await ours.ask("POST", path, body)
        assert status in (404, 409), (path, told)
    await ours.have(
        "POST", "workflows/bulk-delete", {"workflowIds": ["story", "mine", "busy"]}
    )

    shown = await ours.show_all()
    leaks = {what: told for what, told in shown.items() if _names(told, KNOWN)}
    assert leaks == {}
    assert [row["workflowId"] for row in await ours.have("GET", "workflows")] == ["own"]
    counting = {"groupByStatus": True, "selectCount": True}
    [row] = await ours.have("POST", "workflows/aggregates", counting)
    assert (row["group"]["status"], row["count"]) == ("SUCCESS", 1)
    naming = {"groupByFunctionName": True, "selectCount": True}
    [row] = await ours.have("POST", "steps/aggregates", naming)
    assert row["count"] == 1
    assert await theirs.show_all() == before
    assert await _show_versions(ours) == {"v1": True}
    assert await _show_versions(theirs) == {"v2": True}


@pytest.mark.parametrize("sdk", [PYTHON[0], JAVA[0]], ids=str)
async def test_another_applications_version_is_never_the_latest(
    stage: Stage, sdk: Sdk
) -> None:
    """
    Although an SDK may list it first, and accept it as such.

    What goes to the latest version only, as a resumption does, goes to ours. About
    25 s.
    """
    api, ours, theirs = await open_both(stage, sdk)

    refused, _ = await ours.ask("PATCH", "versions/latest", {"versionName": "v2"})
    await ours.have("PATCH", "versions/latest", {"versionName": "v1"})
    await theirs.have("PATCH", "versions/latest", {"versionName": "v2"})

    assert refused == 404
    assert (await _show_versions(ours))["v1"]
    assert (await _show_versions(theirs))["v2"]
    await api.executor.begin("long", steps=8, seconds=0.5)
    await ours.have("POST", "workflows/long/cancel")
    await _becomes(ours, "long", "CANCELLED")
    await ours.have("POST", "workflows/long/resume")
    await _becomes(ours, "long", "SUCCESS")


async def _show_versions(desk: Desk) -> Mapping[str, bool]:
    """Each version, and whether it is the latest."""
    shown = await desk.relay.http.get(
        f"/relay/v1/orgs/local/apps/{desk.application}/versions",
        headers={"Authorization": f"Bearer {desk.key}"},
    )
    assert shown.status_code == 200, shown.text
    return {row["appVersion"]: row["isLatest"] for row in shown.json()["versions"]}


async def _becomes(desk: Desk, workflow: str, status: str) -> None:
    async def look() -> bool:
        shown = await desk.have("GET", f"workflows/{workflow}")
        return bool(shown["status"] == status)

    await until(f"{workflow} is {status}", look, within=30)


def _about(path: str, name: str, body: object) -> tuple[str, object]:
    return path.replace("{name}", name), _renamed(body, "{name}", name)


def _renamed(told: Any, old: str, new: str) -> Any:
    """The same with another name in all its texts."""
    match told:
        case str():
            return told.replace(old, new)
        case list():
            return [_renamed(each, old, new) for each in told]
        case dict():
            return {key: _renamed(each, old, new) for key, each in told.items()}
        case _:
            return told


def _names(told: Any, names: Sequence[str]) -> bool:
    """Whether any of its texts is one of these names."""
    match told:
        case list():
            return any(_names(each, names) for each in told)
        case dict():
            return any(_names(each, names) for each in told.values())
        case _:
            return told in names
