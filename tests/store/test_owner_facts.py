"""What the rows say about the owners of pending work."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from relay.db import Database
from relay.ids import (
    ApplicationRef,
    AppVersion,
    ConnectionId,
    ExecutorId,
    ExecutorRef,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    Owner,
    OwnerFacts,
    RecoveryRecord,
    RecoveryState,
    TombstoneRecord,
)
from relay.store import Store
from relay.store.owner_facts import OwnerFactRepository
from relay.testing.clock import START
from tests.store.rows import (
    APP,
    OTHER_APP,
    add_executors,
    add_recoveries,
    make_disconnected,
    make_executor,
    make_recovery,
    register,
)

HOUR = timedelta(hours=1)
V1 = AppVersion("v1")
E1 = Owner(ExecutorId("e1"), V1)


async def facts_of(store: Store, owner: Owner = E1) -> OwnerFacts:
    async with store.read() as work:
        return (await work.owner_facts.find_many(APP.id, [owner]))[owner]


async def bury(
    store: Store, version: str = "v1", application: ApplicationRef = APP, **fields: Any
) -> None:
    async with store.write() as work:
        await work.tombstones.insert(
            replace(
                TombstoneRecord(
                    executor=ExecutorRef(application, E1.executor_id),
                    app_version=AppVersion(version),
                    recovery_id=RecoveryId("r"),
                    deleted_at=START,
                ),
                **fields,
            )
        )


def ended(
    recovery_id: str,
    state: RecoveryState,
    version: str = "v1",
    opened: timedelta = timedelta(),
) -> RecoveryRecord:
    at = START + opened
    record = make_recovery(recovery_id, state=state, app_version=AppVersion(version))
    return replace(record, opened_at=at, closed_at=at + HOUR)


async def test_of_a_stranger_nothing_is_known(store: Store) -> None:
    """Which is a fact too: everybody who was asked about is in the answer."""
    await register(store, APP)

    assert await facts_of(store) == OwnerFacts()
    async with store.read() as work:
        assert await work.owner_facts.find_many(APP.id, []) == {}


async def test_an_executor_has_a_status_and_a_version(store: Store) -> None:
    """The version of its row may be another than that of the work."""
    await register(store, APP)
    await add_executors(store, make_executor("e1", app_version=AppVersion("v2")))

    assert await facts_of(store) == OwnerFacts(
        status=ExecutorStatus.HEALTHY, app_version=AppVersion("v2")
    )


async def test_a_row_without_a_socket_makes_nobody_known(store: Store) -> None:
    """It was made for a recovery; only a tombstone tells of an executor before it."""
    await register(store, APP, OTHER_APP)
    await add_executors(
        store,
        make_executor("e1", status=ExecutorStatus.DEAD, connection_id=ConnectionId("")),
        make_executor("e1", OTHER_APP, app_version=V1),
    )

    strange = await facts_of(store)
    await bury(store, "v2")
    known = await facts_of(store)

    assert (strange.is_stranger, strange.is_elsewhere) == (True, True)
    assert strange.status is ExecutorStatus.DEAD
    assert (known.is_stranger, known.deleted_at) == (False, START)


async def test_an_open_recovery_is_known(store: Store) -> None:
    """Of whatever version: there is one an executor."""
    await register(store, APP)
    await add_executors(store, make_executor("e1", status=ExecutorStatus.DEAD))
    await add_recoveries(store, make_recovery("r1", app_version=AppVersion("v0")))

    facts = await facts_of(store)

    assert facts.has_open_recovery
    assert not facts.is_abandoned


async def test_the_newest_recovery_of_a_dead_executor_is_dated(store: Store) -> None:
    """Of whatever version: the pause between two is one for all."""
    await register(store, APP)
    await add_executors(store, make_executor("e1", status=ExecutorStatus.DEAD))
    await add_recoveries(
        store,
        ended("r1", RecoveryState.DONE),
        ended("r2", RecoveryState.RETURNED, "v2", opened=2 * HOUR),
    )

    facts = await facts_of(store)

    assert facts.last_opened_at == START + 2 * HOUR
    assert facts.last_closed_at == START + 3 * HOUR


async def test_an_opening_without_a_death_counts_as_one_by_the_census(
    store: Store,
) -> None:
    """Of a deleted executor, too, and in whatever version; a death does not."""
    await register(store, APP)
    await bury(store, reopened_at=START)
    death = ended("death", RecoveryState.DONE, "v3", 9 * HOUR)
    await add_recoveries(
        store,
        ended("by hand", RecoveryState.DONE, "v2", 2 * HOUR),
        ended("earlier", RecoveryState.DONE, opened=HOUR),
        replace(death, lost_at=START + 8 * HOUR),
    )

    facts = await facts_of(store)

    assert facts.reopened_at == START + 2 * HOUR


async def test_what_was_given_up_is_the_newest_of_that_version(store: Store) -> None:
    """Giving up one version says nothing about another, nor about what came later."""
    await register(store, APP)
    await add_executors(store, make_executor("e1", status=ExecutorStatus.DEAD))
    await add_recoveries(
        store,
        ended("r1", RecoveryState.ABANDONED, "v1"),
        ended("r2", RecoveryState.ABANDONED, "v2"),
        ended("r3", RecoveryState.DONE, "v2", opened=HOUR),
    )

    assert (await facts_of(store)).is_abandoned
    assert not (
        await facts_of(store, replace(E1, app_version=AppVersion("v2")))
    ).is_abandoned
    assert not (
        await facts_of(store, replace(E1, app_version=AppVersion("v3")))
    ).is_abandoned


async def test_a_deletion_is_known_for_every_version(store: Store) -> None:
    """An id that Relay once knew is no stranger, whatever it runs now."""
    await register(store, APP)
    await bury(store, "v1", deleted_at=START)
    await bury(store, "v2", deleted_at=START + HOUR, reopened_at=START + 2 * HOUR)

    facts = await facts_of(store, replace(E1, app_version=AppVersion("v3")))

    assert facts == OwnerFacts(deleted_at=START + HOUR, reopened_at=START + 2 * HOUR)


async def test_executors_and_tombstones_of_another_application_are_elsewhere(
    store: Store,
) -> None:
    """With the same version: ids such as `local` are everywhere."""
    await register(store, APP, OTHER_APP)
    await add_executors(store, make_executor("e1", OTHER_APP))
    await bury(store, "v2", OTHER_APP)

    for version, expected in {"v1": True, "v2": True, "v3": False}.items():
        facts = await facts_of(store, replace(E1, app_version=AppVersion(version)))
        assert facts.is_elsewhere is expected
        assert facts.deleted_at is None


async def test_whoever_is_known_here_is_not_looked_for_elsewhere(store: Store) -> None:
    """Two applications with an executor `local` are two executors."""
    await register(store, APP, OTHER_APP)
    await add_executors(store, make_executor("e1"), make_executor("e1", OTHER_APP))

    assert not (await facts_of(store)).is_elsewhere


async def test_standings_are_those_of_known_executors(store: Store) -> None:
    """Status, and whether a recovery is open."""
    await register(store, APP)
    await add_executors(
        store,
        make_executor("e1"),
        make_disconnected("e2"),
        make_executor("e3", status=ExecutorStatus.DEAD),
        make_executor("e4", status=ExecutorStatus.DEAD),
    )
    await add_recoveries(
        store,
        make_recovery("r3", "e3"),
        replace(make_recovery("r4", "e4", state=RecoveryState.DONE)),
    )

    async with store.read() as work:
        standings = await work.owner_facts.find_standings(
            APP.id, [ExecutorId(f"e{number}") for number in range(1, 6)]
        )
        nobody = await work.owner_facts.find_standings(APP.id, [])

    assert standings == {
        "e1": (ExecutorStatus.HEALTHY, False),
        "e2": (ExecutorStatus.DISCONNECTED, False),
        "e3": (ExecutorStatus.DEAD, True),
        "e4": (ExecutorStatus.DEAD, False),
    }
    assert nobody == {}


async def test_thousands_are_looked_up_at_once(store: Store) -> None:
    """Each finds its own facts."""
    await register(store, APP)
    await add_executors(store, make_executor("e7"))
    owners = [Owner(ExecutorId(f"e{number}"), V1) for number in range(2_500)]

    async with store.read() as work:
        found = await work.owner_facts.find_many(APP.id, owners)

    assert len(found) == 2_500
    assert [o.executor_id for o, facts in found.items() if facts.status] == ["e7"]


async def test_a_long_history_is_not_read(store: Store, database: Database) -> None:
    """One row a version, however often that executor has died."""
    await register(store, APP)
    await add_executors(store, make_executor("e1", status=ExecutorStatus.DEAD))
    await add_recoveries(
        store,
        *(
            ended(f"{number:03}", RecoveryState.DONE, version, opened=number * HOUR)
            for number in range(50)
            for version in (f"v{number % 2}",)
        ),
    )

    async with database.transaction(write=False) as transaction:
        rows: list[int] = []
        execute = transaction.execute

        async def counted(*given: Any) -> Any:
            result = (await execute(*given)).freeze()
            rows.append(len(result().all()))
            return result()

        transaction.execute = counted  # type: ignore[method-assign, assignment]  # counts what comes over the wire
        facts = await OwnerFactRepository(transaction).find_many(APP.id, [E1])

    assert facts[E1].last_opened_at == START + 49 * HOUR
    assert max(rows) == 2
