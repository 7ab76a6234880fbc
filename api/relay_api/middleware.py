"""
What happens to every request before it is routed.

From the outside in: `Fence` turns what nobody expected into a problem document,
`OwnHosts` refuses requests for somebody else's host name in local mode, `RawPaths`
makes the path mean what its sender wrote.
"""

from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes
from uuid import uuid4

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay.registry import FOREIGN_HOST
from relay.server import Server
from relay.settings import AuthMode
from relay.telemetry import mask
from relay_api.problems import Problem, problem_of

logger = structlog.get_logger(__name__)


class Fence:
    """
    Answers 500 with an id for whatever escapes, and logs it under that id.

    This is the outermost of the three places that catch everything: the caller learns
    nothing about the fault, the log all of it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_answering = False

        async def send_and_note(message: Message) -> None:
            nonlocal is_answering
            is_answering = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:
            request_id = str(uuid4())
            logger.exception(
                "request_failed",
                request_id=request_id,
                method=scope["method"],
                path=mask(scope["path"]),
            )
            if is_answering:
                raise  # half an answer is out: only a broken connection is honest
            problem = problem_of(error)
            answer = Problem(
                500, problem.detail, instance=f"urn:uuid:{request_id}"
            ).to_response()
            await answer(scope, receive, send)


class OwnHosts:
    """
    Refuses requests whose `Host` is not this server's, in local mode.

    Without keys, this is what stands between a page whose name was rebound to
    127.0.0.1 and everything that can be read here.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_foreign(scope):
            await Problem(403, FOREIGN_HOST).to_response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


class RawPaths:
    """
    Routes by the path as it was sent.

    A server hands over a path that is already decoded, in which a name with an encoded
    slash has become two segments. Here each segment is decoded and encoded again in
    one canonical way, so that literal segments match however they were written and a
    name stays one segment; the parameters decode it, once (`dependencies.Segment`).

    A proxy may leave `root_path` in front or take it away: routes match either way.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = _encode(root_path.encode().split(b"/"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            raw = raw.partition(b"?")[0]
            segments = [unquote_to_bytes(segment) for segment in raw.split(b"/")]
            if not all(_is_text(segment) for segment in segments) or (
                b"%00" in scope.get("query_string", b"")
            ):
                problem = Problem(400, "the URL is not UTF-8 text, or holds a NUL")
                await problem.to_response()(scope, receive, send)
                return
            scope = {**scope, "path": _encode(segments)}
            if self._root_path:
                scope["root_path"] = self._root_path
        await self._app(scope, receive, send)


def _is_foreign(scope: Scope) -> bool:
    server: Server = scope["state"]["server"]
    return (
        server.settings.auth is AuthMode.LOCAL
        and not server.registry.browsers.is_own_host(Headers(scope=scope).get("host"))
    )


def _encode(segments: Sequence[bytes]) -> str:
    return "/".join(quote(segment, safe="") for segment in segments)


def _is_text(segment: bytes) -> bool:
    try:
        return "\0" not in segment.decode()
    except UnicodeDecodeError:
        return False
