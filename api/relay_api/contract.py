"""
The contract Relay serves, and the forms it is served in.

`openapi/conductor.json` is the source: an OpenAPI 3.1 document in the project's own
words, edited by hand. Everything here is derived from it; all that is added is about
the server: its address, and which operations it answers. The text is rendered as JSON
or YAML, taken down to OpenAPI 3.0, or cut into one JSON Schema document a component.

All functions are pure apart from the first read of the file, and cache what they
render: the text depends on nothing but the arguments.

A wheel carries the file as package data; a source tree has it where it is edited.
"""

import json
from collections.abc import Collection
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
SERVED_MARK = "x-relay-served"
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


def mark_unserved(served: Collection[str]) -> Document:
    """
    The document as a server serves it that answers only some of the operations.

    The others carry `x-relay-served: false`, and the second paragraph of the
    introduction says how many there are.

    Args:
        served: ids of the operations that the server answers.
    """
    document = load_contract()
    operations = [operation for *_, operation in list_operations(document)]
    missing = [entry for entry in operations if entry["operationId"] not in served]
    for operation in missing:
        operation[SERVED_MARK] = False
    opening, _, rest = document["info"]["description"].partition("\n\n")
    number, total = len(operations) - len(missing), len(operations)
    document["info"]["description"] = (
        f"{opening}\n\n**Not all of it is here.** This server answers {number} of these"
        f" {total} operations. The others are marked (`{SERVED_MARK}` is false) and"
        f" answer 404.\n\n{rest}"
    )
    return document


def server_address(settings: RelaySettings) -> str:
    """What clients put before the paths: a URL, a path prefix, or `/`."""
    return (settings.public_url or settings.root_path).rstrip("/") or "/"


@lru_cache(maxsize=8)
def render_contract(
    spec_version: str = "3.1",
    form: str = "json",
    address: str = "/",
    served: frozenset[str] | None = None,
) -> str:
    """
    The contract as text.

    Args:
        spec_version: `3.1`, or `3.0` for tools that know no type lists.
        form: `json` or `yaml`.
        address: URL or path prefix of the server.
        served: ids of the operations that the server answers; the others are marked.
            Without it nothing is: the text is about no server in particular.

    Raises:
        InvalidInputError: another version or form; name the choices to the user.
    """
    document = load_contract() if served is None else mark_unserved(served)
    document["servers"] = [{"url": address}]
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
