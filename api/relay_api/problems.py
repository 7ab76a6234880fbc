"""
Errors as problem documents (RFC 9457): the only place that knows both.

Every answer that is no success has this form, whoever produced it: a use-case, the
validation of a request, the router, or a fault nobody expected. A message is shown to
the caller only where its row says so, and masked even then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from math import isfinite
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from relay.errors import (
    AuthenticationError,
    ConflictError,
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    InvalidInputError,
    MalformedInputError,
    NoExecutorError,
    NotFoundError,
    PermissionDeniedError,
    RelayError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
    RequestWithdrawnError,
    SchemaTooNewError,
    SettingsError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
    UnknownMessageError,
)
from relay.telemetry import mask
from relay_api.places import NOWHERE, Places
from relay_api.wording import word

MEDIA_TYPE = "application/problem+json"
INVALID = "validation failed"
UNEXPECTED = "something went wrong in Relay; its log says more under the id given here"
_RETRY_LATER = {"Retry-After": "5"}
_LONGEST_VALUE = 256
_LONGEST_TEXT = 1000
_MOST_FLAWS = 20
"""A stranger decides how much is wrong with a body, not how long we talk about it."""
_ROUTING = {
    404: "there is nothing at this path",
    405: "this path has no such method; `Allow` lists those it has",
}
"""The router's own two refusals, which come without a detail."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing wrong with a request; `location` is dotted: `body.items[3].tag`."""

    location: str
    message: str
    value: object = None


@dataclass(frozen=True, slots=True)
class Problem:
    """What a caller is told about an error."""

    status: int
    detail: str
    flaws: Sequence[Flaw] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    instance: str | None = None

    def to_response(self) -> Response:
        """The problem as an HTTP answer."""
        content: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.instance is not None:
            content["instance"] = self.instance
        if self.flaws:
            content["errors"] = [_describe(flaw) for flaw in self.flaws]
        return JSONResponse(
            content,
            status_code=self.status,
            headers=dict(self.headers),
            media_type=MEDIA_TYPE,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of error is answered; `tell` says what its caller may read."""

    status: int
    tell: Callable[[Any], str] = str
    headers: Mapping[str, str] = field(default_factory=dict)


def _say(text: str) -> Callable[[RelayError], str]:
    return lambda _: text


_STORE_DOWN = Row(503, _say("the database does not answer; try again"), _RETRY_LATER)
_FAULT = Row(500, _say(UNEXPECTED))

ROWS: Mapping[type[RelayError], Row] = {
    RelayError: _FAULT,
    SettingsError: _FAULT,
    StoreError: _FAULT,
    StoreUnavailableError: _STORE_DOWN,
    SchemaTooNewError: Row(503),
    StoreLockedError: _STORE_DOWN,
    NotFoundError: Row(404),
    ConflictError: Row(409),
    InvalidInputError: Row(422, _say(INVALID)),
    MalformedInputError: Row(400),
    AuthenticationError: Row(401, headers={"WWW-Authenticate": "Bearer"}),
    PermissionDeniedError: Row(403),
    DispatchError: Row(502),
    NoExecutorError: Row(503, headers=_RETRY_LATER),
    ConnectionLostError: Row(502),
    ExecutorBusyError: Row(503, headers=_RETRY_LATER),
    ReplyTimeoutError: Row(502),
    ReplyTooLargeError: Row(502),
    ReplyInvalidError: Row(502),
    ExecutorFailedError: Row(502, lambda error: str(error.summary)),
    UnknownMessageError: Row(502, lambda error: str(error.summary)),
    RequestWithdrawnError: Row(502),
}
"""Every kind of error in `relay.errors`; a test fails when one is missing."""


def problem_of(error: Exception, places: Places = NOWHERE) -> Problem:
    """
    What the caller is told about `error`; 500 for what nobody expected.

    Args:
        places: where the operation that was called has its values.
    """
    match error:
        case RelayError():
            row = next(ROWS[kind] for kind in type(error).__mro__ if kind in ROWS)
            flaws: tuple[Flaw, ...] = ()
            if isinstance(error, InvalidInputError):
                location = places.locate(error.location)
                flaws = (Flaw(location, error.message, error.value),)
            return Problem(row.status, _told(row.tell(error)), flaws, row.headers)
        case RequestValidationError():
            return Problem(422, INVALID, _list_flaws(error))
        case HTTPException():
            detail = _ROUTING.get(error.status_code, _told(error.detail))
            return Problem(error.status_code, detail, (), error.headers or {})
        case _:
            return Problem(500, UNEXPECTED)


def explain(error: Exception, places: Places = NOWHERE) -> str:
    """`error` in one line for the audit log: what the caller was told, no more."""
    problem = problem_of(error, places)
    if not problem.flaws:
        return problem.detail
    flaws = "; ".join(f"{flaw.location}: {flaw.message}" for flaw in problem.flaws)
    return _told(f"{problem.detail}: {flaws}")


def _told(text: str, limit: int = _LONGEST_TEXT) -> str:
    text = mask(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _list_flaws(error: RequestValidationError) -> Sequence[Flaw]:
    entries = error.errors()
    flaws = [_flaw(entry) for entry in entries[:_MOST_FLAWS]]
    if len(entries) > _MOST_FLAWS:
        kind = flaws[-1].location.partition(".")[0]
        flaws.append(Flaw(kind, f"and {len(entries) - _MOST_FLAWS} more"))
    return flaws


def _flaw(entry: Mapping[str, Any]) -> Flaw:
    kind, *path = entry["loc"]
    location = str(kind)
    for step in path:
        location += f"[{step}]" if isinstance(step, int) else f".{step}"
    value = None if entry["type"] == "missing" else entry.get("input")
    return Flaw(location, word(entry), value)


def _describe(flaw: Flaw) -> dict[str, Any]:
    described: dict[str, Any] = {
        "location": _told(flaw.location, _LONGEST_VALUE),
        "message": _told(flaw.message),
    }
    value = flaw.value
    if isinstance(value, str):
        described["value"] = _told(value, _LONGEST_VALUE)
    elif isinstance(value, bool | int) or (
        isinstance(value, float) and isfinite(value)
    ):
        described["value"] = value
    return described
