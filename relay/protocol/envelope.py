"""
What all messages share: the checked encoder and the envelope of a reply.

Source: the protocol as the MIT-licensed clients of four SDKs speak it. Each rule of the
encoder names the client that breaks without it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from relay.errors import InvalidInputError
from relay.ids import RequestId
from relay.protocol.frames import FrameError, skim_frame
from relay.protocol.sanitising import DEPTH_LIMIT, clean_text

__all__ = [
    "REQUIRED_NULL",
    "Envelope",
    "FrameError",
    "JsonObject",
    "Request",
    "decode_envelope",
    "encode",
    "is_unknown_message",
]

ReplyT_co = TypeVar("ReplyT_co", covariant=True)

ERROR_LIMIT_CHARS = 64 * 1024
"""Characters of an error message that are kept: its end, where tracebacks say why."""

_SAFE_INT: Final = range(-(2**53) + 1, 2**53)
_UNKNOWN_MESSAGE: Final = "unknown message type"


class _Null(Enum):
    REQUIRED = "null"


REQUIRED_NULL: Final = _Null.REQUIRED
"""Written as null: for the few keys that must be present even when they are unset."""


@dataclass(frozen=True, slots=True)
class JsonObject:
    """
    A JSON object of a user's, sent as it is: nulls, fractions and empty lists too.

    For the few keys under which every SDK expects data and no options. It is refused
    where an SDK would read something else than was written: numbers that are none or
    that JavaScript rounds, texts that cannot be stored, more than `DEPTH_LIMIT` levels.
    """

    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Envelope:
    """
    The head of a reply.

    `error_message` is set exactly when the executor says that it failed; it is never
    empty. A result beside it means nothing: SDKs fill in `[]` and `false`.
    """

    message_type: str
    request_id: str
    error_message: str | None


class Request(Protocol[ReplyT_co]):
    """A question to an executor, and how to read the answer."""

    message_type: ClassVar[str]

    def fields(self) -> Mapping[str, object]:
        """
        What follows `type` and `request_id`, in wire names.

        Values are text, bools, ints, aware datetimes, `JsonObject`s, and mappings and
        lists of those. Unset options are left out; the few that must be null are
        `REQUIRED_NULL`.

        Raises:
            InvalidInputError: the request asks for something no SDK understands.
        """
        ...

    def decode_reply(self, frame: bytes) -> ReplyT_co:
        """
        The answer in `frame`, whose envelope is known to match and to hold no error.

        Raises:
            FrameError: it does not answer the question.
        """
        ...


def encode(request: Request[Any], request_id: RequestId) -> str:
    """
    The text frame of `request`, safe to send to every SDK.

    Raises:
        InvalidInputError: a value must not be sent (NUL, half a surrogate pair, an
            empty list, a number JavaScript would round); the location is its path on
            the wire. Nothing is wrong with the executor.
        TypeError: a field has a type that the wire does not know.
    """
    return encode_fields(request.message_type, request_id, request.fields())


def encode_fields(
    message_type: str, request_id: RequestId, fields: Mapping[str, object]
) -> str:
    """The same, of what a request says of itself."""
    frame: dict[str, object] = {
        "type": _sendable(message_type, "type"),
        "request_id": _sendable(request_id, "request_id"),
    }
    for name, value in fields.items():
        if name in frame:
            raise TypeError(f"{message_type}: {name} belongs to the envelope")
        frame[name] = _sendable(value, f"{message_type}.{name}")
    text = write_json(frame)
    if message_type != "import_workflow":
        # Java takes a frame for an import when it finds this word near its start, say
        # as an application's name. Escaped, it means the same and is not found.
        text = text.replace('"import_workflow"', '"import\\u005fworkflow"')
    return text


def write_json(value: object) -> str:
    """Compact JSON in ASCII, of plain values."""
    # Four times as fast as the standard library; but it leaves other characters as
    # they are.
    text = msgspec.json.encode(value)
    if text.isascii():
        return text.decode("ascii")
    return json.dumps(value, separators=(",", ":"))


def _sendable(value: object, path: str) -> object:
    match value:
        case bool():
            return value
        case str():
            return _sendable_text(value, path)
        case int():
            if value not in _SAFE_INT:
                raise InvalidInputError(path, "must be within ±(2^53 - 1)", value)
            return value
        case datetime():
            return _sendable_instant(value, path)
        case JsonObject():
            return _sendable_json(dict(value.value), path, DEPTH_LIMIT)
        case _Null():
            return None
        case list() | tuple():
            # An empty filter is invalid SQL in TypeScript and no filter in Python.
            if not value:
                raise InvalidInputError(path, "must not be empty")
            return [
                _sendable(item, f"{path}[{index}]") for index, item in enumerate(value)
            ]
        case Mapping():
            return {
                _sendable_text(key, path): _sendable(item, f"{path}.{key}")
                for key, item in value.items()
            }
        case _:
            # None too: Java refuses it for a flag, TypeScript reads it as a value.
            # Fractions too: Go does not answer when it expects an integer.
            raise TypeError(f"{path}: {type(value).__name__} is not sent")


def _sendable_json(value: object, path: str, depth: int) -> object:
    match value:
        case None | bool() | str() | int():
            return value if value is None else _sendable(value, path)
        case float():
            if not math.isfinite(value):
                raise InvalidInputError(path, "must be a finite number")
            return value
        case list() | tuple() | Mapping() if depth == 0:
            raise InvalidInputError(path, f"must not be deeper than {DEPTH_LIMIT}")
        case list() | tuple():
            return [
                _sendable_json(item, f"{path}[{index}]", depth - 1)
                for index, item in enumerate(value)
            ]
        case Mapping():
            return {
                _sendable_text(key, path): _sendable_json(
                    item, f"{path}.{key}", depth - 1
                )
                for key, item in value.items()
            }
        case _:
            raise TypeError(f"{path}: {type(value).__name__} is no JSON")


def _sendable_text(text: str, path: str) -> str:
    if clean_text(text) != text:
        raise InvalidInputError(path, "must not hold NUL or half a surrogate pair")
    return text


def _sendable_instant(instant: datetime, path: str) -> str:
    """The one spelling all SDKs read: milliseconds, cut off, and a numeric offset."""
    if instant.tzinfo is None:
        raise TypeError(f"{path}: a naive datetime is not sent")
    try:
        return instant.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise InvalidInputError(path, "must be within the years 1 and 9999") from None


class _Head(msgspec.Struct):
    type: str | None = None
    request_id: str | int | float | bool | None = None
    error_message: str | None = None


def decode_envelope(frame: bytes) -> Envelope:
    """
    The head of a frame; the rest is checked to be JSON and otherwise left alone.

    A number as request id becomes its text: executors echo what they were sent. An
    error message that is empty or no text is none.

    Raises:
        FrameError: the frame is no JSON object with a type and a request id.
    """
    head = skim_frame(frame, _Head)
    if not isinstance(head.type, str):
        raise FrameError("the frame has no type")
    match head.request_id:
        case bool():
            request_id = ""
        case str() | int() | float():
            request_id = str(head.request_id)
        case _:
            request_id = ""
    if not request_id:
        raise FrameError("the frame has no request id")
    return Envelope(
        message_type=clean_text(head.type),
        request_id=clean_text(request_id),
        error_message=_read_error(head.error_message),
    )


def _read_error(error: object) -> str | None:
    if not isinstance(error, str) or not error:
        return None
    return clean_text(error[-ERROR_LIMIT_CHARS:]) or "(unreadable)"


def is_unknown_message(error_message: str) -> bool:
    """Whether an executor says that its SDK does not know the message type."""
    return error_message.strip().casefold() == _UNKNOWN_MESSAGE
