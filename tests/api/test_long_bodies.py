"""Bodies with a long text: read as ever, in steps."""

import itertools
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from relay.errors import MalformedInputError
from relay_api.long_bodies import lift_long_texts, put_back

LONG = 300 * 1024


def read(body: bytes) -> tuple[int, Any]:
    """How many steps there are, and the properties."""
    steps = lift_long_texts(bytearray(body))
    for count in itertools.count():
        try:
            next(steps)
        except StopIteration as end:
            rest, texts = end.value
            return count, put_back(json.loads(rest), texts)
    raise AssertionError("it never ends")


@pytest.mark.parametrize(
    "text",
    [
        "A" * LONG,
        'q"\\\n\x01/' * LONG,
        "ä€😀" * LONG,
        "A" * 4095 + "😀" * LONG,
        "\\\\" * LONG,
        "0" * 32 * 4096,
    ],
    ids=["ascii", "escaped", "wide", "across", "backslashes", "even"],
)
@pytest.mark.parametrize("is_ascii", [True, False])
def test_long_text_is_read_as_it_was_written(text: str, is_ascii: bool) -> None:
    """Whatever is in it, and wherever a piece ends."""
    body = {"before": "b", "text": text, "list": ["c", 1], "after": ""}

    steps, properties = read(json.dumps(body, ensure_ascii=is_ascii).encode())

    assert properties == body
    assert steps >= len(text) // (1024 * 1024)


def test_several_long_texts_come_back_to_their_places() -> None:
    body = {"a": "a" * LONG, "b": "b" * LONG, "c": "c"}

    assert read(json.dumps(body).encode())[1] == body


def test_text_is_read_in_steps() -> None:
    """None of which takes long."""
    steps, _ = read(b'{"text": "' + b"A" * (8 * 1024 * 1024) + b'"}')

    assert steps >= 16


def test_short_texts_are_read_in_steps_too() -> None:
    """Each takes its time, however short it is."""
    steps, _ = read(b'{"list": [' + b'"",' * 100_000 + b'""]}')

    assert steps >= 40


@pytest.mark.parametrize(
    "end",
    [b"", b"\\", b'\\"', b"\n", b'\\x"}', b'\\ud83d"}', b'\\ud83d\\ud83d"}', b'\xff"}'],
    ids=repr,
)
def test_text_that_is_no_json_is_refused(end: bytes) -> None:
    """Cut off, with a character that must be escaped, or half a one."""
    with pytest.raises(MalformedInputError):
        read(b'{"text": "' + b"A" * LONG + end)


@pytest.mark.parametrize(
    "unit", [b"[", b'"",', b"1,", b'"' + b"k" * 1000 + b'":1,'], ids=len
)
def test_long_body_of_anything_but_a_long_text_is_refused(unit: bytes) -> None:
    """To read it would stop everybody else, and nothing that is taken looks so."""
    with pytest.raises(HTTPException) as refused:
        read(b"{" + unit * (2 * 1024 * 1024 // len(unit)) + b"}")

    assert refused.value.status_code == 413


def test_texts_of_what_is_no_object_are_left_alone() -> None:
    assert put_back(["name"], {"name": "text"}) == ["name"]
