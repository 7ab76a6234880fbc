"""The refusals that the hub itself gives, and how one looks on the wire."""

import json
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Final

from websockets.http11 import Response

from relay.hub.handshake import Refusal

UNKNOWN_PATH: Final = Refusal(
    404,
    "Not Found",
    "executors connect to /websocket/{application}/{key}; the application's name and"
    " the key must be one path segment each",
)
NO_UPGRADE: Final = Refusal(
    400, "Bad Request", "the request is no WebSocket upgrade that Relay understands"
)
DEFECT: Final = Refusal(
    500, "Internal Server Error", "Relay met a defect; its log says which"
)
STOPPING: Final = Refusal(
    503, "Service Unavailable", "Relay is stopping; try again in a moment"
)
OVERLOADED: Final = Refusal(
    503, "Service Unavailable", "Relay is too busy to check the key; try again"
)
CROWDED: Final = Refusal(
    503, "Service Unavailable", "too many executors connect at once; try again"
)
NO_DESCRIPTORS: Final = Refusal(
    503,
    "Service Unavailable",
    "Relay holds as many sockets as its limit of open files allows; try again",
)
UNDECIDED: Final = Refusal(
    503, "Service Unavailable", "Relay cannot check the key now; try again"
)

_RETRY_AFTER_SECONDS: Final = "1"


@cache
def render_plain(refusal: Refusal) -> bytes:
    """One of the refusals above, made once: they are given to crowds."""
    return render(refusal, {})


def refuse_like(response: Response) -> tuple[Refusal, Mapping[str, str]]:
    """
    What websockets refused, with our own detail, and the headers that belong to it.

    Args:
        response: what it would answer; also an acceptance of what is to be refused.
    """
    if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
        return NO_UPGRADE, {}
    status = HTTPStatus(response.status_code)
    headers = {
        name: response.headers[name]
        for name in ("Allow", "Upgrade")
        if name in response.headers
    }
    return Refusal(status.value, status.phrase, NO_UPGRADE.detail), headers


def render(refusal: Refusal, headers: Mapping[str, str]) -> bytes:
    """A refusal as an HTTP response; complete, because SDKs wait for its end."""
    document = {
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
    }
    # A body that is not UTF-8 ends the Python client for good.
    body = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    fields = {
        "Connection": "close",
        "Content-Length": str(len(body)),
        "Content-Type": "application/problem+json",
        **headers,
    }
    if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE:
        fields["Retry-After"] = _RETRY_AFTER_SECONDS
    lines = [f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
