"""What a `FakeExecutor` can do when it is asked something."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the right type and id, with these fields."""

    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error reply, such as `Unknown message type`."""

    message: str


@dataclass(frozen=True, slots=True)
class Silence:
    """No reply at all."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The same as `then`, but after `span` of the executor's clock."""

    span: timedelta
    then: "Answer" = field(default_factory=lambda: Default())


@dataclass(frozen=True, slots=True)
class Raw:
    """One frame as it stands: text is sent as text, bytes are sent as *text* too."""

    frame: str | bytes


@dataclass(frozen=True, slots=True)
class Binary:
    """One binary frame."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class WrongId:
    """A reply with these fields to a request that nobody sent."""

    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrongType:
    """A reply with the right id and another type."""

    message_type: str = "something_else"


@dataclass(frozen=True, slots=True)
class Fragmented:
    """A reply with these fields, cut into `pieces` fragments."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    pieces: int = 3


@dataclass(frozen=True, slots=True)
class Huge:
    """A reply padded to more than `size_bytes`, in one frame."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Hangup:
    """A close frame instead of a reply; without a code, a TCP reset."""

    code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Default:
    """What a well-behaved executor answers."""


Answer: TypeAlias = (
    Reply
    | Failure
    | Silence
    | Slow
    | Raw
    | Binary
    | WrongId
    | WrongType
    | Fragmented
    | Huge
    | Hangup
    | Default
)
