"""
Reading a frame: bytes from an executor become the few values that are wanted.

A frame is read strictly first: fast, and only the wanted fields are built, as far as
they have the type that is wanted. What strict JSON refuses is read a second time by the
standard library, because executors send it: Python writes `NaN` and `Infinity`, and
both Python and TypeScript escape half a surrogate pair.
"""

import json
from typing import Any, NoReturn, TypeVar

import msgspec

ShapeT = TypeVar("ShapeT", bound=msgspec.Struct)

LENIENT_LIMIT_BYTES = 1024 * 1024
"""
Frames beyond this are not read a second time.

The standard library builds every value of the frame, which takes up to 50 ms for this
size, and the loop waits for it.
"""


class FrameError(ValueError):
    """
    The frame is not a usable envelope or reply.

    The message says what is wrong and never holds a value of the frame. It does not say
    whose fault it is: a Java executor can garble a reply while it exports.
    """


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
        FrameError: it is not UTF-8, not JSON, not an object, or nested too deeply; or
            it is large and not what was expected.
    """
    # A strict reading checks only the strings that it builds.
    if not frame.isascii():
        try:
            frame.decode()
        except UnicodeDecodeError:
            raise FrameError("the frame is not UTF-8") from None
    try:
        return msgspec.json.decode(frame, type=shape)
    except msgspec.MsgspecError:
        return _read_leniently(frame, shape)
    except RecursionError:
        _refuse_depth()


def _read_leniently(frame: bytes, shape: type[ShapeT]) -> ShapeT:
    if len(frame) > LENIENT_LIMIT_BYTES:
        raise FrameError(
            "the frame is not strict JSON, or not of the expected types, and larger"
            f" than {LENIENT_LIMIT_BYTES} bytes"
        )
    try:
        fields: Any = json.loads(frame.decode(), parse_constant=str)
    except ValueError:
        raise FrameError("the frame is not JSON") from None
    except RecursionError:
        _refuse_depth()
    if not isinstance(fields, dict):
        raise FrameError("the frame is not a JSON object")
    wanted = shape.__struct_fields__
    return shape(**{name: fields[name] for name in wanted if name in fields})


def _refuse_depth() -> NoReturn:
    raise FrameError("the frame is nested too deeply") from None
