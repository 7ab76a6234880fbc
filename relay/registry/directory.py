"""Which application and which key: asked of the store, or remembered."""

from datetime import timedelta

from relay.access import KEY_PREFIX, hash_key
from relay.errors import StoreUnavailableError
from relay.ids import ApplicationRef, AppName
from relay.records import KeyRecord
from relay.registry.actor import LOCAL_ORGANIZATION
from relay.registry.breaker import Breaker
from relay.registry.memory import Absence, Memory
from relay.store import Store

FRESH = timedelta(seconds=1)
"""
How old an answer may be that is given without asking: that a key or an application is
there, or that a key is revoked, which it stays.

After a restart ten thousand executors of a few applications knock within seconds, with
a few keys. The span counts against the 5 s within which a revocation takes effect.
"""


class Directory:
    """
    Looks up applications and keys, for as long as anything is known about them.

    The store is asked unless it has just shown us the application or the key. When it
    does not answer, what it said last holds, however long ago: who was known is known,
    who was revoked or deleted stays so. Only what nobody has heard of is a
    `StoreUnavailableError`.
    """

    def __init__(self, *, store: Store, memory: Memory, breaker: Breaker) -> None:
        self._store = store
        self._memory = memory
        self._breaker = breaker

    async def find_key(self, text: str) -> KeyRecord | None:
        """
        The key with that text, revoked or not; `None` for one never minted.

        Raises:
            StoreUnavailableError: it is not remembered, and the store is away.
        """
        if not text.startswith(KEY_PREFIX):
            return None
        secret_hash = hash_key(text)
        known = self._memory.recall_key(secret_hash, within=FRESH)
        if known is not None:
            return known
        try:
            return await self._breaker.ask(lambda: self._read_key(secret_hash))
        except StoreUnavailableError:
            known = self._memory.recall_key(secret_hash)
            if known is None:
                raise
            return known

    async def find_application(self, name: AppName) -> ApplicationRef | Absence:
        """
        The application of that name, or why there is none.

        Raises:
            StoreUnavailableError: it is not remembered, and the store is away.
        """
        known = self._memory.recall_application(name, within=FRESH)
        if isinstance(known, ApplicationRef):
            return known
        try:
            return await self._breaker.ask(lambda: self._read_application(name))
        except StoreUnavailableError:
            known = self._memory.recall_application(name)
            if known is None:
                raise
            return known

    async def remember_all(self) -> None:
        """
        Remember every application, every deleted name and every living key.

        Raises:
            StoreUnavailableError: it is away.
        """
        async with self._store.read() as work:
            refs = await work.applications.list_refs(LOCAL_ORGANIZATION)
            deleted = await work.applications.list_deleted(LOCAL_ORGANIZATION)
            keys = await work.keys.list_hashed(changed_since=None)
        for ref in refs:
            self._memory.learn_application(ref.name, ref)
        for name in deleted:
            self._memory.learn_application(name, Absence.DELETED)
        for secret_hash, record in keys.items():
            self._memory.learn_key(secret_hash, record)

    async def _read_key(self, secret_hash: bytes) -> KeyRecord | None:
        async with self._store.read() as work:
            record = await work.keys.find_by_hash(secret_hash)
        if record is not None:
            self._memory.learn_key(secret_hash, record)
        return record

    async def _read_application(self, name: AppName) -> ApplicationRef | Absence:
        fact: ApplicationRef | Absence
        async with self._store.read() as work:
            record = await work.applications.find(LOCAL_ORGANIZATION, name)
            if record is not None:
                fact = record.ref
            elif await work.applications.is_deleted(LOCAL_ORGANIZATION, name):
                fact = Absence.DELETED
            else:
                fact = Absence.UNREGISTERED
        self._memory.learn_application(name, fact)
        return fact
