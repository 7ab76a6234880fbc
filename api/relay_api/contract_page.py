"""
The contract as one page for a browser, without anything fetched from elsewhere.

The page is rendered from the document, so it cannot say something else. It works
without JavaScript, which only filters and opens what a link points at. Style and script
are inline and allowed by their hashes; everything else the content policy forbids, so
that a text that slipped through unescaped could do nothing.
"""

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from relay_api.contract import Document, list_operations, mark_unserved

_CONSTRAINTS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "default": "by default {}",
}


@dataclass(frozen=True, slots=True)
class Page:
    """HTML, and the content policy it must be served with."""

    html: str
    policy: str


@lru_cache(maxsize=8)
def render_page(address: str, served: frozenset[str]) -> Page:
    """
    The page of one server.

    Args:
        address: URL or path prefix of the server.
        served: ids of the operations that this server answers; the others are marked.
    """
    document = mark_unserved(served)
    style, script = _read_asset("docs.css"), _read_asset("docs.js")
    info = document["info"]
    operations = list_operations(document)
    html = Template(_read_asset("docs.html")).substitute(
        title=escape(info["title"]),
        version=escape(info["version"]),
        address=escape(address),
        count=len(operations),
        served=sum(part["operationId"] in served for *_, part in operations),
        about=_prose(info["description"]),
        deviations=_deviations(document["x-relay-deviations"]),
        contents=_contents(tag["name"] for tag in document["tags"]),
        operations="\n".join(_groups(document, served)),
        schemas="\n".join(
            _schema(name, schema)
            for name, schema in document["components"]["schemas"].items()
        ),
        style=style,
        script=script,
    )
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(html=html, policy=policy)


@cache
def _read_asset(name: str) -> str:
    asset = resources.files("relay_api") / "data" / name
    return asset.read_text(encoding="utf-8")


def _hash(inline: str) -> str:
    digest = hashlib.sha256(inline.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _prose(text: str) -> str:
    """Paragraphs with the two kinds of emphasis that the contract uses."""
    return "\n".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n"))


def _inline(text: str) -> str:
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked)


def _anchor(name: str) -> str:
    return "tag-" + re.sub(r"[^a-z0-9]+", "-", name.lower())


def _deviations(deviations: Iterable[Document]) -> str:
    entries = "".join(
        f"<li><code>{escape(entry['name'])}</code>: {_inline(entry['summary'])}</li>"
        for entry in deviations
    )
    return f"<h3>Where it deviates from Conductor's contract</h3>\n<ul>{entries}</ul>"


def _contents(tags: Iterable[str]) -> str:
    links = [f'<li><a href="#{_anchor(tag)}">{escape(tag)}</a></li>' for tag in tags]
    return "\n".join([*links, '<li><a href="#schemas">Schemas</a></li>'])


def _groups(document: Document, served: Collection[str]) -> Iterator[str]:
    """One section a tag, with the operations of it in the document's order."""
    for tag in document["tags"]:
        anchor = _anchor(tag["name"])
        yield f'<section class="group" aria-labelledby="{anchor}">'
        yield f'<h2 id="{anchor}">{escape(tag["name"])}</h2>'
        yield f'<p class="lead">{_inline(tag["description"])}</p>'
        for path, method, operation in list_operations(document):
            if tag["name"] in operation["tags"]:
                is_served = operation["operationId"] in served
                yield _operation(path, method, operation, is_served=is_served)
        yield "</section>"


def _operation(path: str, method: str, operation: Document, *, is_served: bool) -> str:
    name = operation["operationId"]
    words = " ".join([method, path, name, operation["summary"], *operation["tags"]])
    flags, state = "", "served" if is_served else "unserved"
    if operation.get("x-dbos-requires-oauth"):
        flags += '<span class="flag">OIDC</span>'
    if not is_served:
        flags += '<span class="flag absent">not on this server</span>'
    parts = [
        f'<details class="operation {state}" id="{name}"'
        f' data-words="{escape(words.lower())}">',
        f'<summary><span class="method {method.lower()}">{method}</span>'
        f'<span class="path">{escape(path)}</span>{flags}'
        f'<span class="what">{_inline(operation["summary"])}'
        f" · <code>{name}</code></span></summary>",
        '<div class="body">',
        _prose(operation["description"]),
        _parameters(operation.get("parameters", [])),
        _request_body(operation.get("requestBody")),
        _responses(operation["responses"]),
        "</div></details>",
    ]
    return "\n".join(part for part in parts if part)


def _parameters(parameters: Iterable[Document]) -> str:
    rows = [
        _row(
            f"<code>{escape(entry['name'])}</code>",
            f"{entry['in']}, {_type(entry['schema'])}",
            entry["description"],
            is_required=entry.get("required", False),
        )
        for entry in parameters
    ]
    return _table("Parameters", ("Name", "Type", "Meaning"), rows) if rows else ""


def _request_body(body: Document | None) -> str:
    if body is None:
        return ""
    rows = [
        _row(
            f"<code>{escape(media)}</code>",
            _type(content["schema"]),
            body["description"],
            is_required=body.get("required", False),
        )
        for media, content in body["content"].items()
    ]
    return _table("Request body", ("Media type", "Type", "Meaning"), rows)


def _responses(responses: Document) -> str:
    rows = []
    for status, response in responses.items():
        contents = response.get("content", {}).values()
        kinds = ", ".join(_type(content["schema"]) for content in contents) or "no body"
        meaning = response["description"]
        for header, entry in response.get("headers", {}).items():
            meaning += f" Header `{header}`: {entry['description']}"
        rows.append(_row(f"<code>{status}</code>", kinds, meaning))
    return _table("Answers", ("Status", "Type", "Meaning"), rows)


def _schema(name: str, schema: Document) -> str:
    required = schema.get("required", ())
    rows = [
        _row(
            f"<code>{escape(key)}</code>",
            _type(part),
            part["description"],
            is_required=key in required,
        )
        for key, part in schema["properties"].items()
    ]
    words = " ".join([name, *schema["properties"]]).lower()
    return (
        f'<details id="schema-{name}" data-words="{escape(words)}">\n'
        f'<summary><span class="path">{name}</span>'
        f'<span class="what">{_inline(schema["description"])}</span></summary>\n'
        f'<div class="body">{_table("Properties", ("Name", "Type", "Meaning"), rows)}'
        f'<p><a href="schemas/{name}.json">JSON Schema</a></p></div></details>'
    )


def _table(caption: str, heads: Iterable[str], rows: Iterable[str]) -> str:
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<h3>{caption}</h3>\n<div class="wide"><table>'
        f"<thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(head: str, kind: str, meaning: str, *, is_required: bool = False) -> str:
    mark = ' <span class="required">required</span>' if is_required else ""
    return (
        f'<tr><th scope="row">{head}{mark}</th><td class="type">{kind}</td>'
        f"<td>{_inline(meaning)}</td></tr>\n"
    )


def _type(schema: Any) -> str:
    """A schema in a few words, with links to the components it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f'<a href="#schema-{name}">{name}</a>'
    kinds = schema.get("type", "any JSON")
    words = " or ".join(kinds if isinstance(kinds, list) else [kinds])
    if "items" in schema:
        words = words.replace("array", f"array of {_type(schema['items'])}")
    values = schema.get("additionalProperties")
    if values:
        words = words.replace("object", f"object of {_type(values)}")
    if "enum" in schema:
        words += ": " + ", ".join(
            f"<code>{escape(str(value))}</code>" for value in schema["enum"]
        )
    notes = [schema["format"]] if "format" in schema else []
    notes += [
        text.format(escape(str(schema[key])))
        for key, text in _CONSTRAINTS.items()
        if key in schema
    ]
    if "pattern" in schema:
        notes.append(f"<code>{escape(schema['pattern'])}</code>")
    if schema.get("uniqueItems"):
        notes.append("no entry twice")
    return ", ".join([words, *notes])
