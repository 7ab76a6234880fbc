"""
Reading JSON bodies.

The framework would parse a body before it runs any dependency, so that a stranger's
malformed request would be told what is wrong with it before it is told to go away, and
nobody could write down who sent it. Here the body is a dependency like the others, and
the order of a route's parameters decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from typing import Any, Generic, TypeVar

import msgspec
from fastapi import Depends
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from relay.clock import Clock, take_breaths
from relay.errors import MalformedInputError
from relay.settings import RelaySettings
from relay_api.long_bodies import lift_long_texts, put_back

LARGEST_BODY = 1024 * 1024
"""
In bytes, of a request that carries no payload.

What is not larger is read in one go, which takes a few milliseconds.
"""

_LISTED_FLAWS = 1_000
"""To list 100,000 takes half a second, in which nobody else is served."""

ShapeT = TypeVar("ShapeT", bound=BaseModel)


def usual_limit(_: RelaySettings) -> int:
    """What most bodies may hold, in bytes."""
    return LARGEST_BODY


def message_limit(settings: RelaySettings) -> int:
    """What a body may hold that goes on to an executor as it is, in bytes."""
    return settings.max_message_bytes


def json_body(
    shape: type[ShapeT],
    *,
    required: bool = True,
    limit: Callable[[RelaySettings], int] = usual_limit,
) -> Any:
    """
    A dependency that reads the body as `shape`, in strict JSON types.

    An optional body that is missing reads as an empty object. What was read is left in
    the state of the request, as `body`, for whoever writes down what was wanted.

    Args:
        limit: the largest body in bytes, which the settings may decide.

    The route that uses it may raise:
        HTTPException: 413 or 415.
        MalformedInputError: the body is not JSON.
        RequestValidationError: it is, and does not have the shape.
    """
    return Depends(JsonBody(shape, required, limit))


@dataclass(frozen=True, slots=True)
class JsonBody(Generic[ShapeT]):
    """Reads the body of a request; made by `json_body`."""

    shape: type[ShapeT]
    required: bool
    limit: Callable[[RelaySettings], int]

    async def __call__(self, request: Request) -> ShapeT:
        """The body as an object of the shape."""
        text = await _read_bytes(request, self.limit(request.state.server.settings))
        if text:
            check_is_json(request)
        elif self.required:
            raise RequestValidationError(
                [{"type": "missing", "loc": ("body",), "msg": "no body"}]
            )
        try:
            if len(text) > LARGEST_BODY:
                body = await self._read_long(text, request.state.server.clock)
            else:
                body = self.shape.model_validate_json(text or b"{}", strict=True)
        except ValidationError as error:
            raise _translate(error) from None
        request.state.body = body
        return body

    async def _read_long(self, text: bytearray, clock: Clock) -> ShapeT:
        rest, texts = await take_breaths(clock, lift_long_texts(text))
        if not texts:
            return self.shape.model_validate_json(rest, strict=True)
        try:
            properties = put_back(msgspec.json.decode(rest), texts)
        except (msgspec.MsgspecError, RecursionError):
            raise MalformedInputError("the body is not JSON") from None
        return self.shape.model_validate(properties, strict=True)


def describe_body(shape: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """
    The body of a route for its OpenAPI description (`openapi_extra`).

    Enumerations in it have to be part of an answer too: the framework describes those.
    """
    schema = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema}},
        }
    }


def check_is_json(request: Request) -> None:
    """
    Demand a JSON content type.

    Raises:
        HTTPException: 415.
    """
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    media_type = header.get_content_type()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise HTTPException(415, "the body must be sent as application/json")


async def _read_bytes(request: Request, limit_bytes: int) -> bytearray:
    text = bytearray()
    try:
        async for chunk in request.stream():
            text += chunk
            if len(text) > limit_bytes:
                raise HTTPException(413, f"the body is larger than {limit_bytes} bytes")
    except ClientDisconnect:
        raise MalformedInputError("the body was not sent completely") from None
    return text


def _translate(error: ValidationError) -> Exception:
    count = error.error_count()
    if count > _LISTED_FLAWS:
        told = {"type": "too_many", "loc": ("body",), "msg": f"has {count} flaws"}
        return RequestValidationError([told])
    details = error.errors(include_url=False)
    if details[0]["type"] == "json_invalid":
        return MalformedInputError("the body is not JSON")
    return RequestValidationError(
        [{**detail, "loc": ("body", *detail["loc"])} for detail in details]
    )
