"""
What an executor's error message means to a caller.

SDKs have no error codes, only texts, each its own. What is recognised here was said by
one of them in a run or stands in its source. What is not recognised stays the fault of
the executor.

A text is a sentence or a traceback, and holds what the caller sent: a workflow may be
called `does not exist`. So the name that was asked for is taken out first, and the
patterns name the thing that is missing: `relation "x" does not exist` is a database
without its schema.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from relay.errors import (
    ConflictError,
    ExecutorFailedError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    RelayError,
    UnknownMessageError,
)

_Told: TypeAlias = Callable[[str, str, str], RelayError]
"""The error made of the reason, the kind and the name."""

_REASON_LIMIT_CHARS: Final = 300
_SEARCHED_LIMIT_CHARS: Final = 4 * 1024
"""Of a line; the time that some patterns take grows with the square of its length."""

_THING: Final = r"(?:workflow|schedule|queue|version|step)"
# A part between colons that is about one of our things, and not about the words in
# which the SDK says what it was doing.
_ABOUT_THING: Final = rf"(?:^|: ){_THING}\b[^:]* "


def _missing(_: str, kind: str, name: str) -> RelayError:
    return NotFoundError(kind, name)


def _taken(*_: str) -> RelayError:
    return ConflictError("an id that must be new is taken already")


def _invalid(reason: str, *_: str) -> RelayError:
    return InvalidInputError("", reason)


def _forbidden(*_: str) -> RelayError:
    return PermissionDeniedError(
        "the application does not allow this: its executors run in metadata-only mode"
    )


_PATTERNS: Final[tuple[tuple[re.Pattern[str], _Told], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), told)
    for pattern, told in (
        (r"not allowed in \S+ metadata-only mode", _forbidden),
        (rf"non-existent (?:\w+ )?{_THING}\b|NonExistent{_THING}", _missing),
        (rf"{_ABOUT_THING}(?:does not exist|not found)", _missing),
        (rf"(?:^|: )no such {_THING}\b", _missing),
        (r"duplicate key value|unique constraint|UniqueViolation", _taken),
        (rf"{_ABOUT_THING}(?:already exists|is already in use)", _taken),
        (r"conflicting workflow id|WorkflowConflict", _taken),
        (r"exactly one of", _invalid),
        (r"at least one group", _invalid),
        (r"must be (?:>|greater than|at least|positive|specified)", _invalid),
        (rf"(?:^|: ){_THING} .* has no steps?(?: named .*)?$", _invalid),
        # A status or a moment that the SDK cannot read.
        (r"no enum constant", _invalid),
        (r"invalid isoformat string|invalid input syntax for type", _invalid),
        (r"parsing time|could not be parsed", _invalid),
        # What is imported is no export.
        (r"BadGzipFile|incorrect header check|gzip: invalid|not in gzip", _invalid),
        (r"illegal base64|incorrect padding", _invalid),
    )
)

_FRAME: Final = re.compile(r'^\s+File "')
_PREFIXES: Final = re.compile(
    r"^(?:[\w.]*(?:Error|Exception|BadGzipFile): )?(?:DBOS Error(?: \d+)?: )?"
)
WITHHELD: Final = (
    "the executor failed; its own log says why: the application is in private mode, and"
    " what it says may hold payloads"
)

_NO_REASON: Final = "(Background on this error"
"""The last line of what SQLAlchemy says."""


def translate(error: ExecutorFailedError, kind: str, name: str) -> RelayError:
    """
    What the caller is told of an executor's error.

    Args:
        kind, name: what the request was about; both stand in a `NotFoundError`.

    Returns:
        The executor's error when its text says nothing that a caller could act on.
    """
    if isinstance(error, UnknownMessageError):
        return error
    line = find_reason(error.message)
    # A plain word would be missing from the sentence, and could not look like one.
    searched = line if name.isalpha() else line.replace(name, "…")
    searched = searched[:_SEARCHED_LIMIT_CHARS]
    reason = _PREFIXES.sub("", line)[:_REASON_LIMIT_CHARS]
    for pattern, told in _PATTERNS:
        if pattern.search(searched):
            return told(reason, kind, name)
    if error.summary.startswith(_NO_REASON):
        return ExecutorFailedError(error.executor, line)
    return error


def withhold(error: RelayError) -> RelayError:
    """
    What is left of a translated error when its application is in private mode.

    The line that says why often holds the value that was wrong.
    """
    match error:
        case UnknownMessageError():
            return error
        case ExecutorFailedError():
            return ExecutorFailedError(error.executor, WITHHELD)
        case InvalidInputError():
            return InvalidInputError(error.location, WITHHELD)
        case _:
            return error


def find_reason(message: str) -> str:
    """
    The line of an error message that says why; empty if it has none.

    Of a traceback it is the first one behind the last frame, for below it databases
    write what they were doing; of any other text the last one that is not indented.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if frames:
        outer = [line for line in lines[frames[-1] :] if not line[0].isspace()]
        return (outer or lines)[0 if outer else -1].strip()
    outer = [line for line in lines if not line[0].isspace()]
    return (outer or lines or [""])[-1].strip()
