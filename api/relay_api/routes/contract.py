"""
The contract, served: as OpenAPI, as JSON Schema, as a page, and Relay's own paths.

Anybody may read these; they hold no data. Each answer carries an entity tag, so that a
client that has it is told so in a few bytes. The handlers are plain functions: the
framework runs them in a thread, because the first rendering takes a tenth of a second.
"""

import hashlib
import json
import re
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from relay.errors import NotFoundError
from relay.settings import RelaySettings
from relay_api.contract import (
    Document,
    list_operations,
    load_contract,
    render_contract,
    render_schema,
    server_address,
)
from relay_api.contract_page import render_page

router = APIRouter(include_in_schema=False)

_READ = ["GET", "HEAD"]
_CACHE_CONTROL = "public, max-age=300"


@router.api_route("/openapi.json", methods=_READ)
def serve_json(request: Request) -> Response:
    """The contract as OpenAPI 3.1."""
    text = render_contract("3.1", "json", *_server(request))
    return _answer(request, text, "application/json")


@router.api_route("/openapi.yaml", methods=_READ)
def serve_yaml(request: Request) -> Response:
    """The contract as OpenAPI 3.1 in YAML."""
    text = render_contract("3.1", "yaml", *_server(request))
    return _answer(request, text, "application/yaml")


@router.api_route("/openapi-3.0.json", methods=_READ)
def serve_json_30(request: Request) -> Response:
    """The contract as OpenAPI 3.0."""
    text = render_contract("3.0", "json", *_server(request))
    return _answer(request, text, "application/json")


@router.api_route("/schemas/{file}", methods=_READ)
def serve_schema(request: Request, file: str) -> Response:
    """One component as a JSON Schema document."""
    name = file.removesuffix(".json")
    if name == file:
        raise NotFoundError("schema", file)
    text = render_schema(name, _address(request))
    return _answer(request, text, "application/schema+json")


@router.api_route("/docs", methods=_READ)
def serve_page(request: Request) -> Response:
    """The contract as a page for a browser."""
    page = render_page(*_server(request))
    answer = _answer(request, page.html, "text/html; charset=utf-8")
    answer.headers["Content-Security-Policy"] = page.policy
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Referrer-Policy"] = "no-referrer"
    return answer


@router.api_route("/relay/v1/openapi.json", methods=_READ)
def serve_relay_document(request: Request) -> Response:
    """Relay's own paths as OpenAPI 3.1."""
    document = relay_document(request.app)
    document["servers"] = [{"url": _address(request)}]
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return _answer(request, text, "application/json")


def served_operations(app: FastAPI) -> frozenset[str]:
    """Ids of the contract's operations that the application has a route for."""
    routes = {
        (_shape(path), method.upper())
        for path, item in app.openapi()["paths"].items()
        for method in item
    }
    return frozenset(
        operation["operationId"]
        for path, method, operation in list_operations(load_contract())
        if (_shape(path), method) in routes
    )


def relay_document(app: FastAPI) -> Document:
    """
    An OpenAPI 3.1 document of what the application serves beyond the contract.

    The framework would describe validation errors as it answers them by itself; Relay
    answers every error with a problem document, so that is what this one says.
    """
    whole = app.openapi()
    contract = {_shape(path) for path in load_contract()["paths"]}
    components = whole.get("components", {})
    problems = load_contract()["components"]["schemas"]
    schemas = components.get("schemas", {}) | {
        name: problems[name] for name in ("ErrorDetail", "ErrorModel")
    }
    paths = {
        path: {
            method: _hoist(_with_problems(operation), schemas)
            for method, operation in item.items()
        }
        for path, item in whole["paths"].items()
        if _shape(path) not in contract
    }
    return {
        "openapi": whole["openapi"],
        "info": {
            "title": "Relay: its own paths",
            "version": whole["info"]["version"],
            "description": (
                "What Relay serves beyond the Conductor contract, which is described at"
                " `/openapi.json`."
            ),
        },
        "paths": paths,
        "components": components | {"schemas": _reachable(paths, schemas)},
    }


def _server(request: Request) -> tuple[str, frozenset[str]]:
    """Where the server is, and the operations that it answers."""
    return _address(request), served_operations(request.app)


def _address(request: Request) -> str:
    settings: RelaySettings = request.state.server.settings
    return server_address(settings)


def _answer(request: Request, text: str, media_type: str) -> Response:
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": _CACHE_CONTROL}
    known = request.headers.get("If-None-Match", "")
    if tag in (entry.strip().removeprefix("W/") for entry in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(text, media_type=media_type, headers=headers)


def _shape(path: str) -> str:
    """A path template without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _with_problems(operation: Document) -> Document:
    problem = {"schema": {"$ref": "#/components/schemas/ErrorModel"}}
    responses = {
        status: response
        for status, response in operation["responses"].items()
        if status != "422"
    }
    responses["default"] = {
        "description": "What went wrong, as a problem document.",
        "content": {"application/problem+json": problem},
    }
    return operation | {"responses": responses}


def _hoist(node: Any, schemas: Document) -> Any:
    """`node` without local definitions: they are added to `schemas` instead."""
    if isinstance(node, list):
        return [_hoist(entry, schemas) for entry in node]
    if not isinstance(node, dict):
        return node
    for name, definition in node.get("$defs", {}).items():
        schemas.setdefault(name, _hoist(definition, schemas))
    return {
        key: value.replace("#/$defs/", "#/components/schemas/")
        if key == "$ref"
        else _hoist(value, schemas)
        for key, value in node.items()
        if key != "$defs"
    }


def _reachable(paths: Document, schemas: Document) -> Document:
    """Those of the schemas that the paths lead to, directly or through another."""
    reached: set[str] = set()
    waiting = list(_references(paths))
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(_references(schemas[name]))
    return {name: schema for name, schema in schemas.items() if name in reached}


def _references(node: Any) -> set[str]:
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(node)))
