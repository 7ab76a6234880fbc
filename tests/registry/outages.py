"""A store that goes away when a test says so."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from relay.db import Database
from relay.errors import StoreUnavailableError
from relay.hub.handshake import Admission, Refusal
from relay.registry import AuditQuery, Registry
from relay.store import Store, UnitOfWork


class FragileStore(Store):
    """A store that counts how often it was asked, and can refuse or hang."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.questions = 0
        self._is_refusing = False
        self._silence: asyncio.Event | None = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """Every question fails at once, as when nothing listens on the port."""
        self._is_refusing = True
        try:
            yield
        finally:
            self._is_refusing = False

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """No question is answered, as when the machine behind the port is stopped."""
        self._silence = asyncio.Event()
        try:
            yield
        finally:
            self._silence.set()
            self._silence = None

    @asynccontextmanager
    async def read(self) -> AsyncIterator[UnitOfWork]:
        await self._meet()
        async with super().read() as work:
            yield work

    @asynccontextmanager
    async def write(self) -> AsyncIterator[UnitOfWork]:
        await self._meet()
        async with super().write() as work:
            yield work

    async def ping(self) -> None:
        await self._meet()
        await super().ping()

    async def _meet(self) -> None:
        self.questions += 1
        if self._is_refusing:
            raise StoreUnavailableError("secret-host refused")
        if self._silence is not None:
            await self._silence.wait()


def admitted(answer: Admission | Refusal) -> Admission:
    """`answer`, which must be an admission."""
    assert isinstance(answer, Admission)
    return answer


async def operations(registry: Registry, operation: str) -> int:
    """How many audit entries tell of that operation."""
    return len(await registry.list_audit(AuditQuery(operation=operation)))
