"""
Reading a frame: bytes from an executor become the few values that are wanted.

A frame is read strictly first: fast, and only the wanted fields are built, as far as
they have the type that is wanted. What strict JSON refuses is read a second time by the
standard library, because executors send it: Python writes `NaN` and `Infinity`, and
both Python and TypeScript escape half a surrogate pair.
"""

import codecs
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

import msgspec

ShapeT = TypeVar("ShapeT", bound=msgspec.Struct)

LENIENT_LIMIT_BYTES = 1024 * 1024
"""
Frames beyond this are not read a second time as they are.

The standard library builds every value of the frame, which takes up to 50 ms for this
size, and the loop waits for it.
"""

REPAIR_LIMIT_BYTES = 8 * 1024 * 1024
"""
Frames up to this are read a second time without the halves of characters in them.

A listing of a few thousand workflows fits. The worst text, of halves only, takes most
of a second, in which other threads get their turn.
"""

VALUES_LIMIT: Final = 4_000_000
"""
Of a frame; as many rows as the largest frame has room for hold fewer.

A list is split in one go, in which nobody else gets a turn, and each of its items takes
60 bytes: of 64 MiB of zeros that would be seconds, and gigabytes.
"""

_TEXT: Final = re.compile(rb'(?:[^"\\]++|\\.){1,65536}+', re.DOTALL)
"""Some of what stands between quotation marks, so that others get their turn."""

_UTF8_DECODER: Final = codecs.getincrementaldecoder("utf-8")
_UTF8_PART_BYTES: Final = 64 * 1024

_HALF_CHARACTER: Final = re.compile(
    rb"((?:"
    rb"[^\\]++"
    rb"|\\[^u]"
    rb"|\\u(?![dD][89a-fA-F])"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"){1,65536}+)"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
"""
The escape of half a surrogate pair, or a stretch of anything else, with a group.

Escaped backslashes and whole pairs belong to a stretch, so that neither is taken for a
half. It has an end, so that other threads get their turn.
"""


class FrameError(ValueError):
    """
    The frame is not a usable envelope or reply.

    The message says what is wrong and never holds a value of the frame. It does not say
    whose fault it is: a Java executor can garble a reply while it exports.
    """


class NotTextError(FrameError):
    """The frame is not UTF-8: no text frame at all."""


def read_frame(frame: bytes, shape: type[ShapeT]) -> ShapeT:
    """
    The fields of `shape` that are in `frame`.

    Args:
        frame: one text frame as received, expected to be a JSON object.
        shape: a struct whose fields all have a default. Fields that are not in it are
            skipped. The types are no promise: of a small frame with others, the values
            arrive as they are. What they do is keep a large frame from being built,
            so a field is `Any` only where the caller bounds the frame. `NaN` and
            `Infinity` arrive as strings of that spelling.

    Raises:
        NotTextError: it is not UTF-8.
        FrameError: it is not JSON, not an object, or nested too deeply; it is large
            and not what was expected; or it holds more than `VALUES_LIMIT`.
    """
    _check_count(frame)
    return skim_frame(frame, shape)


def skim_frame(frame: bytes, shape: type[ShapeT]) -> ShapeT:
    """The same for a shape without lists, however many values the frame holds."""
    # A strict reading checks only the strings that it builds.
    if not frame.isascii():
        _check_utf8(frame)
    try:
        return msgspec.json.decode(frame, type=shape)
    except msgspec.MsgspecError:
        return _read_leniently(frame, shape)
    except RecursionError:
        _refuse_depth()


def _check_count(frame: bytes) -> None:
    # Texts may hold as many commas as they like; to look for those takes longer.
    if frame.count(b",") >= VALUES_LIMIT and _has_too_many(frame):
        raise FrameError(f"the frame holds more than {VALUES_LIMIT} values")


def _has_too_many(frame: bytes) -> bool:
    place = commas = texts = 0
    while (start := frame.find(b'"', place)) >= 0:
        commas += frame.count(b",", place, start)
        texts += 1
        # Each value has a key at most.
        if commas >= VALUES_LIMIT or texts > 2 * VALUES_LIMIT:
            return True
        place = start + 1
        while found := _TEXT.match(frame, place):
            place = found.end()
        place += 1
    return commas + frame.count(b",", place) >= VALUES_LIMIT


def _check_utf8(frame: bytes) -> None:
    # Bit by bit: the text of a large frame takes four times the frame's memory, and
    # other threads wait as long as a part is read.
    decoder = _UTF8_DECODER()
    try:
        for start in range(0, len(frame), _UTF8_PART_BYTES):
            decoder.decode(frame[start : start + _UTF8_PART_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise NotTextError("the frame is not UTF-8") from None


def _read_leniently(frame: bytes, shape: type[ShapeT]) -> ShapeT:
    if len(frame) > LENIENT_LIMIT_BYTES:
        return _read_repaired(frame, shape)
    try:
        fields: Any = json.loads(frame.decode(), parse_constant=str)
    except ValueError:
        raise FrameError("the frame is not JSON") from None
    except RecursionError:
        _refuse_depth()
    if not isinstance(fields, dict):
        raise FrameError("the frame is not a JSON object")
    return pick_fields(fields, shape)


def _read_repaired(frame: bytes, shape: type[ShapeT]) -> ShapeT:
    # Of what strict JSON refuses, only this is found in payloads, which make a frame
    # large: somebody cut a text in the middle of a character.
    if len(frame) <= REPAIR_LIMIT_BYTES:
        repaired = _HALF_CHARACTER.sub(lambda found: found[1] or b"", frame)
        try:
            if len(repaired) != len(frame):
                return msgspec.json.decode(repaired, type=shape)
        except msgspec.MsgspecError:
            pass
        except RecursionError:
            _refuse_depth()
    raise FrameError(
        "the frame is not strict JSON, or not of the expected types, and larger than"
        f" {LENIENT_LIMIT_BYTES} bytes"
    )


def pick_fields(fields: Mapping[str, Any], shape: type[ShapeT]) -> ShapeT:
    """The fields of `shape` that are in a decoded JSON object, of whatever type."""
    names = zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    return shape(**{name: fields[wire] for name, wire in names if wire in fields})


def _refuse_depth() -> NoReturn:
    raise FrameError("the frame is nested too deeply") from None
