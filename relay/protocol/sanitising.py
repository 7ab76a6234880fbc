"""
Making values of strangers harmless.

What comes out of here can be stored by both databases, written to a log and sent on as
JSON, whatever went in.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
)

DEPTH_LIMIT = 32
"""Levels of lists and mappings that are kept."""

METADATA_LIMIT_BYTES = 64 * 1024
"""Size of an executor's metadata, encoded as compact UTF-8 JSON."""

_TOO_DEEP = "(nested too deeply)"
_INT64 = range(-(2**63), 2**63)


def clean_text(text: str) -> str:
    """
    `text` without what a database or a log cannot take.

    NUL (PostgreSQL refuses it) and lone surrogates (no UTF-8 exists for them) vanish. A
    text without them is returned itself.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "ignore").decode()
    return text.replace("\0", "") if "\0" in text else text


def read_text(value: object) -> str | None:
    """A text or whole number as clean text; anything else, and nothing, is `None`."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return clean_text(str(value)) or None


def clean_json(value: Any, *, depth: int = DEPTH_LIMIT) -> JsonValue:
    """
    A harmless copy of decoded JSON.

    Texts are cleaned, keys too (of two that become equal the later wins). Numbers that
    JSON or a 64-bit integer cannot carry become texts. Below `depth` levels a list or
    mapping is replaced by a remark.
    """
    match value:
        case None | bool():
            return value
        case str():
            return clean_text(value)
        case int():
            return value if value in _INT64 else str(value)
        case float():
            return value if math.isfinite(value) else _spell(value)
        case list() | dict() if depth == 0:
            return _TOO_DEEP
        case list():
            return [clean_json(item, depth=depth - 1) for item in value]
        case dict():
            return {
                clean_text(key): clean_json(item, depth=depth - 1)
                for key, item in value.items()
            }
        case _:
            raise TypeError(f"{type(value).__name__} is no decoded JSON")


def clean_metadata(metadata: Any) -> Mapping[str, JsonValue] | None:
    """
    An executor's metadata, harmless and within `METADATA_LIMIT_BYTES`.

    Returns:
        `None` unless it is a mapping; the remark of `dropped_metadata` in its place if
        it is too large.
    """
    clean = clean_json(metadata)
    if not isinstance(clean, dict):
        return None
    text = json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
    size_bytes = len(text.encode())
    if size_bytes > METADATA_LIMIT_BYTES:
        return dropped_metadata(size_bytes)
    return clean


def dropped_metadata(size_bytes: int) -> Mapping[str, JsonValue]:
    """What stands in the place of metadata that was too large to keep."""
    return {
        "dropped": f"larger than {METADATA_LIMIT_BYTES} bytes",
        "size_bytes": size_bytes,
    }


def _spell(number: float) -> str:
    """The word that JavaScript and Python's JSON have for a number that is none."""
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"
