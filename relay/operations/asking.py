"""Asking whichever executor of an application can answer a caller."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

import structlog

from relay.clock import Clock
from relay.dispatch import Dispatcher, Peer, Repeat
from relay.dispatch.misfits import find_misfit, to_camel
from relay.errors import (
    ExecutorFailedError,
    InvalidInputError,
    NoExecutorError,
    RelayError,
    UnknownMessageError,
)
from relay.ids import AppVersion
from relay.operations.failures import WITHHELD, translate, withhold
from relay.protocol import Request
from relay.protocol.sdk import Sdk
from relay.protocol.support import keeps_apart
from relay.protocol.versions import ListApplicationVersionsRequest, VersionRow
from relay.records import ApplicationRecord
from relay.settings import RelaySettings
from relay.store import Store

ReplyT = TypeVar("ReplyT")
Check = Callable[[Peer], RelayError | None]

TRY_TIMEOUT: Final = timedelta(seconds=10)
"""For one executor, as long as there is another one that could be asked."""

_REST_NAMES: Final = {
    "application_version": "app_version",
    "authenticated_user": "user",
    "function_name": "step_name",
    "workflow_uuids": "workflow_ids",
}
"""Wire names that REST has another word for; the others are the same in camel case."""

logger = structlog.get_logger(__name__)


class Executors:
    """
    Reads and changes through any executor of an application that can do it.

    All executors of an application work on one database, so that it does not matter
    which one answers; which SDK it has does. Who would not know the message, or would
    leave one of its options out of account, is not asked.

    Every method raises:
        NoExecutorError: none is connected; try again later.
        InvalidInputError: the executors' SDKs would ignore an option that is set, or
            refuse its value; `location` names it.
        NotFoundError, ConflictError, PermissionDeniedError: what the executor said.
        DispatchError: nobody answered in time, or usefully.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: RelaySettings,
        clock: Clock,
        store: Store,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._settings = settings
        self._clock = clock

    async def read(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        *,
        about: tuple[str, str] | None = None,
        within: timedelta | None = None,
    ) -> ReplyT:
        """
        The answer of any executor; the next one is asked when one is lost or silent.

        Args:
            about: kind and name of what is asked for, for `NotFoundError`.
            within: for all tries; default: the setting for requests of callers. With a
                span of its own one try may take all of it.
        """
        _, reply = await self._read(application, request, about=about, within=within)
        return reply

    async def change(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        *,
        repeat: Repeat,
        about: tuple[str, str] | None = None,
        within: timedelta | None = None,
        latest_version: bool = False,
    ) -> ReplyT:
        """
        What one executor says of having made a change.

        Args:
            repeat: whether another one is asked when the first one is lost or silent.
            about: kind and name of what is changed, for `NotFoundError`.
            within: for all tries; default: the setting for requests of callers. With a
                span of its own one try may take all of it.
            latest_version: whether only executors of the latest application version
                may do it. Where no executor knows which one that is, all may.
        """
        span = self._settings.request_timeout if within is None else within
        deadline = self._clock.monotonic() + span.total_seconds()
        check: Check | None = None
        if latest_version:
            latest = await self._find_latest_version(application)
            check = None if latest is None else _having(application, latest)
        # Of what must not be repeated once it is delivered, nobody is hurried: the
        # answer to a second try would be the same time-out.
        may_hurry = within is None and repeat is Repeat.ALWAYS
        _, reply = await self._ask(
            application,
            request,
            repeat,
            timedelta(seconds=deadline - self._clock.monotonic()),
            about=about,
            attempt_timeout=TRY_TIMEOUT if may_hurry else None,
            check=check,
        )
        return reply

    async def list_own_versions(
        self, application: ApplicationRecord
    ) -> Sequence[VersionRow]:
        """
        The versions of this application and of no other, the latest first.

        Some SDKs list those of every application in their database, and do not say
        whose they are: of such ones those count of which Relay knows an executor of
        this application, connected or not.
        """
        peer, rows = await self._read(application, ListApplicationVersionsRequest())
        if keeps_apart(_sdk_of(peer)):
            return rows
        async with self._store.read() as work:
            own = await work.executors.list_versions(application.ref.id)
        # Its row may not be written yet.
        own.add(peer.info.application_version)
        return [row for row in rows if row.version_name in own]

    async def _read(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        *,
        about: tuple[str, str] | None = None,
        within: timedelta | None = None,
    ) -> tuple[Peer, ReplyT]:
        return await self._ask(
            application,
            request,
            Repeat.ALWAYS,
            self._settings.request_timeout if within is None else within,
            about=about,
            attempt_timeout=TRY_TIMEOUT if within is None else None,
        )

    async def _find_latest_version(
        self, application: ApplicationRecord
    ) -> AppVersion | None:
        try:
            versions = await self.list_own_versions(application)
        except UnknownMessageError:
            return None
        return AppVersion(versions[0].version_name) if versions else None

    async def _ask(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        repeat: Repeat,
        span: timedelta,
        *,
        about: tuple[str, str] | None,
        attempt_timeout: timedelta | None,
        check: Check | None = None,
    ) -> tuple[Peer, ReplyT]:
        # What each SDK lacks takes a while to find out of a long filter, and thousands
        # of executors may have the same one.
        misfits: dict[Sdk, RelayError | None] = {}

        def suits(peer: Peer) -> RelayError | None:
            sdk = _sdk_of(peer)
            if sdk not in misfits:
                misfits[sdk] = find_misfit(peer, request)
            return (check(peer) if check else None) or misfits[sdk]

        try:
            return await self._dispatcher.ask_any(
                application.ref,
                request,
                span,
                attempt_timeout=attempt_timeout,
                is_last_patient=True,
                repeat=repeat,
                suits=suits,
            )
        except ExecutorFailedError as error:
            logger.debug(
                "executor_failed",
                application=application.ref.name,
                executor_id=error.executor,
                message_type=request.message_type,
                error=WITHHELD if application.private_mode else error.message,
            )
            kind, name = about or ("application", application.ref.name)
            told = translate(error, kind, name)
            raise (withhold(told) if application.private_mode else told) from None
        except InvalidInputError as error:
            raise _in_rest(error, request) from None


def _sdk_of(peer: Peer) -> Sdk:
    return Sdk(peer.info.language, peer.info.dbos_version)


def _having(application: ApplicationRecord, version: AppVersion) -> Check:
    def check(peer: Peer) -> RelayError | None:
        if peer.info.application_version == version:
            return None
        return NoExecutorError(application.ref.name, version)

    return check


def _in_rest(error: InvalidInputError, request: Request[Any]) -> InvalidInputError:
    """An error of the encoder, which knows wire paths, under a name of REST."""
    prefix, _, path = error.location.partition(".")
    if prefix != request.message_type:
        return error
    name = path.removeprefix("body.").partition("[")[0].partition(".")[0]
    return InvalidInputError(
        to_camel(_REST_NAMES.get(name, name)), error.message, error.value
    )
