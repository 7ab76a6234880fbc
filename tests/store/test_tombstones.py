"""Executors that recovery has deleted, remembered for a while."""

from datetime import timedelta

from relay.ids import AppVersion, ExecutorId, ExecutorRef, RecoveryId
from relay.records import TombstoneRecord
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import APP, OTHER_APP, register

HOUR = timedelta(hours=1)


def tombstone(
    executor_id: str = "e1", version: str = "v1", recovery: str = "r1"
) -> TombstoneRecord:
    return TombstoneRecord(
        executor=ExecutorRef(APP, ExecutorId(executor_id)),
        app_version=AppVersion(version),
        recovery_id=RecoveryId(recovery),
        deleted_at=START,
    )


async def bury(store: Store, *records: TombstoneRecord) -> None:
    async with store.write() as work:
        await work.tombstones.insert_many(records)


async def reopen(store: Store, *executor_ids: str) -> None:
    async with store.write() as work:
        await work.tombstones.mark_reopened(
            APP.id, [ExecutorId(i) for i in executor_ids]
        )


async def list_reopened(store: Store, limit: int = 9) -> list[tuple[str, str]]:
    async with store.read() as work:
        found = await work.tombstones.list_reopened(APP.id, limit=limit)
    return [(record.executor.executor_id, record.app_version) for record in found]


async def test_reopening_is_noted_for_every_version_of_an_executor(
    store: Store, clock: FakeClock
) -> None:
    """One executor is one process or one name; either way, one at a time."""
    await register(store, APP)
    await bury(store, tombstone("e1"), tombstone("e1", "v2"), tombstone("e2"))
    await clock.advance(HOUR)

    await reopen(store, "e1")

    assert await list_reopened(store) == [("e1", "v1"), ("e1", "v2")]
    async with store.read() as work:
        found = await work.tombstones.find(tombstone("e1").executor.key)
    assert found is not None
    assert found.reopened_at == START + HOUR


async def test_whoever_has_a_tombstone_of_any_version_is_known(store: Store) -> None:
    """In the application that it died in."""
    await register(store, APP, OTHER_APP)
    await bury(store, tombstone("e1"), tombstone("e1", "v2"), tombstone("e2"))
    e1, e3 = ExecutorId("e1"), ExecutorId("e3")

    async with store.read() as work:
        found = await work.tombstones.find_known(
            {(APP.id, e1), (APP.id, e3), (OTHER_APP.id, e1)}
        )

    assert found == {(APP.id, e1)}


async def test_the_last_reopened_come_first(store: Store, clock: FakeClock) -> None:
    """As many as are asked for."""
    await register(store, APP)
    await bury(store, tombstone("e1"), tombstone("e2"), tombstone("e3"))
    for executor_id in ("e2", "e1"):
        await clock.advance(HOUR)
        await reopen(store, executor_id)

    assert await list_reopened(store) == [("e1", "v1"), ("e2", "v1")]
    assert await list_reopened(store, limit=1) == [("e1", "v1")]


async def test_a_new_deletion_does_not_forget_the_reopening(store: Store) -> None:
    """Otherwise each verified recovery would allow the next one at once."""
    await register(store, APP)
    await bury(store, tombstone("e1"))
    await reopen(store, "e1")

    await bury(store, tombstone("e1", recovery="r2"))

    async with store.read() as work:
        found = await work.tombstones.find(tombstone("e1").executor.key)
    assert found is not None
    assert (found.recovery_id, found.reopened_at) == ("r2", START)


async def test_old_ones_are_purged_the_oldest_first(store: Store) -> None:
    """In batches; what is young enough stays."""
    await register(store, APP, OTHER_APP)
    await bury(
        store,
        *(
            TombstoneRecord(
                executor=ExecutorRef(APP, ExecutorId(f"e{age}")),
                app_version=AppVersion("v1"),
                recovery_id=RecoveryId("r"),
                deleted_at=START - age * HOUR,
            )
            for age in range(4)
        ),
    )

    async def purge(limit: int) -> int:
        async with store.write() as work:
            return await work.tombstones.purge(START - HOUR, limit)

    assert await purge(1) == 1
    async with store.read() as work:
        assert await work.tombstones.find((APP.id, ExecutorId("e3"))) is None
        assert await work.tombstones.find((APP.id, ExecutorId("e2"))) is not None
    assert await purge(9) == 1
    async with store.read() as work:
        assert await work.tombstones.find((APP.id, ExecutorId("e1"))) is not None
    assert await purge(9) == 0
