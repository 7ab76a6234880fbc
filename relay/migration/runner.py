"""Stranded work moved to another version: planned, begun, and carried on with."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from relay.audit import AuditWriter
from relay.clock import Clock
from relay.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StoreUnavailableError,
)
from relay.ids import (
    ApplicationId,
    AppVersion,
    ExecutorId,
    MigrationId,
    RecoveryId,
    WorkflowId,
    new_id,
)
from relay.liveness.states import ExecutorStatus
from relay.migration.books import Books, Overtaken, Task
from relay.migration.mover import RETRY_PAUSE, Mover
from relay.migration.planning import Situation, make_plan
from relay.migration.ports import Connections
from relay.migration.reading import Gathered, Reader
from relay.migration.reports import MigrationReport, report_plan, report_run
from relay.operations.asking import Executors
from relay.protocol.sdk import Sdk
from relay.protocol.support import surely_knows_message
from relay.protocol.workflow_orders import RewindWorkflowRequest
from relay.records import (
    OPEN_ITEM_STATES,
    ApplicationRecord,
    ItemState,
    MigrationItem,
    MigrationMethod,
    MigrationRecord,
    RecoveryRecord,
    RecoveryState,
)
from relay.recovery.ledger import check_identity
from relay.registry import Actor
from relay.registry.applications import get_application
from relay.store import Store, UnitOfWork
from relay.tasks import TaskSet

logger = structlog.get_logger(__name__)

_SHOWN_VERSIONS: Final = 10


class Migrations:
    """
    Moves the work of stranded recoveries.

    All of it but `run` raises `NotFoundError` for an application or a recovery that
    does not exist.
    """

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        executors: Executors,
        peers: Connections,
        clock: Clock,
    ) -> None:
        self._store = store
        self._books = Books(store, audit)
        self._executors = executors
        self._peers = peers
        self._clock = clock
        self._woken = asyncio.Event()
        self._running: set[MigrationId] = set()
        self._ends: dict[MigrationId, asyncio.Event] = {}

    async def plan(
        self, application: str, recovery_id: RecoveryId, app_version: AppVersion
    ) -> MigrationReport:
        """
        What `begin` would do; nothing is written, and no executor does anything.

        Raises:
            ConflictError: the recovery is not STRANDED, or no executor of the version
                is connected.
            InvalidInputError: it is the version that the work has, or can be none.
            DispatchError: no executor tells what there is.
        """
        _, migration, items = await self._plan(application, recovery_id, app_version)
        return report_plan(migration, items)

    async def begin(
        self,
        actor: Actor,
        application: str,
        recovery_id: RecoveryId,
        app_version: AppVersion,
        *,
        wait: timedelta,
    ) -> MigrationReport:
        """
        Begin to move the work; raises as `plan` does.

        Args:
            wait: how long to wait for the end, from the call on. It goes on after that.
        """
        until = self._clock.monotonic() + wait.total_seconds()
        recovery, migration, items = await self._plan(
            application, recovery_id, app_version
        )
        if migration.method is MigrationMethod.FORK:
            items = [_with_new_id(item) for item in items]
        # Waited for before it is begun: it may end in the same moment.
        ended = self._ends[migration.id] = asyncio.Event()
        try:
            await self._books.begin(actor, recovery, migration, items)
            self._woken.set()
            left = timedelta(seconds=until - self._clock.monotonic())
            await self._clock.wait(ended, left)
        finally:
            del self._ends[migration.id]
        return await self.report(application, recovery_id)

    async def report(
        self, application: str, recovery_id: RecoveryId
    ) -> MigrationReport:
        """
        How far the newest migration of a recovery is.

        Raises:
            NotFoundError: there was none yet.
        """
        async with self._store.read() as work:
            record = await get_application(work, application)
            await _get_recovery(work, record, recovery_id)
            migration = await work.migrations.find_latest(recovery_id)
            if migration is None:
                raise NotFoundError("migration of recovery", recovery_id)
            items = await work.migrations.list_items(migration.id)
        return report_run(migration, items)

    async def run(self) -> None:
        """
        Carry on with what was begun until cancelled, whoever began it.

        What a process left unfinished is found at once by the next one.
        """
        async with TaskSet("migration") as tasks:
            while True:
                self._woken.clear()
                try:
                    for migration in await self._books.list_open():
                        if migration.id not in self._running:
                            self._running.add(migration.id)
                            tasks.spawn(self._carry_on(migration), name=migration.id)
                except StoreUnavailableError as error:
                    logger.warning("migrations_paused", reason=error.reason)
                await self._clock.wait(self._woken, RETRY_PAUSE)

    # --- planning --------------------------------------------------------------------

    async def _plan(
        self, name: str, recovery_id: RecoveryId, app_version: AppVersion
    ) -> tuple[RecoveryRecord, MigrationRecord, Sequence[MigrationItem]]:
        async with self._store.read() as work:
            application = await get_application(work, name)
            recovery = await _get_recovery(work, application, recovery_id)
        live = self._list_versions(application.ref.id)
        _check(recovery, app_version, live)
        method = self._choose_method(application.ref.id)
        found = await Reader(self._executors, application).gather(
            recovery.executor.executor_id, recovery.app_version, method
        )
        migration = MigrationRecord(
            id=MigrationId(new_id()),
            recovery_id=recovery.id,
            application=application.ref,
            app_version=app_version,
            method=method,
            has_more=found.has_more,
            begun_at=self._clock.now(),
            ended_at=None,
        )
        situation = Situation(
            application=application,
            method=method,
            executor_id=recovery.executor.executor_id,
            app_version=recovery.app_version,
            live_versions=live,
            dead=await self._find_dead(application, found),
            members=found.members,
            relatives=found.relatives,
        )
        return recovery, migration, make_plan(situation, migration.id)

    def _list_versions(self, application_id: ApplicationId) -> set[str]:
        peers = self._peers.list_peers(application_id)
        return {peer.info.application_version for peer in peers}

    def _choose_method(self, application_id: ApplicationId) -> MigrationMethod:
        sdks = {
            Sdk(peer.info.language, peer.info.dbos_version)
            for peer in self._peers.list_peers(application_id)
        }
        message = RewindWorkflowRequest.message_type
        can_rewind = any(surely_knows_message(sdk, message) for sdk in sdks)
        return MigrationMethod.REWIND if can_rewind else MigrationMethod.FORK

    async def _find_dead(
        self, application: ApplicationRecord, found: Gathered
    ) -> set[ExecutorId]:
        owners = {
            ExecutorId(row.executor_id)
            for row in found.relatives.values()
            if row.executor_id
        }
        async with self._store.read() as work:
            standings = await work.owner_facts.find_standings(
                application.ref.id, owners
            )
        return {
            id_
            for id_, (status, _) in standings.items()
            if status is ExecutorStatus.DEAD
        }

    # --- moving ----------------------------------------------------------------------

    async def _carry_on(self, migration: MigrationRecord) -> None:
        try:
            await self._finish(await self._books.read(migration))
        except Overtaken:
            logger.info("migration_overtaken", recovery_id=migration.recovery_id)
        except StoreUnavailableError as error:
            # Read anew in the next round.
            logger.warning("migrations_paused", reason=error.reason)
        finally:
            self._running.discard(migration.id)

    async def _finish(self, task: Task) -> None:
        mover = Mover(
            task,
            books=self._books,
            executors=self._executors,
            peers=self._peers,
            clock=self._clock,
        )
        done: dict[WorkflowId, MigrationItem] = {}
        for item in task.items:
            done[item.workflow_id] = item
            if item.state not in OPEN_ITEM_STATES:
                continue
            obstacle = _find_obstacle(item, done)
            if obstacle is not None:
                done[item.workflow_id] = await self._books.write_item(
                    task, item, ItemState.FAILED, obstacle
                )
            else:
                done[item.workflow_id] = await mover.finish(item)
        await self._books.end(task, list(done.values()))
        if ended := self._ends.get(task.migration.id):
            ended.set()


def _check(recovery: RecoveryRecord, app_version: AppVersion, live: set[str]) -> None:
    check_identity("body.appVersion", app_version)
    if app_version == recovery.app_version:
        raise InvalidInputError(
            "body.appVersion", "is the version that the work has", app_version
        )
    if recovery.state is not RecoveryState.STRANDED:
        raise ConflictError(
            f"only stranded work is moved; recovery {recovery.id} is"
            f" {recovery.state.value}"
        )
    if app_version not in live:
        shown = ", ".join(sorted(live)[:_SHOWN_VERSIONS])
        raise ConflictError(
            f"no executor of version {app_version!r} is connected; connected are"
            f" {shown or 'none'}"
        )


def _find_obstacle(
    item: MigrationItem, done: dict[WorkflowId, MigrationItem]
) -> str | None:
    """Why a workflow has to stay because of its children; `None` if it has not."""
    if item.state is not ItemState.PLANNED:
        return None
    for child in item.children:
        if child in done and done[child].state in (
            ItemState.FAILED,
            ItemState.REFUSED,
        ):
            return f"its child {child} was not moved"
    return None


def _with_new_id(item: MigrationItem) -> MigrationItem:
    if item.state is not ItemState.PLANNED:
        return item
    return replace(item, new_workflow_id=WorkflowId(new_id()))


async def _get_recovery(
    work: UnitOfWork, application: ApplicationRecord, recovery_id: RecoveryId
) -> RecoveryRecord:
    record = await work.recoveries.find(recovery_id)
    if record is None or record.executor.application.id != application.ref.id:
        raise NotFoundError("recovery", recovery_id)
    return record
