"""Who may call what, in both modes."""

import re
from typing import Any

import pytest

from relay.access import Permission
from relay.records import AuditStatus
from relay.registry import SHELL_ACTOR
from relay_api.app import create_app
from tests.api.house import House, problem

ORG = "/v2/orgs/local"
OWN = "/relay/v1/orgs/local/apps/shop"

CALLS: list[tuple[str, str, Any, str, int]] = [
    ("GET", f"{ORG}/apps", None, "application.read", 200),
    ("GET", f"{ORG}/apps/shop", None, "application.read", 200),
    ("PUT", f"{ORG}/apps/shop", {}, "application.write", 204),
    ("PATCH", f"{ORG}/apps/shop", {}, "application.write", 204),
    ("DELETE", f"{ORG}/apps/shop", None, "application.write", 204),
    ("GET", f"{ORG}/apps/shop/executors", None, "application.read", 200),
    ("GET", f"{ORG}/tokens", None, "token.read", 200),
    ("DELETE", f"{ORG}/tokens/caller", None, "token.write", 204),
    ("GET", f"{ORG}/audit-logs", None, "organization.read", 200),
    ("GET", "/v1alpha1/api/local/audit-logs", None, "organization.read", 200),
    ("GET", "/metrics", None, "metric.read", 200),
    ("GET", f"{OWN}/executors", None, "application.read", 200),
    ("GET", f"{OWN}/settings", None, "application.read", 200),
    ("PATCH", f"{OWN}/settings", {}, "application.write", 204),
    ("GET", f"{OWN}/recoveries", None, "application.read", 200),
    ("GET", f"{OWN}/census", None, "application.read", 200),
    ("GET", f"{OWN}/recoveries/none", None, "application.read", 404),
    (
        "POST",
        f"{OWN}/recoveries",
        {"executorId": "e1", "appVersion": "v1"},
        "application.write",
        201,
    ),
    ("POST", f"{OWN}/recoveries/none/retry", None, "application.write", 404),
    (
        "POST",
        f"{OWN}/recoveries/none/migrate",
        {"appVersion": "v2"},
        "application.write",
        404,
    ),
    ("GET", f"{OWN}/recoveries/none/migration", None, "application.read", 404),
    (
        "POST",
        f"{OWN}/recoveries/none/abandon",
        {"reason": "obsolete"},
        "application.write",
        404,
    ),
]
"""Method, path, body, the permission it takes, and the status with it."""

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
SHOP = f"{ORG}/apps/shop"

READS = {
    **dict.fromkeys(("queues", "schedules", "versions", "workflows"), 200),
    "queues/jobs": 200,
    "schedules/nightly": 200,
    "workflows/w": 404,
    **{f"workflows/w/{part}": 404 for part in ("steps", "events", "export")},
    **{f"workflows/w/{part}": 404 for part in ("notifications", "streams")},
    f"metrics?startTime={NOW}&endTime={LATER}": 200,
}
SEARCHES = {
    "workflows/search": {},
    "workflows/aggregates": {"groupByStatus": True},
    "steps/aggregates": {"groupByStatus": True},
}
ORDERS: dict[str, tuple[Any, int]] = {
    "workflows/w/cancel": ({}, 204),
    "workflows/w/resume": ({}, 404),
    "workflows/w/fork": ({}, 404),
    "workflows/bulk-cancel": ({"workflowIds": ["w"]}, 204),
    "workflows/bulk-resume": ({"workflowIds": ["w"]}, 404),
    "workflows/bulk-delete": ({"workflowIds": ["w"]}, 204),
    "workflows/bulk-fork-from-failure": (
        {"workflowIds": ["w"], "fromLastStep": True},
        404,
    ),
    "workflows/import": ({"serializedWorkflow": "text"}, 403),
    "schedules/nightly/pause": (None, 204),
    "schedules/nightly/resume": (None, 204),
    "schedules/nightly/trigger": (None, 201),
    "schedules/nightly/backfill": ({"startTime": NOW, "endTime": LATER}, 200),
}

ASKED: list[tuple[str, str, Any, str, int]] = [
    *(
        (
            "GET",
            f"{SHOP}/{path}",
            None,
            "metric.read" if path.startswith("metrics") else "application.read",
            status,
        )
        for path, status in READS.items()
    ),
    *(
        ("POST", f"{SHOP}/{path}", body, "application.read", 200)
        for path, body in SEARCHES.items()
    ),
    *(
        ("POST", f"{SHOP}/{path}", body, "application.write", status)
        for path, (body, status) in ORDERS.items()
    ),
    ("GET", f"{OWN}/workflows/w/diagnosis", None, "application.read", 404),
    ("GET", f"{OWN}/attention", None, "application.read", 200),
    ("GET", f"{OWN}/versions", None, "application.read", 200),
    ("DELETE", f"{SHOP}/workflows/w", None, "application.write", 204),
    (
        "PATCH",
        f"{SHOP}/versions/latest",
        {"versionName": "v1"},
        "application.write",
        204,
    ),
]
"""The same for what an executor is asked; `w` is a workflow it does not know."""

CALLS += ASKED

OPEN_PATHS = {"/healthz", "/readyz", "/v2/orgs/{orgName}/permissions"}
"""Anybody may read these."""

CHANGES = [call for call in CALLS if call[3].endswith(".write")]


@pytest.mark.parametrize(("method", "path", "body", "permission", "status"), CALLS)
async def test_call_takes_exactly_its_permission(
    keyed: House, method: str, path: str, body: Any, permission: str, status: int
) -> None:
    """It works with that permission alone, and with all others but that it is 403."""
    await keyed.register("shop")
    others = [name.value for name in Permission if name != permission]
    without = await keyed.mint("stranger", others)
    having = await keyed.mint("caller", [permission])

    refused = await keyed.client.request(method, path, json=body, headers=without)
    answered = await keyed.client.request(method, path, json=body, headers=having)

    problem(refused, 403)
    assert answered.status_code == status


@pytest.mark.parametrize(("method", "path", "body", "permission", "status"), CALLS)
async def test_call_without_a_living_key_is_401(
    keyed: House, method: str, path: str, body: Any, permission: str, status: int
) -> None:
    """No key, an unknown one, a revoked one and another scheme are turned away."""
    del permission, status
    revoked = await keyed.mint("revoked")
    await keyed.registry.keys.revoke(SHELL_ACTOR, "revoked")
    before = len(await keyed.audit())

    for headers in (
        {},
        {"Authorization": "Bearer dbos_" + "x" * 43},
        {"Authorization": "Bearer something"},
        {"Authorization": revoked["Authorization"].replace("Bearer", "Basic")},
        revoked,
    ):
        response = await keyed.client.request(method, path, json=body, headers=headers)

        problem(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    assert len(await keyed.audit()) == before


@pytest.mark.parametrize(("method", "path", "body", "permission", "status"), CHANGES)
async def test_refused_change_is_audited(
    keyed: House, method: str, path: str, body: Any, permission: str, status: int
) -> None:
    """A 403 stands in the audit log with the key's name and the caller's address."""
    del status
    await keyed.register("shop")
    others = [name.value for name in Permission if name != permission]
    headers = await keyed.mint("stranger", others)

    await keyed.client.request(method, path, json=body, headers=headers)

    entry = (await keyed.audit())[0].entry
    assert entry.status is AuditStatus.FAILURE
    assert (entry.subject.kind, entry.subject.display) == ("api_key", "stranger")
    assert entry.source_ip == "192.0.2.7"
    assert permission in entry.details["error"]


async def test_stranger_learns_nothing_about_a_bad_body(keyed: House) -> None:
    """Who is asking is settled before what they sent is read."""
    response = await keyed.client.patch(f"{ORG}/apps/shop", content=b"{broken")

    problem(response, 401)


async def test_limited_key_sees_its_applications_only(keyed: House) -> None:
    """Listing is filtered, everything else outside the scope is 403."""
    await keyed.register("shop")
    await keyed.register("bank")
    headers = await keyed.mint("limited", [name.value for name in Permission], ["shop"])

    listed = await keyed.client.get(f"{ORG}/apps", headers=headers)

    assert [application["name"] for application in listed.json()] == ["shop"]
    for method, path in [
        ("GET", f"{ORG}/apps/bank"),
        ("GET", f"{ORG}/apps/nowhere"),
        ("PUT", f"{ORG}/apps/nowhere"),
        ("DELETE", f"{ORG}/apps/bank"),
        ("GET", f"{ORG}/audit-logs"),
        ("GET", "/metrics"),
    ]:
        response = await keyed.client.request(method, path, headers=headers)
        problem(response, 403)
    inside = await keyed.client.get(f"{ORG}/apps/shop", headers=headers)
    assert inside.status_code == 200


async def test_local_mode_never_refuses_a_token(house: House) -> None:
    """Clients send the token they have; in local mode nobody looks at it."""
    for token in ("nonsense", "dbos_" + "x" * 43, ""):
        response = await house.client.get(
            f"{ORG}/apps", headers={"Authorization": f"Bearer {token}"}
        )

        assert response.status_code == 200


async def test_key_use_is_written_with_the_next_flush(keyed: House) -> None:
    """Last use is collected in memory and written in one go."""
    headers = await keyed.mint("caller")
    await keyed.client.get(f"{ORG}/apps", headers=headers)
    [before] = await keyed.registry.keys.list_live()

    await keyed.registry.finish()

    [after] = await keyed.registry.keys.list_live()
    assert before.last_used_at is None
    assert after.last_used_at is not None


OPERATIONS_OF_IDENTITY_PROVIDERS = [
    "/v2/users",
    "/v2/users/me",
    "/v2/orgs/local",
    "/v2/orgs/local/join",
    "/v2/orgs/local/secrets",
    "/v2/orgs/local/members",
    "/v2/orgs/local/members/somebody",
    "/v2/orgs/local/members/somebody/roles/some_role",
    "/v2/orgs/local/domain-claims",
    "/v2/orgs/local/domain-claims/example.com",
    "/v2/orgs/local/roles",
    "/v2/orgs/local/roles/some_role",
]


@pytest.mark.parametrize("path", OPERATIONS_OF_IDENTITY_PROVIDERS)
async def test_operations_of_identity_providers_do_not_exist(
    house: House, path: str
) -> None:
    """They are 404 for every method, never 405."""
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        problem(await house.client.request(method, path), 404)


def test_every_operation_is_in_the_table(house: House) -> None:
    """A new route has to be given its permission here, and so meets these tests."""
    app = create_app(house.settings)
    served = {
        (method.upper(), re.sub(r"\{[^}]*\}", "[^/]+", path))
        for path, item in app.openapi()["paths"].items()
        for method in item
        if path not in OPEN_PATHS and method != "head"
    }
    called = {(method, path.partition("?")[0]) for method, path, *_ in CALLS}
    called.add(("POST", f"{ORG}/tokens/worker"))  # see test_tokens.py

    for method, pattern in served:
        assert any(
            method == name and re.fullmatch(pattern, path) for name, path in called
        ), f"{method} {pattern}"


SIGNS_OF_A_FOREIGN_PAGE: list[tuple[dict[str, str], int]] = [
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "http://localhost:3000"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://[::1"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
]


@pytest.mark.parametrize(("method", "path", "body", "permission", "status"), CHANGES)
async def test_web_page_of_another_origin_changes_nothing(
    house: House, method: str, path: str, body: Any, permission: str, status: int
) -> None:
    """In local mode every change is refused to it, and audited."""
    del permission, status
    await house.register("shop")

    for headers, expected in SIGNS_OF_A_FOREIGN_PAGE:
        response = await house.client.request(
            method,
            path,
            json=body,
            headers={"Content-Type": "application/json"} | headers,
        )

        problem(response, expected)
    failures = [
        record.entry
        for record in await house.audit()
        if record.entry.status is AuditStatus.FAILURE
    ]
    assert len(failures) == len(SIGNS_OF_A_FOREIGN_PAGE)
    assert (await house.client.get(f"{ORG}/apps/shop")).status_code == 200


async def test_page_of_this_server_may_change_things(house: House) -> None:
    """The origin that served the page is the one it asks."""
    response = await house.client.put(
        f"{ORG}/apps/shop",
        json={},
        headers={"Origin": "http://localhost:8090", "Sec-Fetch-Site": "same-origin"},
    )

    assert response.status_code == 204


async def test_keys_mode_looks_at_no_origin(keyed: House) -> None:
    """There a page has no key, so that nothing else needs to protect it."""
    headers = await keyed.mint("caller")

    response = await keyed.client.put(
        f"{ORG}/apps/shop", json={}, headers=headers | {"Origin": "http://a.example"}
    )

    assert response.status_code == 204


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8090", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8090", 200),
        ("127.9.9.9", 200),
        ("[::1]:8090", 200),
        ("relay.localhost", 200),
        ("evil.example", 403),
        ("evil.example:8090", 403),
        ("localhost.evil.example", 403),
        ("192.0.2.1:8090", 403),
        ("[", 403),
        ("", 403),
    ],
)
async def test_local_mode_answers_to_its_own_names_only(
    house: House, host: str, status: int
) -> None:
    """A name that was rebound to this machine reads nothing, not even metrics."""
    for path in (f"{ORG}/apps", "/metrics"):
        response = await house.client.get(path, headers={"Host": host})

        assert response.status_code == status


async def test_keys_mode_answers_to_every_name(keyed: House) -> None:
    """A key protects it; proxies may forward any name."""
    headers = await keyed.mint("caller")

    response = await keyed.client.get(
        f"{ORG}/apps", headers=headers | {"Host": "relay.example"}
    )

    assert response.status_code == 200
