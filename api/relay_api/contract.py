"""
The contract Relay serves, and the forms it is served in.

`openapi/conductor.json` is the source: an OpenAPI 3.1 document in the project's own
words, edited by hand. Everything here is derived from it without adding a fact: the
server's address is filled in, the text is rendered as JSON or YAML, taken down to
OpenAPI 3.0, or cut into one JSON Schema document a component.

All functions are pure apart from the first read of the file, and cache what they
render: the text depends on nothing but the arguments.

A wheel carries the file as package data; a source tree has it where it is edited.
"""

import json
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from relay.errors import InvalidInputError, NotFoundError
from relay.settings import RelaySettings
from relay_api.downgrade import to_openapi_30

Document: TypeAlias = dict[str, Any]
"""A parsed OpenAPI or JSON Schema document."""

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_COMPONENT = "#/components/schemas/"
_HTTP_METHODS = frozenset({"get", "put", "post", "delete", "patch"})


def load_contract() -> Document:
    """The document as written; each caller gets a copy of its own."""
    document: Document = json.loads(_read_source())
    return document


def list_operations(document: Document) -> list[tuple[str, str, Document]]:
    """Every operation as (path template, upper-case method, operation), in order."""
    return [
        (path, method.upper(), operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in _HTTP_METHODS
    ]


def server_address(settings: RelaySettings) -> str:
    """What clients put before the paths: a URL, a path prefix, or `/`."""
    return (settings.public_url or settings.root_path).rstrip("/") or "/"


@lru_cache(maxsize=8)
def render_contract(
    spec_version: str = "3.1", form: str = "json", address: str = "/"
) -> str:
    """
    The contract as text.

    Args:
        spec_version: `3.1`, or `3.0` for tools that know no type lists.
        form: `json` or `yaml`.
        address: URL or path prefix of the server.

    Raises:
        InvalidInputError: another version or form; name the choices to the user.
    """
    document = load_contract() | {"servers": [{"url": address}]}
    match spec_version:
        case "3.1":
            pass
        case "3.0":
            document = to_openapi_30(document)
        case _:
            raise InvalidInputError("spec_version", "must be 3.1 or 3.0", spec_version)
    match form:
        case "json":
            return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        case "yaml":
            return _to_yaml(document)
        case _:
            raise InvalidInputError("form", "must be json or yaml", form)


@lru_cache(maxsize=256)
def render_schema(name: str, address: str = "/") -> str:
    """
    One component as a JSON Schema document of its own.

    Its references lead to its siblings' documents, so that a validator that fetches
    can follow them.

    Args:
        name: the component's name, such as `Application`.
        address: URL or path prefix of the server.

    Raises:
        NotFoundError: there is no such component.
    """
    schemas: Document = load_contract()["components"]["schemas"]
    if name not in schemas:
        raise NotFoundError("schema", name)
    directory = f"{address.rstrip('/')}/schemas/"
    document = {
        "$schema": JSON_SCHEMA_DIALECT,
        "$id": f"{directory}{name}.json",
        "title": name,
        **_redirect(schemas[name], directory),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@cache
def _read_source() -> str:
    packaged: Traversable = resources.files("relay_api") / "data" / "conductor.json"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    root = Path(__file__).resolve().parents[2]
    return (root / "openapi" / "conductor.json").read_text(encoding="utf-8")


def _redirect(node: Any, directory: str) -> Any:
    """`node` with its references into the components turned into addresses."""
    if isinstance(node, dict):
        return {
            key: f"{directory}{value.removeprefix(_COMPONENT)}.json"
            if key == "$ref"
            else _redirect(value, directory)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_redirect(entry, directory) for entry in node]
    return node


def _to_yaml(document: Document) -> str:
    return yaml.dump(
        document,
        Dumper=_PlainDumper,
        allow_unicode=True,
        sort_keys=False,
        width=100,
    )


class _PlainDumper(yaml.SafeDumper):
    """Writes repeated objects out: anchors would confuse readers and some tools."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
