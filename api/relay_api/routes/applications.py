"""Applications: `/v2/orgs/{orgName}/apps`, and their settings under `/relay/v1`."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from relay.access import Permission, require
from relay.errors import InvalidInputError
from relay.records import VersionPolicy
from relay.registry import KEEP, Actor, ApplicationChange, ApplicationView
from relay_api.bodies import describe_body, json_body
from relay_api.dependencies import (
    ApplicationName,
    ServerHere,
    changes_application,
    lists_applications,
    reads_application,
)
from relay_api.shapes import Answer, NotNull, Order, WholeNumber, schema_address

router = APIRouter()

_MILLISECOND = timedelta(milliseconds=1)


class Availability(StrEnum):
    """Whether any executor of the application is on line."""

    AVAILABLE = "AVAILABLE"
    UNAVAILABLE = "UNAVAILABLE"


class Application(Answer):
    """A registered application."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    id: str
    name: str
    org_id: str
    status: Availability
    language: str | None
    executor_timeout_secs: int
    gc_time_threshold_ms: int | None
    gc_rows_threshold: int | None
    global_timeout_ms: int | None
    private_mode: bool
    dbos_cloud: bool


class PutAppInputBody(Order):
    """What can be said about an application when it is registered."""

    private_mode: Annotated[bool | None, NotNull] = None


class PatchAppInputBody(Order):
    """New settings; what is absent stays. 0 and null switch a threshold off."""

    executor_timeout_secs: Annotated[WholeNumber | None, NotNull] = None
    gc_time_threshold_ms: WholeNumber | None = None
    gc_rows_threshold: WholeNumber | None = None
    global_timeout_ms: WholeNumber | None = None
    private_mode: Annotated[bool | None, NotNull] = None


class ApplicationSettings(Answer):
    """What the contract's `Application` has no room for."""

    version_policy: VersionPolicy
    imports_allowed: bool


class ApplicationSettingsPatch(Order):
    """New values; what is absent stays."""

    version_policy: Annotated[VersionPolicy | None, NotNull] = None
    imports_allowed: Annotated[bool | None, NotNull] = None


@router.get(
    "/v2/orgs/{orgName}/apps",
    operation_id="listApps",
    response_model_exclude_unset=True,
)
async def list_apps(
    caller: Annotated[Actor, lists_applications(Permission.APPLICATION_READ)],
    server: ServerHere,
) -> list[Application]:
    """The applications in the caller's scope, by name."""
    views = await server.registry.applications.list_all(caller.principal)
    return [_to_application(view) for view in views]


@router.get(
    "/v2/orgs/{orgName}/apps/{appName}",
    operation_id="getApp",
    response_model_exclude_unset=True,
)
async def get_app(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> Application:
    """One application with its settings."""
    application = _to_application(await server.registry.applications.get(name))
    return application.model_copy(update=schema_address(server.settings, "Application"))


@router.put(
    "/v2/orgs/{orgName}/apps/{appName}",
    operation_id="registerApp",
    status_code=204,
    response_class=Response,
)
async def register_app(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "application.create")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[PutAppInputBody, json_body(PutAppInputBody, required=False)],
) -> None:
    """Register an application; for one that exists, set what the body names."""
    await server.registry.applications.put(caller, name, private_mode=body.private_mode)


@router.patch(
    "/v2/orgs/{orgName}/apps/{appName}",
    operation_id="updateApp",
    status_code=204,
    response_class=Response,
)
async def update_app(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "application.update")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[PatchAppInputBody, json_body(PatchAppInputBody)],
) -> None:
    """
    Change settings.

    The executor timeout also moves the deadlines that are running. Retention acts on
    the whole system database with Python SDKs from 3 and TypeScript SDKs from 5 on,
    other applications on it included.
    """
    await server.registry.applications.change(caller, name, _to_change(body))


@router.delete(
    "/v2/orgs/{orgName}/apps/{appName}",
    operation_id="deleteApp",
    status_code=204,
    response_class=Response,
)
async def delete_app(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "application.delete")
    ],
    server: ServerHere,
    name: ApplicationName,
) -> None:
    """Delete an application, its executors' records and its open recoveries."""
    await server.registry.applications.delete(caller, name)


@router.get(
    "/relay/v1/orgs/{orgName}/apps/{appName}/settings",
    operation_id="getRelaySettings",
)
async def get_settings(
    _: Annotated[Actor, reads_application(Permission.APPLICATION_READ)],
    server: ServerHere,
    name: ApplicationName,
) -> ApplicationSettings:
    """Relay's own settings of an application."""
    view = await server.registry.applications.get(name)
    return ApplicationSettings(
        version_policy=view.record.version_policy,
        imports_allowed=view.record.imports_allowed,
    )


@router.patch(
    "/relay/v1/orgs/{orgName}/apps/{appName}/settings",
    operation_id="updateRelaySettings",
    status_code=204,
    response_class=Response,
    openapi_extra=describe_body(ApplicationSettingsPatch),
)
async def update_settings(
    caller: Annotated[
        Actor, changes_application(Permission.APPLICATION_WRITE, "application.update")
    ],
    server: ServerHere,
    name: ApplicationName,
    body: Annotated[ApplicationSettingsPatch, json_body(ApplicationSettingsPatch)],
) -> None:
    """
    Change Relay's own settings of an application.

    With `versionPolicy` `any`, work that no executor of its version can take is offered
    to executors of other versions too; with `same`, it waits.

    `importsAllowed` lets workflows be imported. A Python application unpickles what it
    is given: whoever may import may run code in its executors. To allow it therefore
    takes `organization.write` besides.
    """
    if body.imports_allowed:
        require(caller.principal, Permission.ORGANIZATION_WRITE, None)
    change = ApplicationChange(
        version_policy=body.version_policy or KEEP,
        imports_allowed=KEEP if body.imports_allowed is None else body.imports_allowed,
    )
    await server.registry.applications.change(caller, name, change)


def _to_application(view: ApplicationView) -> Application:
    record = view.record
    return Application(
        id=record.ref.id,
        name=record.ref.name,
        org_id=view.organization_id,
        status=(
            Availability.AVAILABLE if view.is_available else Availability.UNAVAILABLE
        ),
        language=record.language,
        executor_timeout_secs=record.executor_timeout // timedelta(seconds=1),
        gc_time_threshold_ms=_to_milliseconds(record.gc_time_threshold),
        gc_rows_threshold=record.gc_rows_threshold,
        global_timeout_ms=_to_milliseconds(record.global_timeout),
        private_mode=record.private_mode,
        dbos_cloud=False,
    )


def _to_change(body: PatchAppInputBody) -> ApplicationChange:
    """The one place where the contract's seconds and milliseconds become spans."""
    given = body.model_fields_set
    return ApplicationChange(
        executor_timeout=(
            KEEP
            if body.executor_timeout_secs is None
            else _to_span(
                "body.executorTimeoutSecs",
                body.executor_timeout_secs,
                timedelta(seconds=1),
            )
        ),
        gc_time_threshold=(
            _to_threshold("body.gcTimeThresholdMs", body.gc_time_threshold_ms)
            if "gc_time_threshold_ms" in given
            else KEEP
        ),
        gc_rows_threshold=(
            body.gc_rows_threshold if "gc_rows_threshold" in given else KEEP
        ),
        global_timeout=(
            _to_threshold("body.globalTimeoutMs", body.global_timeout_ms)
            if "global_timeout_ms" in given
            else KEEP
        ),
        private_mode=KEEP if body.private_mode is None else body.private_mode,
    )


def _to_threshold(location: str, milliseconds: int | None) -> timedelta | None:
    if milliseconds is None:
        return None
    return _to_span(location, milliseconds, _MILLISECOND)


def _to_span(location: str, value: int, unit: timedelta) -> timedelta:
    try:
        return value * unit
    except OverflowError:
        raise InvalidInputError(location, "is far too large", value) from None


def _to_milliseconds(span: timedelta | None) -> int | None:
    return None if span is None else span // _MILLISECOND
