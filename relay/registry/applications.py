"""Applications: registering, changing and deleting them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog

from relay.access import Principal, check_application_name
from relay.audit import AuditWriter
from relay.errors import ConflictError, NotFoundError
from relay.ids import ApplicationId, ApplicationRef, AppName, new_id
from relay.records import (
    OPEN_STATES,
    ApplicationRecord,
    VersionPolicy,
    application_target,
)
from relay.registry.actor import LOCAL_ORGANIZATION, Actor
from relay.registry.changes import ApplicationChange
from relay.registry.lookup import ApplicationLookup
from relay.registry.memory import Absence, Memory
from relay.registry.ports import Sockets
from relay.settings import RelaySettings
from relay.store import Store, UnitOfWork

logger = structlog.get_logger(__name__)

DEFAULT_TIMEOUT = timedelta(seconds=60)
SHORT_TIMEOUT = timedelta(seconds=45)
"""Below it an SDK may still be unaware that its link is dead (35 to 46 s)."""

PUT_ATTEMPTS = 5
LISTED_RECOVERIES = 1000
DELETED_REASON = "application deleted; register it again to reconnect"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationView:
    """An application as a caller sees it: the row, and whether anybody is on line."""

    record: ApplicationRecord
    organization_id: str
    is_available: bool


class Applications:
    """
    The use-cases on applications, each with its audit entry in its own transaction.

    Names follow one rule (`relay.access.check_application_name`); a deleted name is
    remembered by the store, so that an executor which still dials does not register
    it again: that needs `put`.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        settings: RelaySettings,
        sockets: Sockets,
        memory: Memory,
        lookup: ApplicationLookup,
        recheck_deadlines: Callable[[], None],
    ) -> None:
        self._store = store
        self._audit = audit
        self._settings = settings
        self._sockets = sockets
        self._memory = memory
        self._lookup = lookup
        self._recheck_deadlines = recheck_deadlines

    async def list_all(self, principal: Principal) -> Sequence[ApplicationView]:
        """The applications in the scope of `principal`, by name."""
        async with self._store.read() as work:
            organization_id = await _organization_id(work)
            records = await work.applications.list_by_organization(LOCAL_ORGANIZATION)
        return [
            self._view(record, organization_id)
            for record in sorted(records, key=lambda record: record.ref.name)
            if principal.covers(record.ref.id)
        ]

    async def get(self, name: str) -> ApplicationView:
        """
        One application.

        Raises:
            InvalidInputError: no application can have that name.
            NotFoundError: no application has it.
        """
        async with self._store.read() as work:
            organization_id = await _organization_id(work)
            record = await get_application(work, name)
        return self._view(record, organization_id)

    async def put(self, actor: Actor, name: str, *, private_mode: bool | None) -> bool:
        """
        Register an application, or change an existing one; whether it is new.

        One that already is as asked is left alone, and no audit entry is written.

        Args:
            private_mode: `None` keeps it, which is False for a new application.

        Raises:
            InvalidInputError: no application can have that name.
            ConflictError: others keep deleting and registering it, again and again.
        """
        app_name = checked_name(name)
        for _ in range(PUT_ATTEMPTS - 1):
            # Somebody registered it between our look and our insert: now it exists,
            # unless it has been deleted since.
            with suppress(ConflictError):
                return await self._put(actor, app_name, private_mode)
        return await self._put(actor, app_name, private_mode)

    async def change(self, actor: Actor, name: str, change: ApplicationChange) -> None:
        """
        Change settings; deadlines that are running move with the executor timeout.

        Every request is audited, with the values it names: also one for values that
        the application has already.

        Raises:
            InvalidInputError: a value breaks a rule, or no application can have that
                name.
            NotFoundError: no application has it.
        """
        change.check()
        async with self._changing(name) as work:
            old = await _lock_application(work, name)
            new = change.apply_to(old)
            await _update_locked(work, new)
            if new.executor_timeout != old.executor_timeout:
                await work.executors.recompute_deadlines(
                    new.ref.id,
                    grace=new.executor_timeout,
                    fault_grace=self._settings.fault_grace,
                )
            await self._audit.record(
                work,
                actor.entry(
                    "application.update",
                    application_target(new.ref.name),
                    {"application_name": new.ref.name, **change.describe()},
                ),
            )
        if new.executor_timeout != old.executor_timeout:
            self._recheck_deadlines()
            if new.executor_timeout < SHORT_TIMEOUT:
                logger.warning(
                    "executor_timeout_is_short",
                    application=new.ref.name,
                    executor_timeout_secs=new.executor_timeout.total_seconds(),
                    advice="an executor may need 35 to 46 s to notice a dead link;"
                    " below 45 s one that is cut off for a moment is recovered alive",
                )

    async def delete(self, actor: Actor, name: str) -> None:
        """
        Delete an application with everything known of its executors.

        Its sockets are closed. Recoveries that were still open end with it; they are
        listed in the audit entry, because nobody will finish that work now. Keys that
        were scoped to it keep their scope and cover nothing.

        Raises:
            InvalidInputError: no application can have that name.
            NotFoundError: no application has it.
        """
        async with self._changing(name) as work:
            record = await _lock_application(work, name)
            recoveries = await work.recoveries.list_by_application(
                record.ref.id, states=OPEN_STATES, limit=LISTED_RECOVERIES, offset=0
            )
            details: dict[str, Any] = {"application_name": record.ref.name}
            if recoveries:
                details["open_recoveries"] = [
                    {
                        "recovery_id": recovery.id,
                        "executor_id": recovery.executor.executor_id,
                        "app_version": recovery.app_version,
                        "state": recovery.state.value,
                        "pending_count": recovery.pending_count,
                    }
                    for recovery in recoveries
                ]
            if not await work.applications.delete(record.ref.id):
                raise AssertionError("a locked row of an application has gone")
            await self._audit.record(
                work,
                actor.entry(
                    "application.delete",
                    application_target(record.ref.name),
                    details,
                ),
            )
        self._memory.learn_application(record.ref.name, Absence.DELETED)
        await self._sockets.close_application(record.ref.id, DELETED_REASON)

    async def _put(
        self, actor: Actor, name: AppName, private_mode: bool | None
    ) -> bool:
        async with self._changing(name) as work:
            old = await work.applications.lock(LOCAL_ORGANIZATION, name)
            if old is None:
                new = new_application(
                    new_ref(name), created_by=work, private_mode=private_mode or False
                )
                await work.applications.insert(new)
            else:
                if private_mode is None or private_mode == old.private_mode:
                    return False
                new = replace(old, private_mode=private_mode)
                await _update_locked(work, new)
            await self._audit.record(
                work,
                actor.entry(
                    "application.create" if old is None else "application.update",
                    application_target(name),
                    {"application_name": name, "private_mode": new.private_mode},
                ),
            )
        self._memory.learn_application(name, new.ref)
        return old is None

    @asynccontextmanager
    async def _changing(self, name: str) -> AsyncIterator[UnitOfWork]:
        """A transaction after which an application is read anew, however it ends."""
        try:
            async with self._store.write() as work:
                yield work
        finally:
            self._lookup.forget(AppName(name))

    def _view(self, record: ApplicationRecord, organization_id: str) -> ApplicationView:
        return ApplicationView(
            record=record,
            organization_id=organization_id,
            is_available=self._sockets.is_available(record.ref.id),
        )


def checked_name(name: str) -> AppName:
    """
    `name` as the name of an application.

    Raises:
        InvalidInputError: it breaks the rule, which the message states.
    """
    return check_application_name(name, "path.appName")


async def get_application(work: UnitOfWork, name: str) -> ApplicationRecord:
    """
    The application called `name`.

    Raises:
        InvalidInputError: no application can have that name.
        NotFoundError: no application has it.
    """
    app_name = checked_name(name)
    record = await work.applications.find(LOCAL_ORGANIZATION, app_name)
    if record is None:
        raise NotFoundError("application", app_name)
    return record


async def _lock_application(work: UnitOfWork, name: str) -> ApplicationRecord:
    app_name = checked_name(name)
    record = await work.applications.lock(LOCAL_ORGANIZATION, app_name)
    if record is None:
        raise NotFoundError("application", app_name)
    return record


def new_ref(name: AppName) -> ApplicationRef:
    """An identity for an application that is not registered yet."""
    return ApplicationRef(ApplicationId(new_id()), LOCAL_ORGANIZATION, name)


async def _update_locked(work: UnitOfWork, record: ApplicationRecord) -> None:
    if not await work.applications.update(record):
        raise AssertionError("a locked row of an application has gone")


def new_application(
    ref: ApplicationRef, *, created_by: UnitOfWork, private_mode: bool = False
) -> ApplicationRecord:
    """A new application with the defaults: 60 s of grace, every threshold off."""
    return ApplicationRecord(
        ref=ref,
        created_at=created_by.now,
        executor_timeout=DEFAULT_TIMEOUT,
        gc_time_threshold=None,
        gc_rows_threshold=None,
        global_timeout=None,
        private_mode=private_mode,
        language=None,
        version_policy=VersionPolicy.SAME,
    )


async def _organization_id(work: UnitOfWork) -> str:
    organization = await work.organizations.find(LOCAL_ORGANIZATION)
    if organization is None:
        raise NotFoundError("organization", LOCAL_ORGANIZATION)
    return organization.id
