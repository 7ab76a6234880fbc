"""
Who is asking, and may they: each route says so in its signature.

A route that reads takes a `reads_…` dependency, a route that changes something a
`changes_…` one. The second kind also refuses web pages of other origins in local mode,
and writes the attempt to the audit log when it is refused or fails: whatever goes wrong
after the caller is known, in the checks, in the body or in the use-case, passes through
it on its way out. (What succeeds is written by the use-case, in its own transaction.)
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Path
from pydantic import AfterValidator
from starlette.requests import Request

from relay.access import Permission, require, require_permission
from relay.errors import PermissionDeniedError
from relay.hub.proxies import ProxyTrust
from relay.ids import AppName
from relay.operations import TARGET_LIMIT_CHARS, name_workflows
from relay.records import AuditTarget, application_target
from relay.registry import Actor, check_organization
from relay.registry.keys import token_target
from relay.server import Server
from relay.settings import AuthMode
from relay.telemetry import mask
from relay_api.bodies import check_is_json
from relay_api.places import places_of
from relay_api.problems import explain

Segment = AfterValidator(unquote)
"""Decodes a path parameter: `middleware.RawPaths` left it encoded."""

_ORGANIZATION_NAMES = {"pattern": "^[a-z0-9_]+$", "minLength": 3, "maxLength": 30}
_APPLICATION_NAMES = {"pattern": "^[a-z0-9_-]+$", "minLength": 3, "maxLength": 256}
"""What the documents say of names; `relay.access` checks them."""

OrgName = Annotated[
    str, Path(alias="orgName", json_schema_extra={**_ORGANIZATION_NAMES}), Segment
]
ApplicationName = Annotated[
    str, Path(alias="appName", json_schema_extra={**_APPLICATION_NAMES}), Segment
]
TokenName = Annotated[str, Path(alias="tokenName"), Segment]
RecoveryPathId = Annotated[str, Path(alias="recoveryId"), Segment]
WorkflowId = Annotated[str, Path(alias="workflowId"), Segment]
QueueName = Annotated[str, Path(alias="queueName"), Segment]
ScheduleName = Annotated[str, Path(alias="scheduleName"), Segment]

_LONGEST_NAME = 256
_ELSEWHERE = frozenset({"cross-site", "same-site"})


async def get_server(request: Request) -> Server:
    """
    The server this process runs; the lifespan put it there.

    A coroutine, because the framework runs a plain function in a thread.
    """
    server: Server = request.state.server
    return server


ServerHere = Annotated[Server, Depends(get_server)]


async def identify(request: Request, server: ServerHere) -> Actor:
    """
    Who is asking, and from where.

    Raises:
        AuthenticationError: a key is needed, and this is none that lives.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    principal = await server.registry.authenticate(
        token.strip() if scheme.lower() == "bearer" else None
    )
    return Actor(principal, _source_address(request, server))


Caller = Annotated[Actor, Depends(identify)]


def reads_organization(permission: Permission) -> Any:
    """Demands `permission` over the whole organization."""

    async def check(caller: Caller, organization: OrgName) -> Actor:
        check_organization(organization)
        require(caller.principal, permission, None)
        return caller

    return Depends(check)


def reads_server(permission: Permission) -> Any:
    """Demands `permission` over everything, on a path that names no organization."""

    async def check(caller: Caller) -> Actor:
        require(caller.principal, permission, None)
        return caller

    return Depends(check)


def lists_applications(permission: Permission) -> Any:
    """Demands `permission`; the listing shows what is in the caller's scope."""

    async def check(caller: Caller, organization: OrgName) -> Actor:
        check_organization(organization)
        require_permission(caller.principal, permission)
        return caller

    return Depends(check)


def reads_application(permission: Permission) -> Any:
    """
    Demands `permission` over the application in the path.

    It stands on every read. So it calls what others depend on: the framework takes as
    long for each dependency as everything here.
    """

    async def check(
        request: Request, organization: OrgName, application: ApplicationName
    ) -> Actor:
        server = await get_server(request)
        caller = await identify(request, server)
        check_organization(organization)
        await server.registry.authorize(caller.principal, permission, application)
        return caller

    return Depends(check)


def changes_application(permission: Permission, operation: str) -> Any:
    """
    Demands `permission` over the application in the path, to change something there.

    Args:
        operation: what the audit log calls the change.
    """

    async def check(
        request: Request,
        caller: Caller,
        server: ServerHere,
        organization: OrgName,
        application: ApplicationName,
    ) -> AsyncIterator[Actor]:
        check_organization(organization)
        change = _Change(operation, application)
        async with change.attempted(request, server, caller, permission):
            yield caller

    return Depends(check)


def changes_workflow(permission: Permission, operation: str) -> Any:
    """The same for the workflow in the path."""

    async def check(
        request: Request,
        caller: Caller,
        server: ServerHere,
        organization: OrgName,
        application: ApplicationName,
        workflow_id: WorkflowId,
    ) -> AsyncIterator[Actor]:
        check_organization(organization)
        change = _Change(operation, application, _target("workflow", workflow_id))
        async with change.attempted(request, server, caller, permission):
            yield caller

    return Depends(check)


def changes_schedule(permission: Permission, operation: str) -> Any:
    """The same for the schedule in the path."""

    async def check(
        request: Request,
        caller: Caller,
        server: ServerHere,
        organization: OrgName,
        application: ApplicationName,
        schedule: ScheduleName,
    ) -> AsyncIterator[Actor]:
        check_organization(organization)
        change = _Change(operation, application, _target("schedule", schedule))
        async with change.attempted(request, server, caller, permission):
            yield caller

    return Depends(check)


def changes_token(permission: Permission, operation: str) -> Any:
    """Demands `permission` over the organization, to change the key in the path."""

    async def check(
        request: Request,
        caller: Caller,
        server: ServerHere,
        organization: OrgName,
        token: TokenName,
    ) -> AsyncIterator[Actor]:
        check_organization(organization)
        target = token_target(_writable(token))
        async with _audited(request, server, caller, operation, target, {}):
            _refuse_pages(request, server)
            require(caller.principal, permission, None)
            yield caller

    return Depends(check)


@dataclass(frozen=True, slots=True)
class _Change:
    """What somebody wants to change; without a target it is the application itself."""

    operation: str
    application: str
    target: AuditTarget | None = None

    @asynccontextmanager
    async def attempted(
        self, request: Request, server: Server, caller: Actor, permission: Permission
    ) -> AsyncIterator[None]:
        """Demands `permission`, and audits what goes wrong from here on."""
        name = _writable(self.application)
        async with _audited(
            request,
            server,
            caller,
            self.operation,
            self.target or application_target(AppName(name)),
            {"application_name": name},
        ):
            _refuse_pages(request, server)
            await server.registry.authorize(
                caller.principal, permission, self.application
            )
            yield


def _source_address(request: Request, server: Server) -> str:
    peer = request.client.host if request.client else ""
    forwarded_for = request.headers.getlist("x-forwarded-for")
    if not forwarded_for:
        return peer
    return ProxyTrust(server.settings.trusted_proxies).find_client(peer, forwarded_for)


@asynccontextmanager
async def _audited(
    request: Request,
    server: Server,
    actor: Actor,
    operation: str,
    target: AuditTarget,
    details: Mapping[str, Any],
) -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        told = {"error": explain(error, places_of(request))}
        facts = {**details, **_list_workflows(request), **told}
        await server.registry.record_failure(actor, operation, target, facts)
        raise


def _list_workflows(request: Request) -> Mapping[str, object]:
    """The workflows that a body names, as far as it could be read."""
    ids = getattr(getattr(request.state, "body", None), "workflow_ids", None)
    return {} if ids is None else name_workflows(ids)


def _refuse_pages(request: Request, server: Server) -> None:
    """
    Refuse what a web page of another origin could send in the name of its reader.

    Only in local mode: elsewhere a page has no key. A browser states the origin on
    every such request. The content type comes on top, for the requests it would send
    without asking first ("simple" ones, which cannot be JSON).
    """
    if server.settings.auth is not AuthMode.LOCAL:
        return
    origin = request.headers.get("origin")
    host = request.headers.get("host")
    if (
        origin is not None and not server.registry.browsers.is_own_origin(origin, host)
    ) or request.headers.get("sec-fetch-site") in _ELSEWHERE:
        raise PermissionDeniedError("web pages of another origin may change nothing")
    if "content-type" in request.headers:
        check_is_json(request)


def _target(kind: str, name: str) -> AuditTarget:
    return AuditTarget(kind=kind, id=_writable(name, TARGET_LIMIT_CHARS))


def _writable(name: str, longest_chars: int = _LONGEST_NAME) -> str:
    """`name` fit for the audit log: it is not known yet whether it is a name at all."""
    return mask(name)[:longest_chars]
