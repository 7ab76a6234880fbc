"""API keys: minting, listing, revoking, recognising."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.access import (
    KEY_PREFIX,
    Permission,
    Principal,
    check_application_name,
    check_grant,
    check_key_name,
    hash_key,
    parse_permissions,
)
from relay.audit import AuditWriter
from relay.errors import (
    AuthenticationError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
)
from relay.gathering import Gathering
from relay.ids import ApplicationId, KeyId, KeyName, new_id
from relay.records import AuditTarget, KeyRecord
from relay.registry.actor import LOCAL_ORGANIZATION, Actor
from relay.registry.lookup import FRESH_FOR
from relay.registry.memory import Memory
from relay.store import Store, UnitOfWork
from relay.telemetry import mask

SECRET_BYTES = 32
DEFAULT_PERMISSIONS = frozenset({Permission.WEBSOCKET_CONNECT})
"""What an executor needs to connect, and nothing else."""

NO_APPLICATION = ApplicationId("00000000-0000-0000-0000-000000000000")
"""Listed as the scope of a key whose applications were all deleted: an empty list
would read "every application"."""


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key: the only moment at which its text is known."""

    text: str
    record: KeyRecord

    def __repr__(self) -> str:
        return f"MintedKey(record={self.record!r})"


class Keys:
    """
    The use-cases on API keys; the store keeps a hash, never the text.

    A key holds permissions and, independently, a scope: all applications or a list.
    Nobody grants more than they hold, and `token.write` is granted by the shell only,
    so that a stolen key cannot make itself successors.
    """

    def __init__(self, *, store: Store, audit: AuditWriter, memory: Memory) -> None:
        self._store = store
        self._audit = audit
        self._memory = memory
        self._used: set[KeyId] = set()
        self._reading: Gathering[bytes, KeyRecord] = Gathering(self._find_many)

    async def create(
        self,
        actor: Actor,
        name: str,
        *,
        permissions: Sequence[str] | None,
        application_names: Sequence[str] | None,
        is_admin: bool = False,
    ) -> MintedKey:
        """
        Mint a key.

        Args:
            permissions: upstream names; `None` or empty grants `websocket.connect`,
                or everything when `is_admin`.
            application_names: the scope; `None` covers every application.
            is_admin: whether the shell asks, which alone may grant `token.write`.

        Raises:
            InvalidInputError: the name or the scope breaks a rule.
            MalformedInputError: a permission does not exist or cannot be granted.
            PermissionDeniedError: the grant exceeds what the actor holds.
            ConflictError: a living key has that name.
        """
        key_name = check_key_name(name, "path.tokenName")
        if mask(name) != name:
            raise InvalidInputError("path.tokenName", "must not look like a key itself")
        if permissions:
            granted = parse_permissions(permissions)
        else:
            granted = frozenset(Permission) if is_admin else DEFAULT_PERMISSIONS
        text = KEY_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        async with self._store.write() as work:
            scope = await _resolve(work, application_names)
            check_grant(actor.principal, granted, scope, via_cli_admin=is_admin)
            if await work.keys.find_by_name(LOCAL_ORGANIZATION, key_name):
                raise ConflictError(f"a key called {name!r} exists")
            record = KeyRecord(
                id=KeyId(new_id()),
                organization=LOCAL_ORGANIZATION,
                name=key_name,
                created_at=work.now,
                last_used_at=None,
                revoked_at=None,
                permissions=frozenset(granted),
                application_ids=None if scope is None else tuple(sorted(scope)),
            )
            await work.keys.insert(record, hash_key(text))
            details: dict[str, Any] = {"permissions": sorted(granted)}
            if application_names is not None:
                details["applications"] = sorted(application_names)
            await self._audit.record(
                work, actor.entry("token.create", token_target(name), details)
            )
        self._memory.learn_key(hash_key(text), record)
        return MintedKey(text, record)

    async def list_live(self) -> Sequence[KeyRecord]:
        """The keys that are not revoked, by name."""
        async with self._store.read() as work:
            records = await work.keys.list_live(LOCAL_ORGANIZATION)
        return sorted(records, key=lambda record: record.name)

    async def revoke(self, actor: Actor, name: str) -> KeyRecord:
        """
        Refuse a key from now on.

        The caller closes the sockets it opened; those of another process follow when
        it looks for revocations.

        Raises:
            NotFoundError: no living key has that name.
        """
        async with self._store.write() as work:
            record = await work.keys.revoke(LOCAL_ORGANIZATION, KeyName(name))
            if record is None:
                raise NotFoundError("key", mask(name))
            await self._audit.record(
                work, actor.entry("token.revoke", token_target(name), {})
            )
        self._memory.learn_revocation(record)
        return record

    async def find(self, text: str) -> KeyRecord | None:
        """
        The key with that text, revoked or not; `None` for one never minted.

        What another process has done to it in the last second may be missing.
        """
        if not text.startswith(KEY_PREFIX):
            return None
        secret_hash = hash_key(text)
        known = self._memory.recall_key(secret_hash, within=FRESH_FOR)
        if known is not None:
            return known
        record = await self._reading.read(secret_hash)
        if record is not None:
            self._memory.learn_key(secret_hash, record)
            return self._memory.recall_key(secret_hash)
        return None

    async def _find_many(self, hashes: Collection[bytes]) -> Mapping[bytes, KeyRecord]:
        async with self._store.read() as work:
            found = {hash_: await work.keys.find_by_hash(hash_) for hash_ in hashes}
        return {hash_: record for hash_, record in found.items() if record is not None}

    async def authenticate(self, text: str) -> Principal:
        """
        The principal that holds the key `text`.

        Raises:
            AuthenticationError: nobody does, or the key is revoked.
        """
        record = await self.find(text)
        if record is None:
            raise AuthenticationError("the API key is unknown")
        if record.revoked_at is not None:
            raise AuthenticationError("the API key is revoked")
        self.note_use(record)
        return principal_of(record)

    def note_use(self, record: KeyRecord) -> None:
        """Remember that a key was used, to be written with the next `flush`."""
        self._used.add(record.id)

    async def flush(self) -> None:
        """Write the last uses noted since the last time; keeps them on failure."""
        if not self._used:
            return
        used = frozenset(self._used)
        async with self._store.write() as work:
            await work.keys.touch(used)
        self._used -= used


def principal_of(record: KeyRecord) -> Principal:
    """The principal that a living key stands for."""
    return Principal(
        kind="api_key",
        id=record.id,
        display=record.name,
        permissions=frozenset(Permission(name) for name in record.permissions),
        application_ids=(
            None
            if record.application_ids is None
            else frozenset(record.application_ids)
        ),
        is_operator=False,
    )


def token_target(name: str) -> AuditTarget:
    """The audit target of what happens to a key."""
    return AuditTarget(kind="token", id=name)


async def _resolve(
    work: UnitOfWork, names: Sequence[str] | None
) -> frozenset[ApplicationId] | None:
    if names is None:
        return None
    if not names:
        raise InvalidInputError(
            "body.appNames", "must name an application, or be left out to cover all"
        )
    places = {
        check_application_name(name, place): place
        for position, name in enumerate(names)
        for place in [f"body.appNames[{position}]"]
    }
    scope: set[ApplicationId] = set()
    # Held, so that none is deleted before the key exists; by name, as everybody does
    # who holds several, so that nobody waits in a circle.
    for name in sorted(places):
        application = await work.applications.lock(LOCAL_ORGANIZATION, name)
        if application is None:
            raise InvalidInputError(places[name], "no application has that name", name)
        scope.add(application.ref.id)
    return frozenset(scope)
