"""What is found out about a workflow, and the words for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

_SECOND: Final = timedelta(seconds=1)


class Code(StrEnum):
    """Why a workflow does not move; stable, for machines. The package explains them."""

    FINISHED = "finished"
    RUNNING = "running"
    OWNER_UNRESPONSIVE = "owner_unresponsive"
    OWNER_DISCONNECTED = "owner_disconnected"
    OWNER_OTHER_VERSION = "owner_other_version"
    OWNER_UNKNOWN = "owner_unknown"
    RECOVERY_SCHEDULED = "recovery_scheduled"
    RECOVERY_WAITING = "recovery_waiting"
    RECOVERY_ORDERED = "recovery_ordered"
    RECOVERY_BRAKED = "recovery_braked"
    RECOVERY_STRANDED = "recovery_stranded"
    RECOVERY_MIGRATING = "recovery_migrating"
    RECOVERY_ENDED = "recovery_ended"
    RECOVERY_ABANDONED = "recovery_abandoned"
    VERSION_ABSENT = "version_absent"
    DELAYED = "delayed"
    QUEUE_FULL = "queue_full"
    RATE_LIMITED = "rate_limited"
    QUEUE_WAITING = "queue_waiting"
    UNKNOWN = "unknown"


MOVING: Final = frozenset({Code.FINISHED, Code.RUNNING})
"""What needs nobody's attention."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    Why a workflow does not move, or that it does.

    Attributes:
        sentence: the same for people, in one or two sentences.
        details: the facts it rests on, by camel-case name: texts, numbers, flags,
            instants, lists of texts, and objects of those. What is not known is absent.
        since: when it began to be so; `None` where that is not known.
    """

    code: Code
    sentence: str
    details: Mapping[str, object]
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be found out, and why."""

    reason: str


def known(**details: object) -> Mapping[str, object]:
    """The details that are there."""
    return {name: value for name, value in details.items() if value is not None}


def say_instant(instant: datetime) -> str:
    """An instant for people: UTC, to the second."""
    text = instant.astimezone(UTC).isoformat(timespec="seconds")
    return text.removesuffix("+00:00") + "Z"


def say_span(span: timedelta) -> str:
    """A span for people; nothing is shorter than no time at all."""
    seconds = max(0, round(span / _SECOND))
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def say_count(count: int, thing: str) -> str:
    """A number of things: `1 workflow`, `2 workflows`."""
    return f"{count} {thing}" + ("" if count == 1 else "s")
