"""Who may open an executor's socket."""

from dataclasses import dataclass

import structlog

from relay.access import Permission, check_application_name, hash_key
from relay.audit import AuditWriter
from relay.errors import ConflictError, InvalidInputError, StoreUnavailableError
from relay.hub.handshake import Admission, Knock, Refusal
from relay.ids import ApplicationRef, AppName
from relay.records import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditStatus,
    AuditSubject,
    KeyRecord,
    application_target,
)
from relay.registry.actor import LOCAL_ORGANIZATION, SHELL_ACTOR
from relay.registry.applications import new_application
from relay.registry.browsers import FOREIGN_HOST, BrowserRules
from relay.registry.keys import Keys
from relay.registry.refusals import RefusalNotes
from relay.settings import AuthMode, RelaySettings
from relay.store import Store

logger = structlog.get_logger(__name__)

REGISTERED = "application.create"
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
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        settings: RelaySettings,
        keys: Keys,
        browsers: BrowserRules,
        notes: RefusalNotes,
    ) -> None:
        self._store = store
        self._audit = audit
        self._settings = settings
        self._keys = keys
        self._browsers = browsers
        self._notes = notes

    async def admit(self, knock: Knock) -> Admission | Refusal:
        """The application to connect to, or the answer that turns the client away."""
        try:
            verdict = await self._judge(knock)
            if isinstance(verdict, Admission):
                return verdict
            await self._write_down(knock, verdict)
        except StoreUnavailableError:
            return Refusal(
                503, "Service Unavailable", "the database does not answer; try again"
            )
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
        key = await self._keys.find(knock.key)
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
        key = await self._keys.find(knock.key)
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
        application, _ = await self._look_up(AppName(knock.app_name))
        scope = key.application_ids
        if scope is not None and (application is None or application.id not in scope):
            return _No(
                Refusal(
                    403, "Forbidden", "the API key does not cover this application"
                ),
                "scope",
                key,
            )
        if application is None:
            return _No(_not_registered(), "application", key)
        return self._welcome(application, key)

    async def _find_or_register(self, knock: Knock) -> ApplicationRef | _No:
        name = AppName(knock.app_name)
        application, is_deleted = await self._look_up(name)
        if application is not None:
            return application
        if is_deleted:
            return _No(
                Refusal(
                    404,
                    "Not Found",
                    "the application was deleted; register it again with PUT",
                ),
                "deleted",
            )
        if not self._settings.is_auto_registering:
            return _No(_not_registered(), "application")
        try:
            return await self._register(name, knock.peer_address)
        except ConflictError:
            # Two first executors at once: the other one has registered it.
            application, _ = await self._look_up(name)
            return application or _No(_not_registered(), "application")

    async def _register(self, name: AppName, peer_address: str) -> ApplicationRef:
        async with self._store.write() as work:
            record = new_application(name, created_by=work)
            await work.applications.insert(record)
            await self._audit.record(
                work,
                AuditEntry(
                    organization=LOCAL_ORGANIZATION,
                    operation=REGISTERED,
                    status=AuditStatus.SUCCESS,
                    subject=RELAY_SUBJECT,
                    target=application_target(name),
                    source_ip=peer_address,
                    details={
                        "application_name": name,
                        "private_mode": False,
                        "first_contact": True,
                    },
                ),
            )
        return record.ref

    async def _look_up(self, name: AppName) -> tuple[ApplicationRef | None, bool]:
        async with self._store.read() as work:
            record = await work.applications.find(LOCAL_ORGANIZATION, name)
            if record is not None:
                return record.ref, False
            return None, await work.applications.is_deleted(LOCAL_ORGANIZATION, name)

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
