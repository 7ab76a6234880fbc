"""The contract's own routes: documents, schemas, the page, and their caching."""

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from fastapi import FastAPI
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from relay.settings import RelaySettings
from relay_api.contract import SERVED_MARK, list_operations, load_contract
from relay_api.contract_page import render_page
from relay_api.routes.contract import relay_document, router, served_operations

FORMS = [
    ("/openapi.json", "application/json"),
    ("/openapi.yaml", "application/yaml"),
    ("/openapi-3.0.json", "application/json"),
    ("/schemas/Application.json", "application/schema+json"),
    ("/docs", "text/html; charset=utf-8"),
    ("/relay/v1/openapi.json", "application/json"),
]


class Extra(BaseModel):
    """A shape that belongs to Relay."""

    name: str


class Listed(BaseModel):
    """A shape that belongs to the contract."""

    name: str


def build_app() -> FastAPI:
    app = FastAPI(title="x", version="7.1", openapi_url=None, docs_url=None)
    app.include_router(router)

    @app.get("/v2/orgs/{org}/apps")
    async def list_apps(org: str) -> list[Listed]:
        return [Listed(name=org)]

    @app.get("/relay/v1/orgs/{org}/extras")
    async def list_extras(org: str) -> list[Extra]:
        return [Extra(name=org)]

    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = build_app()
    settings = RelaySettings(root_path="/conductor")

    async def with_server(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"server": SimpleNamespace(settings=settings)}
        await app(scope, receive, send)

    transport = httpx.ASGITransport(app=with_server)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as opened:
        yield opened


@pytest.mark.parametrize(("path", "media_type"), FORMS)
async def test_form_is_served_and_cached(
    client: httpx.AsyncClient, path: str, media_type: str
) -> None:
    """A client that shows the entity tag gets nothing sent twice."""
    first = await client.get(path)
    again = await client.get(
        path, headers={"If-None-Match": f'"x", {first.headers["ETag"]}'}
    )
    other = await client.get(path, headers={"If-None-Match": '"x"'})

    assert first.status_code == 200
    assert first.headers["Content-Type"] == media_type
    assert "max-age" in first.headers["Cache-Control"]
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert (other.status_code, other.content) == (200, first.content)


@pytest.mark.parametrize(("path", "media_type"), FORMS)
async def test_form_answers_head(
    client: httpx.AsyncClient, path: str, media_type: str
) -> None:
    """HEAD tells what GET would."""
    answer = await client.head(path)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == media_type


async def test_documents_carry_the_prefix_of_the_server(
    client: httpx.AsyncClient,
) -> None:
    """Behind a prefix, paths and schema addresses are those a client must use."""
    servers = [{"url": "/conductor"}]

    assert (await client.get("/openapi.json")).json()["servers"] == servers
    assert (await client.get("/openapi-3.0.json")).json()["servers"] == servers
    assert (await client.get("/relay/v1/openapi.json")).json()["servers"] == servers
    assert (
        yaml.safe_load((await client.get("/openapi.yaml")).text)["servers"] == servers
    )
    schema = (await client.get("/schemas/AuditLogEntry.json")).json()
    assert schema["$id"] == "/conductor/schemas/AuditLogEntry.json"
    assert schema["properties"]["subject"]["$ref"] == (
        "/conductor/schemas/AuditSubject.json"
    )


async def test_served_document_is_the_contract(client: httpx.AsyncClient) -> None:
    """What is served is the file, apart from what is said about the server itself."""
    document = (await client.get("/openapi.json")).json()

    marked = [part for *_, part in list_operations(document) if SERVED_MARK in part]
    assert {part.pop(SERVED_MARK) for part in marked} == {False}
    assert len(marked) == len(list_operations(document)) - 1
    contract = load_contract()
    paragraphs = document["info"]["description"].split("\n\n")
    assert "answers 1 of these" in paragraphs.pop(1)
    document["info"]["description"] = "\n\n".join(paragraphs)
    assert document | {"servers": contract["servers"]} == contract


def test_relay_document_has_relay_paths_only() -> None:
    """Relay's own document is valid, and has no path or schema of the contract."""
    document = relay_document(build_app())

    OpenAPIV31SpecValidator(document).validate()
    assert list(document["paths"]) == ["/relay/v1/orgs/{org}/extras"]
    assert set(document["components"]["schemas"]) == {
        "Extra",
        "ErrorModel",
        "ErrorDetail",
    }
    assert document["info"]["version"] == "7.1"


def test_relay_document_describes_errors_as_problems() -> None:
    """Errors are what Relay answers, not what the framework would."""
    document = relay_document(build_app())

    responses = document["paths"]["/relay/v1/orgs/{org}/extras"]["get"]["responses"]
    assert set(responses) == {"200", "default"}
    assert "HTTPValidationError" not in json.dumps(document)
    assert list(responses["default"]["content"]) == ["application/problem+json"]


def test_served_operations_are_those_with_a_route() -> None:
    """An operation is served when method and path have a route, whatever its names."""
    assert served_operations(build_app()) == {"listApps"}


class Reader(HTMLParser):
    """Collects what a page contains."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.open_tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.targets.append(found["href"])
        self.sources += [found[key] for key in ("src", "srcset") if key in found]
        if tag not in ("meta", "link", "input", "br"):
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag


@pytest.fixture(scope="module")
def page() -> Any:
    return render_page("https://relay.example.org", frozenset({"listApps"}))


def test_page_shows_every_operation_and_schema(page: Any) -> None:
    """The page has each operation and schema once, and every link inside leads on."""
    reader = Reader(page.html)
    inside = {target[1:] for target in reader.targets if target.startswith("#")}

    assert reader.open_tags == []
    assert len(reader.ids) == len(set(reader.ids))
    operations = {part["operationId"] for *_, part in list_operations(load_contract())}
    schemas = {f"schema-{name}" for name in load_contract()["components"]["schemas"]}
    assert operations | schemas <= set(reader.ids)
    assert inside <= set(reader.ids)


def test_page_needs_nothing_from_elsewhere(page: Any) -> None:
    """The page works offline and behind any prefix: it names no other address."""
    reader = Reader(page.html)

    assert reader.sources == []
    assert not any(target.startswith(("http", "/")) for target in reader.targets)
    assert "url(" not in page.html
    assert "@import" not in page.html


@pytest.mark.parametrize(
    ("tag", "directive"), [("style", "style"), ("script", "script")]
)
def test_page_policy_allows_exactly_its_own_inline_code(
    page: Any, tag: str, directive: str
) -> None:
    """The content policy allows the page its own style and script by their hashes."""
    (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", page.html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()

    assert f"{directive}-src 'sha256-{digest}';" in page.policy
    assert "default-src 'none'" in page.policy
    assert "unsafe" not in page.policy


async def test_page_is_served_with_its_policy(client: httpx.AsyncClient) -> None:
    """The browser is told what the page may do."""
    answer = await client.get("/docs")

    policy = render_page("/conductor", frozenset({"listApps"})).policy
    assert answer.headers["Content-Security-Policy"] == policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_page_marks_what_this_server_does_not_have(page: Any) -> None:
    """An operation without a route is marked, one with a route is not."""
    total = len(list_operations(load_contract()))

    assert page.html.count("not on this server") == total - 1
    assert page.html.count('class="operation unserved"') == total - 1
    assert page.html.count('class="operation served" id="listApps"') == 1


def test_page_says_how_much_this_server_has(page: Any) -> None:
    """The count stands at the top, in the introduction and beside the filter."""
    total = len(list_operations(load_contract()))

    assert page.html.count(f"1 of {total} operations served here") == 2
    assert f"answers 1 of these {total} operations" in page.html
    assert '<input id="served-only" type="checkbox"' in page.html


def test_page_escapes_the_address() -> None:
    """A configured address cannot put markup into the page."""
    page = render_page("https://x/<script>", frozenset())

    assert "https://x/<script>" not in page.html
    assert "https://x/&lt;script&gt;" in page.html
