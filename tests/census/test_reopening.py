"""Opening the ledger is guarded by what the rows say at that moment."""

from dataclasses import replace

from relay.census.policy import Holding, Reopen
from relay.census.reopening import reopen
from relay.ids import ApplicationId, AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import Owner, RecoveryRecord
from tests.census.town import Town
from tests.recovery.records import (
    SHOP,
    V1,
    V2,
    dead_ref,
    make_executor,
    make_recovery,
)

REASON = Reopen("a test wants it")


def held(name: str, version: AppVersion = V1) -> tuple[Holding, Reopen]:
    return Holding(Owner(ExecutorId(name), version), 1), REASON


async def open_for(
    town: Town, *verdicts: tuple[Holding, Reopen]
) -> list[RecoveryRecord]:
    """What is in the ledger after these verdicts."""
    async with town.store.write() as work:
        await reopen(work, town.audit, SHOP, verdicts, peers=town.peers)
    return sorted(await town.list_recoveries(), key=lambda r: r.executor.executor_id)


async def add_row(town: Town, name: str, status: ExecutorStatus) -> None:
    async with town.store.write() as work:
        await work.executors.insert(make_executor(dead_ref(name), status=status))


async def test_an_executor_without_a_row_gets_one_that_guards_its_orders(
    town: Town,
) -> None:
    """DEAD from the start, at the epoch that the ledger names."""
    [record] = await open_for(town, held("e"))

    row = await town.find_executor("e")
    assert row is not None
    assert row.status is ExecutorStatus.DEAD
    assert (record.epoch, record.app_version) == (row.epoch, row.app_version)


async def test_a_dead_row_keeps_its_epoch_and_version(town: Town) -> None:
    """The recovery is about the version of the work."""
    await add_row(town, "e", ExecutorStatus.DEAD)

    [record] = await open_for(town, held("e", V2))

    row = await town.find_executor("e")
    assert row is not None
    assert (row.epoch, row.app_version) == (3, V1)
    assert (record.epoch, record.app_version) == (3, V2)


async def test_whoever_is_alive_at_that_moment_is_passed_over(town: Town) -> None:
    """By the row or by the socket; the others are opened all the same."""
    await add_row(town, "healthy", ExecutorStatus.HEALTHY)
    await add_row(town, "disconnected", ExecutorStatus.DISCONNECTED)
    town.peers.online.add(dead_ref("online"))

    opened = await open_for(
        town, *(held(n) for n in ("healthy", "disconnected", "online", "gone"))
    )

    assert [record.executor.executor_id for record in opened] == ["gone"]
    assert await town.find_executor("online") is None


async def test_an_open_recovery_is_the_only_one(town: Town) -> None:
    """An operator was faster."""
    await add_row(town, "e", ExecutorStatus.DEAD)
    async with town.store.write() as work:
        await work.recoveries.insert(make_recovery(dead_ref("e")))

    opened = await open_for(town, held("e"))

    assert [record.id for record in opened] == ["r-1"]
    assert await town.list_entries("census.reopen") == []


async def test_of_several_versions_one_is_opened(town: Town) -> None:
    """There is one open recovery an executor; a later census comes to the other."""
    opened = await open_for(town, held("e", V2), held("e", V1))

    assert [record.app_version for record in opened] == [V2]


async def test_an_executor_that_gets_a_row_in_that_moment_keeps_it(town: Town) -> None:
    """It has connected between our look at the rows and our insertion."""

    async def connect_meanwhile(town: Town) -> list[RecoveryRecord]:
        async with town.store.write() as work:
            insert = work.executors.insert_many

            async def late(records: object) -> set[object]:
                await insert(
                    [make_executor(dead_ref("e"), status=ExecutorStatus.HEALTHY)]
                )
                return await insert(records)  # type: ignore[arg-type, return-value]  # passed on as it came

            work.executors.insert_many = late  # type: ignore[method-assign, assignment]  # stands in for another transaction
            await reopen(work, town.audit, SHOP, [held("e")], peers=town.peers)
        return list(await town.list_recoveries())

    assert await connect_meanwhile(town) == []
    row = await town.find_executor("e")
    assert row is not None
    assert row.status is ExecutorStatus.HEALTHY


async def test_a_recovery_that_another_was_faster_to_open_is_not_told_of(
    town: Town,
) -> None:
    """Between our look at the ledger and our insertion; nothing of ours is written."""
    async with town.store.write() as work:
        insert = work.recoveries.insert_many

        async def late(records: object) -> set[object]:
            await insert([make_recovery(dead_ref("e"))])
            return await insert(records)  # type: ignore[arg-type, return-value]  # passed on as it came

        work.recoveries.insert_many = late  # type: ignore[method-assign, assignment]  # stands in for another transaction
        await reopen(work, town.audit, SHOP, [held("e"), held("f")], peers=town.peers)

    found = {r.executor.executor_id: r for r in await town.list_recoveries()}
    assert found[ExecutorId("e")].id == "r-1"
    told = await town.list_entries("census.reopen")
    assert [entry.details["executor_id"] for entry in told] == ["f"]


async def test_a_deleted_application_has_no_ledger(town: Town) -> None:
    """It was deleted while its executors were asked."""
    gone = replace(SHOP, id=ApplicationId("app-gone"))

    async with town.store.write() as work:
        await reopen(work, town.audit, gone, [held("e")], peers=town.peers)

    assert await town.list_recoveries() == []
