"""The ledger: guards, claims, wake-ups; and the tombstones."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from relay.errors import ConflictError
from relay.ids import AppVersion, ExecutorId, InstanceId, RecoveryId, WorkflowId
from relay.records import RecoveryState, TombstoneRecord
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import (
    APP,
    INSTANCE,
    OTHER_APP,
    add_recoveries,
    find_recovery,
    make_executor,
    make_recovery,
    register,
)

OTHER_INSTANCE = InstanceId("relay-2")
V1, V2 = AppVersion("v1"), AppVersion("v2")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
async def applications(store: Store) -> None:
    """Two registered applications."""
    await register(store, APP, OTHER_APP)


async def test_ids_are_found_by_their_beginning(store: Store) -> None:
    """In order, as many as asked for, and nothing in it stands for anything else."""
    names = ("ab-1", "ab-2", "AB-3", "a%-4", "b-ab")
    for number, name in enumerate(names):
        await add_recoveries(store, make_recovery(name, executor_id=f"e{number}"))

    async with store.read() as work:
        assert await work.recoveries.list_ids("ab", limit=5) == ["ab-1", "ab-2"]
        assert await work.recoveries.list_ids("ab", limit=1) == ["ab-1"]
        assert await work.recoveries.list_ids("a%", limit=5) == ["a%-4"]
        assert await work.recoveries.list_ids("c", limit=5) == []


async def test_a_record_survives_a_round_trip(store: Store) -> None:
    """Every field comes back as it was."""
    record = make_recovery(
        state=RecoveryState.ORDERED,
        revision=7,
        next_attempt_at=None,
        attempts=3,
        failures=2,
        claimed_by=INSTANCE,
        target=ExecutorId("peer"),
        ordered_at=after(1),
        order_deadline=after(301),
        lost_at=after(-60),
        acknowledged_at=after(2),
        pending_count=101,
        pending_ids=(WorkflowId("w2"), WorkflowId("w1")),
        suspect_ids=(WorkflowId("w1"),),
        brake_level=2,
        tried_versions=(V2,),
        reason="slow",
        is_verified=False,
    )

    await add_recoveries(store, record)

    assert await find_recovery(store, record) == record


async def test_one_recovery_of_an_executor_is_open_at_a_time(store: Store) -> None:
    """A second open row is refused; after the end of the first it is not."""
    first = make_recovery("r1")
    await add_recoveries(store, first)

    with pytest.raises(ConflictError):
        await add_recoveries(store, make_recovery("r2"))

    async with store.write() as work:
        assert await work.recoveries.save(
            replace(first, state=RecoveryState.DONE, closed_at=after(1)),
            expected_revision=0,
        )
        await work.recoveries.insert(make_recovery("r2"))


async def test_a_final_state_and_its_time_come_together(store: Store) -> None:
    """A closed row without a time is refused, and an open one with a time."""
    record = make_recovery()
    await add_recoveries(store, record)

    for broken in (
        replace(record, state=RecoveryState.DONE),
        replace(record, closed_at=START),
    ):
        with pytest.raises(IntegrityError):
            async with store.write() as work:
                await work.recoveries.save(broken, expected_revision=0)

    assert await find_recovery(store, record) == record


async def test_find_open_passes_over_what_has_ended(store: Store) -> None:
    """Only the row without an end is the open one."""
    ended = make_recovery("r1", state=RecoveryState.RETURNED)
    current = make_recovery("r2")
    finished = make_recovery("r3", "e2", state=RecoveryState.DONE)
    foreign = make_recovery("r4", "e1", OTHER_APP)
    await add_recoveries(store, ended, current, finished, foreign)
    keys = [record.executor.key for record in (current, finished, foreign)]

    async with store.read() as work:
        assert await work.recoveries.find_open(current.executor.key) == current
        assert await work.recoveries.find_open(finished.executor.key) is None
        assert await work.recoveries.find_open_many([*keys, *keys]) == {
            current.executor.key: current,
            foreign.executor.key: foreign,
        }
        assert await work.recoveries.find_open_many([]) == {}


async def test_save_advances_the_revision_and_the_time(
    store: Store, clock: FakeClock
) -> None:
    """The row counts its writes itself, and a second save of the same age fails."""
    record = make_recovery()
    await add_recoveries(store, record)
    clock.jump(timedelta(seconds=5))
    changed = replace(record, state=RecoveryState.BACKOFF, attempts=1, revision=99)

    async with store.write() as work:
        assert await work.recoveries.save(changed, expected_revision=0)
        assert not await work.recoveries.save(record, expected_revision=0)

    assert await find_recovery(store, record) == replace(
        changed, revision=1, updated_at=after(5)
    )


async def test_many_are_saved_each_by_its_own_revision(
    store: Store, clock: FakeClock
) -> None:
    """One that somebody else has changed drops out, and the others do not."""
    records = [make_recovery(f"r{number}", f"e{number}") for number in range(3)]
    await add_recoveries(store, *records)
    clock.jump(timedelta(seconds=5))
    changed = [
        replace(
            record,
            state=RecoveryState.ORDERED,
            pending_ids=tuple(WorkflowId(f"w{n}") for n in range(number)),
            suspect_ids=tuple(WorkflowId(f"w{n}") for n in range(number)),
            tried_versions=(V1, V2)[:number],
            is_verified=(None, True, False)[number],
            order_deadline=(None, after(9), None)[number],
        )
        for number, record in enumerate(records)
    ]

    async with store.write() as work:
        assert await work.recoveries.save(records[1], expected_revision=0)
        assert await work.recoveries.save_many(changed) == {"r0", "r2"}
        assert await work.recoveries.save_many([]) == set()

    for record in (changed[0], records[1], changed[2]):
        assert await find_recovery(store, record) == replace(
            record, revision=1, updated_at=after(5)
        )


async def test_many_are_found_by_their_ids(store: Store) -> None:
    """Those that do not exist are missing."""
    records = [make_recovery(f"r{number}", f"e{number}") for number in range(3)]
    await add_recoveries(store, *records)

    async with store.read() as work:
        found = await work.recoveries.find_many(
            [RecoveryId("r0"), RecoveryId("r2"), RecoveryId("r9")]
        )
        assert await work.recoveries.find_many([]) == {}

    assert found == {"r0": records[0], "r2": records[2]}


async def test_wake_makes_due_what_waits_for_such_an_executor(
    store: Store, clock: FakeClock
) -> None:
    """Waiting rows of the application and stranded rows of the version become READY."""
    woken = [
        make_recovery(
            "waiting",
            "e1",
            state=RecoveryState.WAITING,
            app_version=V2,
            next_attempt_at=None,
        ),
        make_recovery("stranded", "e2", state=RecoveryState.STRANDED),
        make_recovery(
            "claimed", "e3", state=RecoveryState.STRANDED, claimed_by=INSTANCE
        ),
    ]
    asleep = [
        make_recovery(
            "other version", "e4", state=RecoveryState.STRANDED, app_version=V2
        ),
        make_recovery("backoff", "e5", state=RecoveryState.BACKOFF),
        make_recovery("foreign", "e1", OTHER_APP, state=RecoveryState.WAITING),
    ]
    await add_recoveries(store, *woken, *asleep)
    clock.jump(timedelta(seconds=5))

    async with store.write() as work:
        assert await work.recoveries.wake(APP.id, V1) == 3

    for record in woken:
        assert await find_recovery(store, record) == replace(
            record,
            state=RecoveryState.READY,
            next_attempt_at=after(5),
            claimed_by=None,
            revision=1,
            updated_at=after(5),
        )
    for record in asleep:
        assert await find_recovery(store, record) == record


async def test_lists_are_newest_first_and_filtered_by_state(store: Store) -> None:
    """Pages go from the newest to the oldest, in one application or in all."""
    await add_recoveries(
        store,
        make_recovery("old", "e1", opened_at=after(1), state=RecoveryState.DONE),
        make_recovery("new", "e1", opened_at=after(9)),
        make_recovery("middle", "e2", opened_at=after(5)),
        make_recovery("foreign", "e1", OTHER_APP, opened_at=after(7)),
    )

    async with store.read() as work:

        async def page(
            states: set[RecoveryState] | None, limit: int = 10, offset: int = 0
        ) -> list[RecoveryId]:
            found = await work.recoveries.list_by_application(
                APP.id, states=states, limit=limit, offset=offset
            )
            return [record.id for record in found]

        assert await page(None) == ["new", "middle", "old"]
        assert await page(None, limit=1, offset=1) == ["middle"]
        assert await page({RecoveryState.DONE}) == ["old"]
        assert await page({RecoveryState.DONE, RecoveryState.READY}, limit=2) == [
            "new",
            "middle",
        ]
        assert await page(set()) == []
        every = await work.recoveries.list_all(states={RecoveryState.READY}, limit=2)
        assert [record.id for record in every] == ["new", "foreign"]


async def test_measure_counts_open_states_and_their_oldest(store: Store) -> None:
    """Final states are not measured."""
    await add_recoveries(
        store,
        make_recovery("r1", "e1", opened_at=after(5)),
        make_recovery("r2", "e2", opened_at=after(3)),
        make_recovery("r3", "e3", state=RecoveryState.STRANDED, opened_at=after(4)),
        make_recovery("r4", "e4", state=RecoveryState.DONE, opened_at=after(1)),
    )

    async with store.read() as work:
        assert await work.recoveries.measure() == {
            RecoveryState.READY: (2, after(3)),
            RecoveryState.STRANDED: (1, after(4)),
        }


async def test_a_tombstone_is_replaced_by_the_next_death_of_the_version(
    store: Store,
) -> None:
    """The newest tombstone of an executor is found, whatever its version was."""
    executor = make_executor()

    def make_tombstone(recovery_id: str, version: str, seconds: int) -> TombstoneRecord:
        return TombstoneRecord(
            executor=executor.ref,
            app_version=AppVersion(version),
            recovery_id=RecoveryId(recovery_id),
            deleted_at=after(seconds),
        )

    newest = make_tombstone("r3", "v1", 9)
    async with store.write() as work:
        await work.tombstones.insert(make_tombstone("r1", "v1", 1))
        await work.tombstones.insert(make_tombstone("r2", "v2", 5))
        await work.tombstones.insert(newest)

    async with store.read() as work:
        assert await work.tombstones.find(executor.ref.key) == newest
        assert await work.tombstones.find(make_executor("e2").ref.key) is None
