"""The registry: one door to the use-cases, and the gatekeeper of the hub."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog

from relay.access import (
    LOCAL_PRINCIPAL,
    Permission,
    Principal,
    require,
    require_permission,
)
from relay.audit import AuditWriter
from relay.clock import Clock
from relay.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    StoreUnavailableError,
)
from relay.hub.handshake import Admission, Knock, Refusal
from relay.ids import AppName, ExecutorRef
from relay.records import AuditRecord, AuditStatus, AuditTarget
from relay.registry.actor import LOCAL_ORGANIZATION, Actor
from relay.registry.applications import Applications
from relay.registry.audit_log import AuditQuery, list_audit
from relay.registry.breaker import Breaker
from relay.registry.browsers import BrowserRules
from relay.registry.directory import Directory
from relay.registry.executors import ExecutorView, list_executors
from relay.registry.gate import Gate
from relay.registry.keys import Keys
from relay.registry.lookup import ApplicationLookup
from relay.registry.memory import Memory
from relay.registry.newcomers import Newcomers
from relay.registry.ports import Sockets
from relay.registry.refusals import RefusalNotes
from relay.settings import AuthMode, RelaySettings
from relay.store import Store

logger = structlog.get_logger(__name__)

POLL_INTERVAL = timedelta(seconds=2)
"""How often revocations made by another process are looked for."""

OVERLAP = timedelta(seconds=60)
"""A revocation is dated when its transaction begins and seen when it ends, and a socket
may have been admitted just before: each one is acted on for this long."""

REVOKED_REASON = "key revoked: reconnect with another, or be recovered elsewhere"


class Registry:
    """
    Everything the REST edge and the command line ask about who and what exists.

    `applications` and `keys` hold the use-cases on those; this class adds who is
    asking, what they may do, and `run`, which makes revocations count that another
    process (the command line) has made.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        settings: RelaySettings,
        clock: Clock,
        hub: Sockets,
        recheck_deadlines: Callable[[], None],
        is_flapping: Callable[[ExecutorRef], bool] = lambda ref: False,
    ) -> None:
        self._store = store
        self._audit = audit
        self._settings = settings
        self._clock = clock
        self._hub = hub
        self._is_flapping = is_flapping
        self._seen_until: datetime | None = None
        self.lookup = ApplicationLookup(store, clock)
        self._memory = Memory(clock)
        self._breaker = Breaker(clock)
        self.browsers = BrowserRules(settings)
        self.newcomers = Newcomers(self._memory, audit)
        self.keys = Keys(store=store, audit=audit, memory=self._memory)
        self.applications = Applications(
            store=store,
            audit=audit,
            settings=settings,
            sockets=hub,
            memory=self._memory,
            lookup=self.lookup,
            recheck_deadlines=recheck_deadlines,
        )
        self._directory = Directory(
            store=store, memory=self._memory, breaker=self._breaker
        )
        self._gate = Gate(
            store=store,
            audit=audit,
            settings=settings,
            keys=self.keys,
            directory=self._directory,
            newcomers=self.newcomers,
            breaker=self._breaker,
            browsers=self.browsers,
            notes=RefusalNotes(clock),
        )

    async def admit(self, knock: Knock) -> Admission | Refusal:
        """Decide on an upgrade request; never raises for what the client did."""
        return await self._gate.admit(knock)

    async def authenticate(self, token: str | None) -> Principal:
        """
        Who is asking.

        In local mode everybody is the local user, whatever token is sent: clients
        send the one they have.

        Raises:
            AuthenticationError: a key is needed, and this is none that lives.
        """
        if self._settings.auth is AuthMode.LOCAL:
            return LOCAL_PRINCIPAL
        if not token:
            raise AuthenticationError("an API key is needed")
        return await self.keys.authenticate(token)

    async def authorize(
        self, principal: Principal, permission: Permission, application: str
    ) -> None:
        """
        Demand a permission on an application, which need not exist.

        A key limited to some applications learns nothing about the others: one that
        does not exist is outside its scope too.

        Raises:
            PermissionDeniedError: the permission is missing or the scope too narrow.
        """
        require_permission(principal, permission)
        if principal.application_ids is None:
            return
        record = await self.lookup.find(AppName(application))
        if record is None:
            raise PermissionDeniedError("this key does not cover the application")
        require(principal, permission, record.ref.id)

    async def revoke_key(self, actor: Actor, name: str) -> None:
        """
        Refuse a key from now on and close its sockets.

        Executors that are cut off like this are recovered elsewhere once their grace
        has passed, unless they come back with another key.

        Raises:
            NotFoundError: no living key has that name.
        """
        record = await self.keys.revoke(actor, name)
        await self._hub.close_keys({record.id}, REVOKED_REASON)

    async def list_executors(self, application: str) -> Sequence[ExecutorView]:
        """The executors of an application; raises as `Applications.get` does."""
        return await list_executors(
            self._store, self._hub, application, self._is_flapping
        )

    async def list_audit(self, query: AuditQuery) -> Sequence[AuditRecord]:
        """The matching audit entries, newest first."""
        return await list_audit(self._store, query)

    async def record_failure(
        self,
        actor: Actor,
        operation: str,
        target: AuditTarget | None,
        details: Mapping[str, Any],
    ) -> None:
        """
        Write down that a mutation was refused or failed.

        It has its own transaction, since that of the mutation was rolled back. When
        the store cannot take it the log has it: the caller's own error matters more.
        """
        entry = actor.entry(operation, target, details, status=AuditStatus.FAILURE)
        try:
            async with self._store.write() as work:
                await self._audit.record(work, entry)
        except StoreUnavailableError:
            logger.warning(
                "failure_not_audited",
                operation=operation,
                subject=actor.subject.display,
                source_ip=actor.source_ip,
            )

    async def ping(self) -> None:
        """
        Ask the database whether it is there.

        Raises:
            StoreUnavailableError: it does not answer, or not in time.
        """
        await self._breaker.ask(self._store.ping)

    async def run(self) -> None:
        """Keep up with the store and write last uses until cancelled."""
        flushed_at = self._clock.monotonic()
        is_down = False
        while True:
            try:
                await self.catch_up()
                now = self._clock.monotonic()
                if now - flushed_at >= self._settings.flush_interval_secs:
                    await self.keys.flush()
                    flushed_at = now
                is_down = False
            except StoreUnavailableError as error:
                if not is_down:
                    logger.warning("revocations_not_read", reason=error.reason)
                is_down = True
            await self._clock.sleep(POLL_INTERVAL)

    async def finish(self) -> None:
        """Write the last uses that are still in memory; at shutdown."""
        try:
            await self._breaker.ask(self.keys.flush)
        except StoreUnavailableError as error:
            logger.warning("last_uses_lost", reason=error.reason)
        await self._breaker.close()

    async def catch_up(self) -> None:
        """
        Learn what other processes did to keys, and register who waits for it.

        The sockets of keys that were revoked lately are closed.

        Raises:
            StoreUnavailableError: try again; nothing is skipped.
        """
        if self._seen_until is None:
            await self._directory.remember_all()
        async with self._store.read() as work:
            now = work.now
            changed = await work.keys.list_hashed(
                changed_since=(self._seen_until or now) - OVERLAP
            )
        for secret_hash, record in changed.items():
            self._memory.learn_key(secret_hash, record)
        revoked = {record.id for record in changed.values() if record.revoked_at}
        await self._hub.close_keys(revoked, REVOKED_REASON)
        self._seen_until = now
        while waiting := self.newcomers.list_ids():
            async with self._store.write() as work:
                await self.newcomers.register(work, waiting)


def check_organization(name: str) -> None:
    """
    Demand the one organization there is.

    Raises:
        NotFoundError: for every other name, also for those no organization can have.
    """
    if name != LOCAL_ORGANIZATION:
        raise NotFoundError("organization", name)
