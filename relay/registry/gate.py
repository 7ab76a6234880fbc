"""Who may open an executor's socket."""

import asyncio
from dataclasses import dataclass
from typing import assert_never

import structlog

from relay.access import Permission, check_application_name, hash_key
from relay.audit import AuditWriter
from relay.errors import InvalidInputError, StoreUnavailableError
from relay.hub.handshake import Admission, Knock, Refusal
from relay.ids import ApplicationRef, AppName
from relay.records import (
    AuditEntry,
    AuditStatus,
    AuditSubject,
    KeyRecord,
    application_target,
)
from relay.registry.actor import LOCAL_ORGANIZATION, SHELL_ACTOR
from relay.registry.breaker import Breaker
from relay.registry.browsers import FOREIGN_HOST, BrowserRules
from relay.registry.directory import Directory
from relay.registry.keys import Keys
from relay.registry.memory import Absence
from relay.registry.newcomers import Newcomers
from relay.registry.refusals import RefusalNotes
from relay.settings import AuthMode, RelaySettings
from relay.store import Store

logger = structlog.get_logger(__name__)

REFUSED = "executor.refuse"
UNKNOWN_KEY = AuditSubject(kind="api_key", id="", display="unknown key")


@dataclass(frozen=True, slots=True)
class _No:
    """A refusal with the word for it in the audit log and whose key it was."""

    refusal: Refusal
    reason: str
    key: KeyRecord | None = None


class Gate:
    """
    Decides on upgrade requests.

    A refused client knocks again every second for ever, so a refusal costs one indexed
    read at most and is written down once an hour (`RefusalNotes`). Its text reaches
    the log of the application, and says what to do.

    While the store is away the same rules apply to what is remembered (`Directory`).
    Whoever cannot be judged by that is asked to wait with 503 where keys are needed. In
    local mode nobody has to: an application that nobody has heard of is a newcomer,
    whose row is written later. A refusal that cannot be written down then is written
    down when the client, which goes on knocking, is refused again.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        settings: RelaySettings,
        keys: Keys,
        directory: Directory,
        newcomers: Newcomers,
        breaker: Breaker,
        browsers: BrowserRules,
        notes: RefusalNotes,
    ) -> None:
        self._store = store
        self._audit = audit
        self._settings = settings
        self._keys = keys
        self._directory = directory
        self._newcomers = newcomers
        self._breaker = breaker
        self._browsers = browsers
        self._notes = notes

    async def admit(self, knock: Knock) -> Admission | Refusal:
        """The application to connect to, or the answer that turns the client away."""
        try:
            verdict = await self._judge(knock)
        except StoreUnavailableError:
            return Refusal(
                503, "Service Unavailable", "the database does not answer; try again"
            )
        if isinstance(verdict, Admission):
            return verdict
        await self._write_down(knock, verdict)
        return verdict.refusal

    async def _judge(self, knock: Knock) -> Admission | _No:
        try:
            check_application_name(knock.app_name, "path.appName")
        except InvalidInputError as error:
            return _No(
                Refusal(404, "Not Found", f"application name: {error.message}"), "name"
            )
        if self._settings.auth is AuthMode.LOCAL:
            return await self._judge_locally(knock)
        return await self._judge_by_key(knock)

    async def _judge_locally(self, knock: Knock) -> Admission | _No:
        if knock.origin is not None:
            return _No(
                Refusal(403, "Forbidden", "web pages may not connect as executors"),
                "origin",
            )
        if not self._browsers.is_own_host(knock.host):
            return _No(Refusal(403, "Forbidden", FOREIGN_HOST), "host")
        try:
            key = await self._directory.find_key(knock.key)
        except StoreUnavailableError:
            # It would only give the socket a name.
            key = None
        if key is not None and key.revoked_at is not None:
            logger.warning(
                "revoked_key_used",
                application=knock.app_name,
                key_name=key.name,
                advice="local mode admits every key; set RELAY_AUTH=keys to refuse it",
            )
            key = None
        application = await self._find_or_register(knock)
        if isinstance(application, _No):
            return application
        return self._welcome(application, key)

    async def _judge_by_key(self, knock: Knock) -> Admission | _No:
        key = await self._directory.find_key(knock.key)
        if key is None:
            return _No(
                Refusal(401, "Unauthorized", "the API key is unknown"), "unknown_key"
            )
        if key.revoked_at is not None:
            return _No(
                Refusal(401, "Unauthorized", "the API key is revoked"),
                "revoked_key",
                key,
            )
        if Permission.WEBSOCKET_CONNECT not in key.permissions:
            return _No(
                Refusal(
                    403, "Forbidden", "the API key does not hold websocket.connect"
                ),
                "permission",
                key,
            )
        application = await self._directory.find_application(AppName(knock.app_name))
        scope = key.application_ids
        if scope is not None and (
            isinstance(application, Absence) or application.id not in scope
        ):
            return _No(
                Refusal(
                    403, "Forbidden", "the API key does not cover this application"
                ),
                "scope",
                key,
            )
        if isinstance(application, Absence):
            return _No(_not_registered(), "application", key)
        return self._welcome(application, key)

    async def _find_or_register(self, knock: Knock) -> ApplicationRef | _No:
        name = AppName(knock.app_name)
        is_registering = self._settings.is_auto_registering
        try:
            application = await self._directory.find_application(name)
            if application is Absence.UNREGISTERED and is_registering:
                newcomer = self._newcomers.welcome(name, knock.peer_address)
                await self._breaker.ask(lambda: self._register(newcomer))
                # Not always the newcomer: another may have been faster.
                application = await self._directory.find_application(name)
        except StoreUnavailableError:
            if not is_registering:
                raise
            return self._newcomers.welcome(name, knock.peer_address)
        match application:
            case ApplicationRef():
                return application
            case Absence.DELETED:
                return _No(
                    Refusal(
                        404,
                        "Not Found",
                        "the application was deleted; register it again with PUT",
                    ),
                    "deleted",
                )
            case Absence.UNREGISTERED:
                return _No(_not_registered(), "application")
            case _:
                assert_never(application)

    async def _register(self, newcomer: ApplicationRef) -> None:
        async with self._store.write() as work:
            await self._newcomers.register(work, {newcomer.id})

    def _welcome(self, application: ApplicationRef, key: KeyRecord | None) -> Admission:
        if key is None:
            return Admission(application, None, None)
        self._keys.note_use(key)
        return Admission(application, key.id, key.name)

    async def _write_down(self, knock: Knock, verdict: _No) -> None:
        if verdict.reason == "name":
            # Such a name may hold anything, and nothing else is known of the client.
            kind: tuple[object, ...] = (verdict.reason, knock.peer_address)
        elif verdict.key is not None:
            kind = (verdict.reason, knock.app_name, verdict.key.id)
        else:
            kind = (verdict.reason, knock.app_name, hash_key(knock.key))
        if not self._notes.is_news(kind):
            return
        try:
            await self._breaker.ask(lambda: self._audit_refusal(knock, verdict))
        except StoreUnavailableError:
            self._notes.forget(kind)
        except asyncio.CancelledError:
            self._notes.forget(kind)
            raise

    async def _audit_refusal(self, knock: Knock, verdict: _No) -> None:
        details = {"reason": verdict.reason, "status": verdict.refusal.status}
        if verdict.reason != "name":
            details["application_name"] = knock.app_name
        async with self._store.write() as work:
            await self._audit.record(
                work,
                AuditEntry(
                    organization=LOCAL_ORGANIZATION,
                    operation=REFUSED,
                    status=AuditStatus.FAILURE,
                    subject=self._subject(verdict),
                    target=(
                        None
                        if verdict.reason == "name"
                        else application_target(AppName(knock.app_name))
                    ),
                    source_ip=knock.peer_address,
                    details=details,
                ),
            )

    def _subject(self, verdict: _No) -> AuditSubject:
        if verdict.key is not None:
            return AuditSubject(
                kind="api_key", id=verdict.key.id, display=verdict.key.name
            )
        if self._settings.auth is AuthMode.LOCAL:
            return SHELL_ACTOR.subject
        return UNKNOWN_KEY


def _not_registered() -> Refusal:
    return Refusal(
        404, "Not Found", "no application has this name; register it with PUT"
    )
