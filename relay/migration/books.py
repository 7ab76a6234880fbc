"""Migrations in the store: each step a short transaction, with its audit entries."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.errors import ConflictError
from relay.liveness.states import ExecutorStatus
from relay.operations import TARGET_LIMIT_CHARS
from relay.operations.workflows import KIND
from relay.records import (
    OPEN_ITEM_STATES,
    ApplicationRecord,
    AuditEntry,
    AuditStatus,
    AuditTarget,
    ItemState,
    MigrationItem,
    MigrationRecord,
    RecoveryRecord,
    RecoveryState,
    application_target,
)
from relay.recovery import transitions
from relay.registry import Actor
from relay.store import Store, UnitOfWork

logger = structlog.get_logger(__name__)

REASON_LIMIT_CHARS = 500


class Overtaken(Exception):  # noqa: N818 - no error: somebody else was faster
    """A row was changed or deleted meanwhile; what it was is to be read again."""


@dataclass(frozen=True, slots=True)
class Task:
    """An open migration, and everything that it is about."""

    migration: MigrationRecord
    recovery: RecoveryRecord
    application: ApplicationRecord
    items: Sequence[MigrationItem]


class Books:
    """
    Records what is done to stranded work, before it is done.

    Every method may raise `StoreUnavailableError` and may then be called again. An item
    is written only if it still is as it was read.
    """

    def __init__(self, store: Store, audit: AuditWriter) -> None:
        self._store = store
        self._audit = audit

    async def begin(
        self,
        actor: Actor,
        recovery: RecoveryRecord,
        migration: MigrationRecord,
        items: Sequence[MigrationItem],
    ) -> None:
        """
        Take a stranded recovery out of everybody else's hands, and note the plan.

        Raises:
            ConflictError: the recovery has changed since it was read.
        """
        async with self._store.write() as work:
            after = transitions.migrating(recovery, migration.app_version)
            if not await work.recoveries.save(
                after, expected_revision=recovery.revision
            ):
                raise ConflictError(
                    f"recovery {recovery.id} has changed in this moment; ask again"
                )
            await work.migrations.insert(replace(migration, begun_at=work.now), items)
            counts = Counter(item.state for item in items)
            name = migration.application.name
            entry = actor.entry(
                "recovery.migrate",
                application_target(name),
                {
                    "application_name": name,
                    "executor_id": recovery.executor.executor_id,
                    "app_version": recovery.app_version,
                    "target_version": migration.app_version,
                    "method": migration.method.value,
                    "workflows": counts[ItemState.PLANNED],
                    "refused": counts[ItemState.REFUSED],
                },
            )
            await self._audit.record(work, replace(entry, recovery_id=recovery.id))

    async def list_open(self) -> Sequence[MigrationRecord]:
        """The migrations that have not ended, oldest first."""
        async with self._store.read() as work:
            return await work.migrations.list_open()

    async def read(self, migration: MigrationRecord) -> Task:
        """
        An open migration with its items.

        Raises:
            Overtaken: its application was deleted, and it with it.
        """
        async with self._store.read() as work:
            recovery = await work.recoveries.find(migration.recovery_id)
            application = await work.applications.find_by_id(migration.application.id)
            items = await work.migrations.list_items(migration.id)
        if recovery is None or application is None:
            raise Overtaken
        return Task(migration, recovery, application, items)

    async def find_application(self, task: Task) -> ApplicationRecord:
        """
        The application as it is now: it may have become private since.

        Raises:
            Overtaken: it was deleted.
        """
        async with self._store.read() as work:
            application = await work.applications.find_by_id(task.application.ref.id)
        if application is None:
            raise Overtaken
        return application

    async def is_claimed(self, task: Task) -> bool:
        """Whether the recovery is still ours."""
        async with self._store.write() as work:
            return await _is_claimed(work, task.recovery)

    async def begin_item(
        self,
        task: Task,
        item: MigrationItem,
        state: ItemState,
        start_step: int,
        remark: str | None,
    ) -> MigrationItem:
        """
        Note that a workflow is about to be moved; skip it if it is not ours any more.

        That is so when the executor is back, or an operator has closed the recovery.
        The lock on the executor's row keeps it from coming back meanwhile.
        """
        async with self._store.write() as work:
            if await _is_claimed(work, task.recovery):
                after = replace(item, state=state, start_step=start_step, reason=remark)
            else:
                after = replace(
                    item,
                    state=ItemState.SKIPPED,
                    reason="its recovery is no longer MIGRATING",
                )
            await _save(work, item, after)
        return after

    async def write_item(
        self,
        task: Task,
        item: MigrationItem,
        state: ItemState,
        reason: str | None,
        *,
        start_step: int | None = None,
    ) -> MigrationItem:
        """Note how far a workflow is, or what became of it."""
        after = replace(
            item,
            state=state,
            reason=reason and reason[:REASON_LIMIT_CHARS],
            start_step=item.start_step if start_step is None else start_step,
        )
        async with self._store.write() as work:
            await _save(work, item, after)
            if state in (ItemState.MOVED, ItemState.FAILED):
                await self._audit.record(work, _entry_of(task, after))
            if state is ItemState.FAILED:
                work.after_commit(partial(_raise_alarm, task, after))
        return after

    async def end(self, task: Task, items: Sequence[MigrationItem]) -> None:
        """
        Note that nothing is left to be done, and let the recovery go on.

        It begins with the question like every other attempt: nothing pending ends it,
        what was refused leaves it stranded again.
        """
        async with self._store.write() as work:
            recovery = await work.recoveries.find(task.recovery.id)
            if recovery is not None and recovery.state is RecoveryState.MIGRATING:
                after = transitions.migrated(recovery, now=work.now)
                if not await work.recoveries.save(
                    after, expected_revision=recovery.revision
                ):
                    raise Overtaken
            if not await work.migrations.end(task.migration.id):
                raise Overtaken
            await self._audit.record(
                work,
                engine_entry(
                    "recovery.migrated",
                    task.recovery.executor,
                    recovery_id=task.recovery.id,
                    app_version=task.recovery.app_version,
                    target_version=task.migration.app_version,
                    **_count(items),
                ),
            )


async def _is_claimed(work: UnitOfWork, recovery: RecoveryRecord) -> bool:
    key = recovery.executor.key
    executor = (await work.executors.lock([key])).get(key)
    current = await work.recoveries.find(recovery.id)
    return (
        executor is not None
        and executor.status is ExecutorStatus.DEAD
        and executor.epoch == recovery.epoch
        and current is not None
        and current.state is RecoveryState.MIGRATING
    )


async def _save(work: UnitOfWork, before: MigrationItem, after: MigrationItem) -> None:
    if not await work.migrations.save_item(after, expected_state=before.state):
        raise Overtaken


def _count(items: Sequence[MigrationItem]) -> Mapping[str, Any]:
    counts = Counter(item.state for item in items)
    ends = [state for state in ItemState if state not in OPEN_ITEM_STATES]
    return {state.value.lower(): counts[state] for state in ends}


def _entry_of(task: Task, item: MigrationItem) -> AuditEntry:
    """What is told of a workflow that was moved, or was not."""
    is_moved = item.state is ItemState.MOVED
    facts: dict[str, Any] = {
        "new_workflow_id": item.new_workflow_id,
        "method": task.migration.method.value,
        "start_step": item.start_step,
        "from_version": task.recovery.app_version,
        "app_version": task.migration.app_version,
        "reason": item.reason,
    }
    entry = engine_entry(
        "workflow.migrate",
        task.recovery.executor,
        status=AuditStatus.SUCCESS if is_moved else AuditStatus.FAILURE,
        recovery_id=task.recovery.id,
        **{name: value for name, value in facts.items() if value is not None},
    )
    target = AuditTarget(kind=KIND, id=item.workflow_id[:TARGET_LIMIT_CHARS])
    return replace(entry, target=target)


def _raise_alarm(task: Task, item: MigrationItem) -> None:
    logger.error(
        "migration_item_failed",
        organization=task.application.ref.organization,
        application=task.application.ref.name,
        recovery_id=task.recovery.id,
        workflow_id=item.workflow_id,
        new_workflow_id=item.new_workflow_id,
        reason=item.reason,
    )
