"""The use-cases without a server: what commands work with, beside a running one."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from relay.audit import AuditWriter
from relay.census import CensusReports
from relay.clock import SystemClock
from relay.ids import ApplicationId, AuditId, ExecutorRef, KeyId
from relay.records import AuditRecord
from relay.recovery import Ledger
from relay.registry import LOCAL_ORGANIZATION, LiveExecutor, Registry
from relay.server.database import open_for_command
from relay.settings import RelaySettings
from relay.store import Store
from relay.telemetry import Metrics

FOLLOW_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """
    Registry and ledger on the database of a server that may be running.

    A server notices what is changed here by itself: revocations within 5 s, recoveries
    that became due within a second.
    """

    store: Store
    registry: Registry
    ledger: Ledger
    census_reports: CensusReports

    async def list_audit_after(self, audit_id: AuditId | None) -> Sequence[AuditRecord]:
        """At most `FOLLOW_PAGE` entries after that one, oldest first."""
        async with self.store.read() as work:
            return await work.audit.list_after(
                LOCAL_ORGANIZATION, audit_id, FOLLOW_PAGE
            )


@asynccontextmanager
async def open_offline(
    settings: RelaySettings, *, on_created: Callable[[Path], None] | None = None
) -> AsyncIterator[Offline]:
    """
    The use-cases on the database of `settings`.

    Args:
        on_created: allows to make a missing database; see `open_for_command`.

    Raises:
        RelayError: see `open_for_command`.
    """
    clock = SystemClock()
    async with open_for_command(settings, on_created=on_created) as database:
        store = Store(database)
        async with store.write() as work:
            await work.organizations.ensure(LOCAL_ORGANIZATION)
        audit = AuditWriter(Metrics())
        registry = Registry(
            store=store,
            audit=audit,
            settings=settings,
            clock=clock,
            hub=_NoSockets(),
            recheck_deadlines=lambda: None,
        )
        yield Offline(
            store=store,
            registry=registry,
            ledger=Ledger(store, audit),
            census_reports=CensusReports(store),
        )


class _NoSockets:
    """Stands where a server has its hub; nobody is on line here."""

    def find(self, ref: ExecutorRef) -> LiveExecutor | None:
        del ref
        return None

    def is_colliding(self, ref: ExecutorRef) -> bool:
        del ref
        return False

    def is_available(self, application_id: ApplicationId) -> bool:
        del application_id
        return False

    async def close_application(
        self, application_id: ApplicationId, reason: str
    ) -> None:
        del application_id, reason

    async def close_keys(self, key_ids: Collection[KeyId], reason: str) -> None:
        del key_ids, reason
