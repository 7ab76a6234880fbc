"""
Reading a body that holds a long text, so that nobody else has to wait for it.

A parser takes 64 MiB in one go, and whatever else the loop has to do stands still for
half a second. Such a body is one long text and next to nothing beside it: an exported
workflow. So long texts are taken out, a piece at a time with a breath after each, and
what is left is read like any other body.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4

import msgspec
from starlette.exceptions import HTTPException

from relay.errors import MalformedInputError
from relay.protocol.steps import Steps

_LONG_TEXT_BYTES: Final = 64 * 1024
_STEP_BYTES: Final = 256 * 1024
_TEXT_BYTES: Final = 128
"""To find a text, however short, takes as long as to read so much of one."""

_REST_LIMIT_BYTES: Final = 1024 * 1024

_PIECE: Final = re.compile(
    rb"(?:"
    rb"[\x20\x21\x23-\x5b\x5d-\x7f]{1,4096}+"
    rb"|[\xc2-\xf4][\x80-\xbf]{1,3}+"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[0-9a-fA-F]{4}"
    rb'|\\["\\/bfnrt]'
    rb"){1,128}+"
)
"""
Some of what stands between quotation marks, up to half a MiB.

Neither a character nor a pair of escapes that belong together is cut in two.
"""


def lift_long_texts(body: bytes | bytearray) -> Steps[tuple[bytes, Mapping[str, str]]]:
    """
    A body without its long texts, and those.

    In the place of each stands a name; of the name the text is told.

    Raises:
        MalformedInputError: from any step: the body is not JSON.
        HTTPException: 413: what is left is still long.
    """
    rest, texts = bytearray(), dict[str, str]()
    place = effort = 0
    while (quote := body.find(b'"', place)) >= 0:
        _check_rest(len(rest) + quote + 1 - place)
        rest += body[place : quote + 1]
        ends = [quote + 1]
        effort += _TEXT_BYTES
        while found := _PIECE.match(body, ends[-1]):
            ends.append(found.end())
            effort += found.end() - found.start()
            if effort >= _STEP_BYTES:
                effort = 0
                yield
        if body[ends[-1] : ends[-1] + 1] != b'"':
            raise MalformedInputError("the body is not JSON")
        place = ends[-1] + 1
        if place - quote < _LONG_TEXT_BYTES:
            rest += body[quote + 1 : place]
        else:
            name = uuid4().hex
            texts[name] = yield from _decode(body, ends)
            rest += name.encode() + b'"'
        _check_rest(len(rest))
        if effort >= _STEP_BYTES:
            effort = 0
            yield
    _check_rest(len(rest) + len(body) - place)
    return bytes(rest + body[place:]), texts


def _decode(body: bytes | bytearray, ends: Sequence[int]) -> Steps[str]:
    decoded: list[str] = []
    effort = 0
    try:
        for start, end in pairwise(ends):
            piece = b'"' + body[start:end] + b'"'
            decoded.append(msgspec.json.decode(piece, type=str))
            effort += end - start
            if effort >= _STEP_BYTES:
                effort = 0
                yield
    except msgspec.MsgspecError:
        raise MalformedInputError("the body is not JSON") from None
    text = "".join(decoded)
    # That alone takes up to 75 ms, for 64 MiB.
    yield
    return text


def put_back(value: Any, texts: Mapping[str, str]) -> Any:
    """
    The properties of a decoded object with its long texts where they were.

    Only what carries a payload is so long, and holds it at the top.
    """
    if not isinstance(value, dict):
        return value
    return {
        name: texts.get(item, item) if isinstance(item, str) else item
        for name, item in value.items()
    }


def _check_rest(size_bytes: int) -> None:
    if size_bytes > _REST_LIMIT_BYTES:
        raise HTTPException(
            413, f"beside its long texts the body holds over {_REST_LIMIT_BYTES} bytes"
        )
