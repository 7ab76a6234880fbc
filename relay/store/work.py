"""The unit of work: one transaction and its repositories."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sqlalchemy import select

from relay.db import Database, Transaction
from relay.store.applications import ApplicationRepository
from relay.store.audit_log import AuditIds, AuditLogRepository
from relay.store.censuses import CensusRepository, DisputeRepository
from relay.store.deadlines import DeadlineRepository
from relay.store.executors import ExecutorRepository
from relay.store.keys import KeyRepository
from relay.store.metrics import MetricRepository
from relay.store.migrations import MigrationRepository
from relay.store.old_recoveries import OldRecoveryRepository
from relay.store.organizations import OrganizationRepository
from relay.store.owner_facts import OwnerFactRepository
from relay.store.recoveries import RecoveryRepository
from relay.store.tombstones import TombstoneRepository
from relay.store.unknown_owners import UnknownOwnerRepository
from relay.store.workflow_losses import WorkflowLossRepository


class UnitOfWork:
    """
    One open transaction.

    `now` is the database's clock, read once when the transaction began.
    """

    def __init__(self, transaction: Transaction, audit_ids: AuditIds) -> None:
        self.now = transaction.now
        self.organizations = OrganizationRepository(transaction)
        self.applications = ApplicationRepository(transaction)
        self.executors = ExecutorRepository(transaction)
        self.deadlines = DeadlineRepository(transaction)
        self.recoveries = RecoveryRepository(transaction)
        self.old_recoveries = OldRecoveryRepository(transaction)
        self.tombstones = TombstoneRepository(transaction)
        self.owner_facts = OwnerFactRepository(transaction)
        self.unknown_owners = UnknownOwnerRepository(transaction)
        self.censuses = CensusRepository(transaction)
        self.disputes = DisputeRepository(transaction)
        self.workflow_losses = WorkflowLossRepository(transaction)
        self.metrics = MetricRepository(transaction)
        self.migrations = MigrationRepository(transaction)
        self.keys = KeyRepository(transaction)
        self.audit = AuditLogRepository(transaction, audit_ids)
        self._afterwards: list[Callable[[], None]] = []

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Call `tell` once what was written is certain; never, if it is undone."""
        self._afterwards.append(tell)

    def committed(self) -> None:
        """Call what `after_commit` collected, in its order."""
        for tell in self._afterwards:
            tell()


class Store:
    """The way to the rows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit_ids = AuditIds()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[UnitOfWork]:
        """
        Open a unit of work that may not write.

        Raises:
            StoreUnavailableError: the database does not answer; try again later.
        """
        async with self._database.transaction(write=False) as transaction:
            yield UnitOfWork(transaction, self._audit_ids)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[UnitOfWork]:
        """
        Open a unit of work: committed at the end of the block, undone on an error.

        On SQLite there is one writer at a time, so keep it short.

        Raises:
            StoreUnavailableError: the database does not answer. After a failed commit
                the outcome is unknown; decide again from what the rows say.
        """
        async with self._database.transaction(write=True) as transaction:
            work = UnitOfWork(transaction, self._audit_ids)
            yield work
        work.committed()

    async def ping(self) -> None:
        """
        Return when the database answered a question.

        Raises:
            StoreUnavailableError: it did not.
        """
        async with self._database.transaction(write=False) as transaction:
            await transaction.execute(select(1))
