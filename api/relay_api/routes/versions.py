"""Versions of an application: `/v2/orgs/{orgName}/apps/{appName}/versions`."""

from typing import Annotated

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from relay.access import Permission
from relay.protocol.versions import VersionRow
from relay.registry import Actor
from relay_api.answers import Mirror, answer_list
from relay_api.bodies import json_body
from relay_api.dependencies import (
    ApplicationName,
    ServerHere,
    changes_application,
    reads_application,
)
from relay_api.shapes import Answer, Given, Instant, Order
from relay_api.waiting import while_connected

router = APIRouter(prefix="/v2/orgs/{orgName}/apps/{appName}/versions")


class ApplicationVersion(Answer):
    """A version; the one with the newest `versionTimestamp` is the latest."""

    version_id: str
    version_name: str
    version_timestamp: Instant
    created_at: Instant


class PatchLatestVersionInputBody(Order):
    """Which version is to be the latest."""

    version_name: Given


_VERSION = Mirror(ApplicationVersion, VersionRow)


@router.get("", operation_id="listAppVersions", response_model=list[ApplicationVersion])
async def list_versions(
    request: Request,
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> Response:
    """The versions that the application has had, the latest first."""
    rows = await while_connected(request, server.operations.versions.list_all(name))
    return await answer_list(server.clock, rows, _VERSION)


@router.patch(
    "/latest",
    operation_id="setLatestAppVersion",
    status_code=204,
    response_class=Response,
)
async def set_latest_version(
    caller: Annotated[
        Actor,
        changes_application(
            Permission.APPLICATION_WRITE, "application.set_latest_version"
        ),
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[
        PatchLatestVersionInputBody, json_body(PatchLatestVersionInputBody)
    ],
) -> None:
    """Make a version the latest, which new work goes to."""
    await server.operations.versions.set_latest(caller, name, body.version_name)
