"""The application that uvicorn serves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from relay import __version__
from relay.errors import RelayError
from relay.server import open_server
from relay.settings import RelaySettings
from relay_api.middleware import Fence, OwnHosts, RawPaths
from relay_api.places import places_of
from relay_api.problems import Problem, problem_of
from relay_api.routes import (
    applications,
    audit_logs,
    census,
    contract,
    diagnosis,
    executors,
    health,
    metrics,
    metrics_list,
    migrations,
    permissions,
    queues,
    recoveries,
    schedules,
    statistics,
    tokens,
    versions,
    workflow_changes,
    workflows,
)
from relay_api.unserved import explain_absence

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def create_app(settings: RelaySettings) -> FastAPI:
    """
    Relay's HTTP surface; its lifespan opens the server and closes it.

    The routes find the server in the lifespan's state, as does the socket protocol
    its hub.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with open_server(settings) as server:
            yield {"server": server, "hub": server.hub}

    app = FastAPI(
        title="Relay",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,  # the contract is a file, see `routes.contract`
        redirect_slashes=False,
    )
    # What is asked for most stands first: routes are tried one after the other.
    for resource in (
        workflows,
        applications,
        executors,
        versions,
        queues,
        schedules,
        workflow_changes,
        statistics,
        tokens,
        permissions,
        audit_logs,
        recoveries,
        migrations,
        census,
        diagnosis,
        metrics,
        metrics_list,
        health,
        contract,
    ):
        app.include_router(resource.router)
    app.add_exception_handler(RelayError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_routing_error)
    app.add_exception_handler(ClientDisconnect, _answer_nobody)
    # The last one added sees a request first.
    app.add_middleware(RawPaths, root_path=settings.root_path)
    app.add_middleware(OwnHosts)
    app.add_middleware(Fence)
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    return problem_of(error, places_of(request)).to_response()


async def _answer_nobody(request: Request, error: Exception) -> Response:
    """Answer a client that has gone: with the status that proxies log for it."""
    del request, error
    return Response(status_code=499)


async def _answer_routing_error(request: Request, error: Exception) -> Response:
    """
    Answer 404 and 405 of the router, and what a route says in the router's words.

    An operation of the contract without a route is 404, also where its path has other
    methods: it is missing, not wrong. Of those the router knows one; `Allow` has to
    name the methods of all routes on the path.
    """
    answer = problem_of(error).to_response()
    if not isinstance(error, HTTPException) or error.status_code not in (404, 405):
        return answer
    absence = explain_absence(request.scope)
    if absence is not None:
        return Problem(404, absence).to_response()
    if error.status_code == 405:
        answer.headers["Allow"] = ", ".join(_list_methods(request))
    return answer


def _list_methods(request: Request) -> list[str]:
    scope = {key: request.scope[key] for key in ("type", "path", "root_path")}
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**scope, "method": method, "headers": []})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
