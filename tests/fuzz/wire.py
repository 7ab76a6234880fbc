"""What peers might put on the wire: JSON, WebSocket frames, and the cuts of TCP."""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

SEGMENT_LIMIT_BYTES = 256 * 1024
"""The most that asyncio reads from a socket in one turn."""

JSON_KINDS = (
    *("null", "true", "false", "0", "-1", "1.5", "1e999", "-1e999", "NaN", "Infinity"),
    *("-Infinity", "18446744073709551616", "9" * 400, '""', '"x"', '"PENDING"'),
    *('"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\uDFFF\\uD800"', "[]", "{}"),
    *("[null]", "[[]]", "[{}]", '{"":{}}', '{"a":1,"a":2}', '[1,"a",null,{"b":[]}]'),
)
"""A value of each type, and those of which parsers think differently."""

MONSTERS = (
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 50_000 + "1" + "}" * 50_000,
    "9" * 5_000,
    "1" + "0" * 100_000,
    "0." + "3" * 100_000,
    '"' + "x" * 300_000 + '"',
    '"' + "\\ud800" * 50_000 + '"',
    "[" + ",".join(["NaN"] * 50_000) + "]",
    "{" + ",".join(f'"{number}":{number}' for number in range(20_000)) + "}",
    "[" * 200_000,
    '"',
    "",
)
"""Values too deep, too long, too many, or no values at all."""


@cache
def json_texts() -> st.SearchStrategy[str]:
    """A JSON value as text; now and then none, in places where one belongs."""
    leaves = st.one_of(
        st.sampled_from(JSON_KINDS),
        st.integers().map(str),
        st.floats().map(json.dumps),
        st.text(max_size=20).map(json.dumps),
        st.text(max_size=20).map(lambda text: json.dumps(text, ensure_ascii=False)),
    )
    nested = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
            st.lists(
                st.tuples(st.text(max_size=8).map(json.dumps), inner), max_size=4
            ).map(lambda items: "{" + ",".join(f"{k}:{v}" for k, v in items) + "}"),
        ),
        max_leaves=12,
    )
    # A monster costs as much as a hundred others.
    return st.integers(0, 49).flatmap(
        lambda dice: st.sampled_from(MONSTERS) if dice == 0 else nested
    )


Path = tuple[str | int, ...]


def list_paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where something stands in a decoded JSON value, itself included."""
    yield at
    match value:
        case dict():
            for key, inner in value.items():
                yield from list_paths(inner, (*at, key))
        case list():
            for index, inner in enumerate(value):
                yield from list_paths(inner, (*at, index))


def render(value: Any, replaced: Path, by: str, at: Path = ()) -> str:
    """`value` as JSON, with the text `by` where `replaced` was."""
    if at == replaced:
        return by
    match value:
        case dict():
            parts = [
                f"{json.dumps(key)}:{render(inner, replaced, by, (*at, key))}"
                for key, inner in value.items()
            ]
            return "{" + ",".join(parts) + "}"
        case list():
            parts = [
                render(inner, replaced, by, (*at, index))
                for index, inner in enumerate(value)
            ]
            return "[" + ",".join(parts) + "]"
        case _:
            return json.dumps(value)


def encode_text(text: str) -> bytes:
    """UTF-8, also of what has none."""
    return text.encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole`, or most of it with some bytes changed, lost, doubled or added."""
    data = bytearray(whole)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["set", "cut", "repeat", "insert"])):
            case "set":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del data[at : at + draw(st.integers(1, 64))]
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 64))]
            case _:
                data[at:at] = draw(st.binary(max_size=16))
    return bytes(data)


MARK = "00000000-mark-mark-mark-000000000000"
"""Stands where the id of a request belongs, and is as long."""


@dataclass(frozen=True, slots=True)
class Framing:
    """How one frame is written; the plain one is a whole masked text frame."""

    opcode: int = 1
    fin: bool = True
    rsv: int = 0
    is_masked: bool = True
    declared: int | None = None
    """What the head says of the length; `None` is the truth."""
    length_bytes: int | None = None
    """In how many bytes it says so: 0, 2 or 8; `None` is as many as are needed."""

    def write(self, payload: bytes) -> bytes:
        """The bytes of the frame."""
        size = len(payload) if self.declared is None else self.declared
        width = self.length_bytes
        if width is None:
            width = 0 if size < 126 else 2 if size < 65536 else 8
        mask_bit = 0x80 if self.is_masked else 0
        head = bytes([(0x80 if self.fin else 0) | self.rsv << 4 | self.opcode])
        if width == 0:
            head += bytes([mask_bit | min(size, 125)])
        elif width == 2:
            head += struct.pack("!BH", mask_bit | 126, size & 0xFFFF)
        else:
            head += struct.pack("!BQ", mask_bit | 127, size & 0xFFFFFFFFFFFFFFFF)
        if not self.is_masked:
            return head + payload
        # A mask of zeros is a mask, and keeps shrunk examples readable.
        return head + bytes(4) + payload


def framings() -> st.SearchStrategy[Framing]:
    """Good and bad ways to write a frame."""
    return st.builds(
        Framing,
        opcode=st.one_of(st.sampled_from([0, 1, 2, 8, 9, 10]), st.integers(0, 15)),
        fin=st.booleans(),
        rsv=st.sampled_from([0, 0, 0, 0, 1, 4, 7]),
        is_masked=st.sampled_from([True, True, True, False]),
        declared=st.one_of(
            st.none(),
            st.none(),
            st.sampled_from([0, 125, 126, 65535, 65536, 2**31, 2**63, 2**64 - 1]),
        ),
        length_bytes=st.sampled_from([None, None, None, 0, 2, 8]),
    )


@dataclass(frozen=True, slots=True)
class Fragmenting:
    """In which frames a text message is sent: cut at these shares of its length."""

    cuts: tuple[float, ...] = ()
    control: tuple[int, bytes] | None = None
    """Opcode and payload of a frame between the pieces."""

    def write(self, message: bytes) -> bytes:
        """The bytes of all frames."""
        edges = [0, *(int(share * len(message)) for share in self.cuts), len(message)]
        written = b""
        for number, (start, end) in enumerate(pairwise(edges)):
            is_last = number == len(self.cuts)
            framing = Framing(opcode=0 if number else 1, fin=is_last)
            written += framing.write(message[start:end])
            if self.control and not is_last:
                opcode, payload = self.control
                written += Framing(opcode=opcode).write(payload)
        return written


def fragmentings() -> st.SearchStrategy[Fragmenting]:
    """One frame or several, with pings and pongs between them."""
    return st.builds(
        Fragmenting,
        cuts=st.lists(st.floats(0, 1), max_size=3).map(
            lambda cuts: tuple(sorted(cuts))
        ),
        control=st.none()
        | st.tuples(st.sampled_from([9, 10]), st.binary(max_size=125)),
    )


def segment_sizes() -> st.SearchStrategy[list[int]]:
    """How TCP might cut a stream: these sizes, over and over."""
    return st.lists(
        st.sampled_from([1, 2, 3, 7, 64, 1000, SEGMENT_LIMIT_BYTES]),
        min_size=1,
        max_size=5,
    )


def cut(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """`data` in segments of `sizes`, over and over; a thousand at most, then whole."""
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)] if number < 1000 else SEGMENT_LIMIT_BYTES
        yield data[at : at + size]
        at += size
        number += 1
