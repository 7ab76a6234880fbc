"""What every request meets, whatever it asks for."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.exceptions import RequestValidationError
from structlog.testing import capture_logs

from relay.errors import StoreUnavailableError
from relay.registry import Registry
from relay_api import bodies
from tests.api.house import PEER, House, open_house, problem

APPS = "/v2/orgs/local/apps"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nowhere",
        "/v2",
        f"{APPS}/",
        f"{APPS}//executors",
        f"{APPS}/shop/alerting-rules",
        "/v2/entitlements",
    ],
)
async def test_unknown_path_is_404(house: House, path: str) -> None:
    """Also an empty segment and a trailing slash."""
    await house.register("shop")

    problem(await house.client.get(path), 404)


async def test_encoded_slash_is_part_of_a_name(house: House) -> None:
    """It leads to no other path; as an application's name it breaks the rule."""
    await house.register("shop")

    document = problem(await house.client.get(f"{APPS}/shop%2Fexecutors"), 422)

    assert document["errors"][0]["value"] == "shop/executors"


async def test_encoded_literals_mean_the_same(house: House) -> None:
    """`%61` is `a`, in fixed segments and in names."""
    await house.register("shop")

    response = await house.client.get("/v2/%6Frgs/loc%61l/apps/sh%6Fp")

    assert response.json()["name"] == "shop"


@pytest.mark.parametrize(
    "path",
    ["/v2/orgs/%FF/apps", f"{APPS}/a%00b", "/v2/orgs/local/audit-logs?target=%00"],
)
async def test_url_that_is_no_text_is_400(house: House, path: str) -> None:
    """Bytes that are not UTF-8, and NUL, which no database stores."""
    problem(await house.client.get(path), 400)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", APPS, {"GET"}),
        ("POST", f"{APPS}/shop", {"GET", "PUT", "PATCH", "DELETE"}),
        ("OPTIONS", f"{APPS}/shop", {"GET", "PUT", "PATCH", "DELETE"}),
        ("PUT", f"{APPS}/shop/executors", {"GET"}),
        ("GET", "/v2/orgs/local/tokens/worker", {"POST", "DELETE"}),
        ("DELETE", "/v2/orgs/local/audit-logs", {"GET"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("PUT", "/relay/v1/orgs/local/apps/shop/recoveries", {"GET", "POST"}),
    ],
)
async def test_wrong_method_is_405_with_every_right_one(
    house: House, method: str, path: str, allowed: set[str]
) -> None:
    """`Allow` names the methods of all routes on the path."""
    response = await house.client.request(method, path)

    problem(response, 405)
    assert set(response.headers["allow"].split(", ")) == allowed


async def test_head_of_an_operation_is_a_wrong_method(house: House) -> None:
    """The contract has none, so that nobody is told it were missing here."""
    response = await house.client.head(f"{APPS}/shop")

    assert response.status_code == 405
    assert "GET" in response.headers["allow"]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {"Content-Type": "application/json"}, 400),
        (b"\xff\xfe", {"Content-Type": "application/json"}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {}, 415),
        (b"[]", {"Content-Type": "application/json"}, 422),
        (b"null", {"Content-Type": "application/json"}, 422),
        (b"NaN", {"Content-Type": "application/json"}, 422),
        (b'{"privateMode": NaN}', {"Content-Type": "application/json"}, 422),
        (b" " * (1024 * 1024 + 1), {"Content-Type": "application/json"}, 413),
        (b'{"a":' * 10_000, {"Content-Type": "application/json"}, 400),
    ],
)
async def test_unreadable_body_changes_nothing(
    house: House, content: bytes, headers: dict[str, str], status: int
) -> None:
    """Not JSON, not said to be JSON, not an object, or far too large."""
    response = await house.client.put(f"{APPS}/shop", content=content, headers=headers)

    problem(response, status)
    problem(await house.client.get(f"{APPS}/shop"), 404)


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/json; charset=utf-8", "application/merge+json"],
)
async def test_json_content_types_are_accepted(house: House, content_type: str) -> None:
    """With parameters, and the structured ones."""
    response = await house.client.put(
        f"{APPS}/shop", content=b"{}", headers={"Content-Type": content_type}
    )

    assert response.status_code == 204


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        (
            f"{APPS}/shop/workflows/bulk-cancel",
            b'{"workflowIds": [' + b"1," * 500_000 + b"1]}",
            "body.workflowIds[0]",
        ),
        (
            f"{APPS}/shop/workflows/search",
            b'{"status": [' + b"1," * 500_000 + b"1]}",
            "body.status[0]",
        ),
        (
            f"{APPS}/shop/workflows/search",
            b"{" + b",".join(b'"%d": 1' % number for number in range(90_000)) + b"}",
            "body",
        ),
    ],
    ids=["ids", "filters", "properties"],
)
async def test_of_very_many_mistakes_few_are_described(
    house: House,
    path: str,
    content: bytes,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To list half a million of them takes three seconds, for everybody."""
    await house.register("shop")
    described: list[int] = []

    def count(detail: Sequence[Any]) -> RequestValidationError:
        described.append(len(detail))
        return RequestValidationError(detail)

    monkeypatch.setattr(bodies, "RequestValidationError", count)
    response = await house.client.post(
        path, content=content, headers={"Content-Type": "application/json"}
    )

    answer = problem(response, 422)
    assert [flaw["location"] for flaw in answer["errors"]] == [told]
    assert described == [1]


async def test_half_a_surrogate_pair_is_refused(keyed: House) -> None:
    """A text that has no UTF-8 does not get as far as the database."""
    headers = await keyed.mint("caller")

    response = await keyed.client.post(
        "/v2/orgs/local/tokens/worker",
        content=b'{"permissions": ["\\ud800"]}',
        headers=headers | {"Content-Type": "application/json"},
    )

    assert response.status_code in {400, 422}
    problem(response, response.status_code)


async def test_unexpected_fault_is_500_with_an_id(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets an id and nothing else; the log has the rest under that id."""

    async def break_down(self: Registry, application: str) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Registry, "list_executors", break_down)

    with capture_logs() as logged:
        response = await house.client.get(f"{APPS}/shop/executors")

    document = problem(response, 500)
    assert "secret detail" not in repr(document)
    [line] = logged
    assert line["event"] == "request_failed"
    assert document["instance"] == f"urn:uuid:{line['request_id']}"
    assert line["exc_info"]


async def test_unexpected_fault_of_a_change_is_audited(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That something went wrong stands in the log; what exactly does not."""

    async def break_down(self: object, actor: object, name: str) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(type(house.registry.applications), "delete", break_down)

    with capture_logs():
        problem(await house.client.delete(f"{APPS}/shop"), 500)

    [record] = await house.audit()
    assert record.entry.operation == "application.delete"
    assert "secret detail" not in repr(record)


async def test_store_outage_is_503_with_retry_after(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the failure cannot be audited for the same reason."""

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailableError("secret-host refused")

    monkeypatch.setattr(type(house.database), "transaction", refuse)

    for method, path in [
        ("GET", APPS),
        ("PUT", f"{APPS}/shop"),
        ("GET", "/readyz"),
    ]:
        response = await house.client.request(method, path)

        assert "secret-host" not in problem(response, 503)["detail"]
        assert response.headers["retry-after"] == "5"
    assert (await house.client.get("/healthz")).status_code == 200


async def test_a_store_that_only_takes_no_writes_is_not_ready(house: House) -> None:
    """Deaths would go unnoticed, although every question is answered."""
    house.monitor.absence = StoreUnavailableError("database is locked")

    problem(await house.client.get("/readyz"), 503)

    assert (await house.client.get("/healthz")).status_code == 200
    assert (await house.client.get(APPS)).status_code == 200


async def test_health_endpoints_answer_without_a_key(keyed: House) -> None:
    """GET and HEAD, for whoever watches the process."""
    for path in ("/healthz", "/readyz"):
        got = await keyed.client.get(path)
        head = await keyed.client.head(path)

        assert (got.status_code, got.json()) == (200, {"status": "ok"})
        assert head.status_code == 200


async def test_metrics_are_prometheus_text(house: House) -> None:
    """Relay's own figures, in the form that is asked for."""
    await house.register("shop")

    plain = await house.client.get("/metrics")
    modern = await house.client.get(
        "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"}
    )

    assert plain.headers["content-type"].startswith("text/plain")
    assert 'relay_audit_entries_total{operation="application.create"' in plain.text
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")
    assert "_created" not in plain.text + modern.text


async def test_schema_is_sent_once_the_server_knows_its_url(
    migrated_file: Path, tmp_path: Path
) -> None:
    """`$schema` of a single object leads to its JSON Schema; items have none."""
    async with open_house(
        migrated_file, tmp_path, public_url="https://relay.example/conductor"
    ) as house:
        await house.register("shop")

        application = (await house.client.get(f"{APPS}/shop")).json()
        listed = (await house.client.get(APPS)).json()
        token = (await house.client.post("/v2/orgs/local/tokens/worker")).json()

    base = "https://relay.example/conductor/schemas"
    assert application["$schema"] == f"{base}/Application.json"
    assert token["$schema"] == f"{base}/TokenCreated.json"
    assert "$schema" not in listed[0]


async def test_public_url_is_an_own_name(migrated_file: Path, tmp_path: Path) -> None:
    """A proxy's host name and the pages it serves are known then."""
    async with open_house(
        migrated_file, tmp_path, public_url="https://relay.example"
    ) as house:
        response = await house.client.put(
            f"{APPS}/shop",
            headers={"Host": "relay.example", "Origin": "https://relay.example"},
        )

    assert response.status_code == 204


async def test_root_path_may_stay_in_place_or_be_stripped(
    migrated_file: Path, tmp_path: Path
) -> None:
    """Both kinds of proxy work, and `Location` leads back through it."""
    async with open_house(migrated_file, tmp_path, root_path="/conductor") as house:
        await house.client.put(f"/conductor{APPS}/shop")

        stripped = await house.client.get(f"{APPS}/shop")
        kept = await house.client.get(f"/conductor{APPS}/shop")
        ordered = await house.client.post(
            "/conductor/relay/v1/orgs/local/apps/shop/recoveries",
            json={"executorId": "e1", "appVersion": "v1"},
        )
        wrong = await house.client.post(f"/conductor{APPS}")

    assert stripped.json() == kept.json()
    assert ordered.headers["location"].startswith("/conductor/relay/v1/")
    assert wrong.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("trusted", "forwarded", "source"),
    [
        ("", "198.51.100.1", PEER),
        ("192.0.2.0/24", "198.51.100.1", "198.51.100.1"),
        ("192.0.2.0/24", "203.0.113.5, 198.51.100.1", "198.51.100.1"),
        ("192.0.2.0/24", "203.0.113.5, 192.0.2.1", "203.0.113.5"),
        ("203.0.113.0/24", "198.51.100.1", PEER),
        ("192.0.2.0/24", "nonsense", PEER),
    ],
)
async def test_source_address_is_believed_from_trusted_proxies_only(
    migrated_file: Path, tmp_path: Path, trusted: str, forwarded: str, source: str
) -> None:
    """What a stranger writes into `X-Forwarded-For` is not evidence."""
    async with open_house(migrated_file, tmp_path, trusted_proxies=trusted) as house:
        await house.client.put(f"{APPS}/shop", headers={"X-Forwarded-For": forwarded})

        [record] = await house.audit()

    assert record.entry.source_ip == source


async def test_key_stands_nowhere_but_in_its_answer(
    keyed: House,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wherever a caller puts a key, Relay repeats it nowhere."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.WARNING, logger="httpx")  # the caller's own log
    headers = await keyed.mint("admin")
    created = await keyed.client.post(
        "/v2/orgs/local/tokens/worker",
        json={"permissions": ["application.read"]},
        headers=headers,
    )
    key = created.json()["token"]
    bearer = {"Authorization": f"Bearer {key}"}
    answers: list[httpx.Response] = [
        await keyed.client.get(f"{APPS}/{key}", headers=bearer),
        await keyed.client.put(f"{APPS}/{key}", headers=headers),
        await keyed.client.put(f"{APPS}/shop", json={key: key}, headers=headers),
        await keyed.client.delete(f"/v2/orgs/local/tokens/{key}", headers=headers),
        await keyed.client.post(f"/v2/orgs/local/tokens/{key}", headers=headers),
        await keyed.client.post(
            "/v2/orgs/local/tokens/x",
            json={"appNames": [key], "permissions": [key]},
            headers=headers,
        ),
        await keyed.client.post(
            "/v2/orgs/local/tokens/x", json={"appNames": [key]}, headers=headers
        ),
        await keyed.client.get(f"/v2/orgs/{key}/apps", headers=headers),
        await keyed.client.get(
            "/v2/orgs/local/audit-logs", params={"limit": key}, headers=headers
        ),
        await keyed.client.get(f"/{key}", headers=headers),
        await keyed.client.get("/v2/orgs/local/tokens", headers=headers),
        await keyed.client.get("/metrics", headers=headers),
    ]

    written = [answer.text for answer in answers]
    written.append(repr(await keyed.audit()))
    written.append(caplog.text)
    written += capsys.readouterr()
    marker = key.removeprefix("dbos_")
    for text in written:
        assert marker not in text
