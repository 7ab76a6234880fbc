"""Migrations, their workflows, and how they are forgotten."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relay.ids import AppVersion, MigrationId, RecoveryId, WorkflowId
from relay.records import (
    ItemState,
    MigrationItem,
    MigrationMethod,
    MigrationRecord,
    RecoveryState,
)
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import (
    APP,
    LOCAL,
    OTHER_APP,
    add_executors,
    add_recoveries,
    make_executor,
    make_recovery,
    register,
)

SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
async def recovery(store: Store) -> None:
    """`r1` of the application, and `r2` of another one."""
    await register(store, APP, OTHER_APP)
    await add_executors(store, make_executor("e1"), make_executor("e2", OTHER_APP))
    await add_recoveries(
        store, make_recovery("r1", "e1"), make_recovery("r2", "e2", OTHER_APP)
    )


def make_migration(
    migration_id: str = "m1", recovery_id: str = "r1", **changes: Any
) -> MigrationRecord:
    return replace(
        MigrationRecord(
            id=MigrationId(migration_id),
            recovery_id=RecoveryId(recovery_id),
            application=APP if recovery_id == "r1" else OTHER_APP,
            app_version=AppVersion("v2"),
            method=MigrationMethod.FORK,
            has_more=True,
            begun_at=START,
            ended_at=None,
        ),
        **changes,
    )


def make_item(position: int = 0, **changes: Any) -> MigrationItem:
    return replace(
        MigrationItem(
            migration_id=MigrationId("m1"),
            position=position,
            workflow_id=WorkflowId(f"w{position}"),
            name="checkout",
            state=ItemState.PLANNED,
            start_step=2**30 - 1,
            new_workflow_id=WorkflowId("copy"),
            queue_name="jobs",
            queue_partition_key="eu",
            children=(WorkflowId("child"), WorkflowId("日本")),
            reason="because",
        ),
        **changes,
    )


async def begin(
    store: Store, record: MigrationRecord, *items: MigrationItem
) -> MigrationRecord:
    async with store.write() as work:
        await work.migrations.insert(record, items)
    return record


async def test_a_migration_is_read_as_it_was_written(store: Store) -> None:
    """With its workflows, in their order."""
    bare = make_item(
        1,
        name=None,
        new_workflow_id=None,
        queue_name=None,
        queue_partition_key=None,
        children=(),
        reason=None,
    )
    record = await begin(store, make_migration(), make_item(0), bare)

    async with store.read() as work:
        assert await work.migrations.find_latest(RecoveryId("r1")) == record
        assert await work.migrations.list_items(record.id) == [make_item(0), bare]


async def test_thousands_of_workflows_are_written(store: Store) -> None:
    items = [make_item(position) for position in range(2000)]

    await begin(store, make_migration(), *items)

    async with store.read() as work:
        assert await work.migrations.list_items(MigrationId("m1")) == items


async def test_the_latest_migration_of_a_recovery_is_found(store: Store) -> None:
    """Of its own, and none where there was none."""
    await begin(store, make_migration("m1"))
    latest = await begin(store, make_migration("m2", begun_at=START + SECOND))
    await begin(store, make_migration("m3", "r2", begun_at=START + 2 * SECOND))

    async with store.read() as work:
        assert await work.migrations.find_latest(RecoveryId("r1")) == latest
        assert await work.migrations.find_latest(RecoveryId("none")) is None


async def test_an_open_migration_is_the_latest_whatever_the_clock_says(
    store: Store,
) -> None:
    """It may have been set back since the one before."""
    old = make_migration("m1", begun_at=START + SECOND, ended_at=START + 2 * SECOND)
    await begin(store, old)
    latest = await begin(store, make_migration("m2"))

    async with store.read() as work:
        assert await work.migrations.find_latest(RecoveryId("r1")) == latest


async def test_open_migrations_are_listed_until_they_end(
    store: Store, clock: FakeClock
) -> None:
    """Oldest first, of all applications; the second end of one counts for nothing."""
    second = await begin(store, make_migration("m1", begun_at=START + SECOND))
    first = await begin(store, make_migration("m2", "r2"))
    async with store.read() as work:
        assert await work.migrations.list_open() == [first, second]

    async with store.write() as work:
        assert await work.migrations.end(first.id)
        assert not await work.migrations.end(first.id)

    async with store.read() as work:
        assert await work.migrations.list_open() == [second]
        ended = replace(first, ended_at=clock.now())
        assert await work.migrations.find_latest(RecoveryId("r2")) == ended


async def test_an_item_is_written_only_as_it_was_read(store: Store) -> None:
    """State, step and reason; of this one alone."""
    await begin(store, make_migration(), make_item(0), make_item(1))
    after = make_item(0, state=ItemState.FORKING, start_step=4, reason=None)

    async with store.write() as work:
        assert await work.migrations.save_item(after, expected_state=ItemState.PLANNED)
        assert not await work.migrations.save_item(
            replace(after, state=ItemState.MOVED), expected_state=ItemState.PLANNED
        )

    async with store.read() as work:
        assert await work.migrations.list_items(MigrationId("m1")) == [
            after,
            make_item(1),
        ]


async def test_a_migration_is_forgotten_with_its_recovery(store: Store) -> None:
    """As the closed ones are in time, and its workflows with it."""
    await begin(store, make_migration(), make_item())
    async with store.write() as work:
        [record] = (await work.recoveries.find_many([RecoveryId("r1")])).values()
        closed = replace(record, state=RecoveryState.DONE, closed_at=START)
        assert await work.recoveries.save(closed, expected_revision=record.revision)

    async with store.write() as work:
        assert await work.old_recoveries.purge(LOCAL, START + SECOND, limit=9) == 1

    async with store.read() as work:
        assert await work.migrations.find_latest(RecoveryId("r1")) is None
        assert list(await work.migrations.list_items(MigrationId("m1"))) == []


async def test_a_migration_is_forgotten_with_its_application(store: Store) -> None:
    await begin(store, make_migration(), make_item())
    await begin(store, make_migration("m2", "r2"))

    async with store.write() as work:
        assert await work.applications.delete(APP.id)

    async with store.read() as work:
        assert [m.id for m in await work.migrations.list_open()] == ["m2"]
        assert list(await work.migrations.list_items(MigrationId("m1"))) == []
