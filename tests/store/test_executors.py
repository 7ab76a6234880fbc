"""Rows of executors: guards, deadlines, last-seen times."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relay.errors import ConflictError
from relay.ids import AppVersion, ConnectionId, Epoch, InstanceId
from relay.liveness.states import ExecutorStatus
from relay.store import Store
from relay.store.executors import Change
from relay.testing.clock import START, FakeClock
from tests.store.rows import (
    APP,
    INSTANCE,
    OTHER_APP,
    add_executors,
    find_executor,
    make_disconnected,
    make_executor,
    register,
)

GRACE = timedelta(seconds=60)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
async def applications(store: Store) -> None:
    """Two registered applications."""
    await register(store, APP, OTHER_APP)


async def test_a_record_survives_a_round_trip(store: Store) -> None:
    """Every field comes back as it was, to the microsecond."""
    record = make_executor(
        status=ExecutorStatus.DISCONNECTED,
        metadata={"deep": [1, None, {"ü": "\u0000"}], "big": 2**60},
        last_seen_at=START + timedelta(microseconds=1),
        grace_started_at=START,
        grace_is_fault=True,
        dead_after=START + timedelta(days=3653),
        epoch=Epoch(2**40),
        unseen_starts=2,
        last_error="it broke",
    )

    await add_executors(store, record)

    assert await find_executor(store, record) == record


async def test_insert_refuses_a_second_row_of_the_same_executor(store: Store) -> None:
    """The first row stays as it is."""
    record = make_executor()
    await add_executors(store, record)

    with pytest.raises(ConflictError):
        await add_executors(store, replace(record, epoch=Epoch(9)))

    assert await find_executor(store, record) == record


async def test_save_writes_everything_but_the_time_of_creation(store: Store) -> None:
    """A guarded save changes the row; `created_at` belongs to the first insert."""
    record = make_executor()
    await add_executors(store, record)
    changed = replace(
        make_disconnected(),
        created_at=after(99),
        app_version=AppVersion("v2"),
        epoch=Epoch(2),
        metadata=None,
    )

    async with store.write() as work:
        is_saved = await work.executors.save(
            changed, expected_epoch=Epoch(1), expected_status=ExecutorStatus.HEALTHY
        )

    assert is_saved
    assert await find_executor(store, record) == replace(changed, created_at=START)


@pytest.mark.parametrize(
    ("epoch", "status"),
    [(2, ExecutorStatus.HEALTHY), (1, ExecutorStatus.DISCONNECTED)],
    ids=["stale epoch", "stale status"],
)
async def test_save_changes_nothing_on_stale_news(
    store: Store, epoch: int, status: ExecutorStatus
) -> None:
    """A save whose epoch or status is not the row's leaves the row alone."""
    record = make_executor()
    await add_executors(store, record)

    async with store.write() as work:
        is_saved = await work.executors.save(
            replace(record, hostname="elsewhere"),
            expected_epoch=Epoch(epoch),
            expected_status=status,
        )

    assert not is_saved
    assert await find_executor(store, record) == record


async def test_save_many_writes_what_is_not_stale(store: Store) -> None:
    """Each change is guarded by itself, and values of every kind are written."""
    names = ("fresh", "stale", "moved", "unknown")
    fresh, stale, moved, unknown = (make_executor(name) for name in names)
    await add_executors(store, fresh, stale, moved)
    after_all = replace(
        make_disconnected("fresh"),
        metadata={"deep": [1, None, {"ü": "it's"}]},
        grace_is_fault=True,
        hostname=None,
        dead_after=START + timedelta(days=3653, microseconds=1),
        last_error="\U0001f525",
    )

    async with store.write() as work:
        saved = await work.executors.save_many(
            [
                Change(after_all, Epoch(1), ExecutorStatus.HEALTHY),
                Change(replace(stale, hostname="x"), Epoch(2), ExecutorStatus.HEALTHY),
                Change(replace(moved, hostname="x"), Epoch(1), ExecutorStatus.DEAD),
                Change(unknown, Epoch(1), ExecutorStatus.HEALTHY),
            ]
        )
        nothing = await work.executors.save_many([])

    assert saved == {fresh.ref.key}
    assert nothing == set()
    for record, expected in (
        (fresh, after_all),
        (stale, stale),
        (moved, moved),
        (unknown, None),
    ):
        assert await find_executor(store, record) == expected


async def test_insert_many_passes_over_rows_that_exist(store: Store) -> None:
    """The keys that are new are told, the rows that exist are left alone."""
    known, new = make_executor("known"), make_executor("new")
    await add_executors(store, known)

    async with store.write() as work:
        inserted = await work.executors.insert_many(
            [replace(known, hostname="elsewhere"), new]
        )
        nothing = await work.executors.insert_many([])

    assert inserted == {new.ref.key}
    assert nothing == set()
    assert await find_executor(store, known) == known
    assert await find_executor(store, new) == new


async def test_delete_dead_deletes_only_the_dead_of_that_epoch(store: Store) -> None:
    """Neither a living executor nor a later death of it is deleted."""
    living = make_executor("living")
    again = make_executor("again", status=ExecutorStatus.DEAD)
    dead = [make_executor(name, status=ExecutorStatus.DEAD) for name in ("d1", "d2")]
    await add_executors(store, living, again, *dead)
    named = [
        (living.ref.key, Epoch(1)),
        (again.ref.key, Epoch(2)),
        *((record.ref.key, Epoch(1)) for record in dead),
    ]

    async with store.write() as work:
        deleted = await work.executors.delete_dead(named)
        twice = await work.executors.delete_dead(named)
        nothing = await work.executors.delete_dead([])

    assert deleted == {record.ref.key for record in dead}
    assert twice == nothing == set()
    assert await find_executor(store, living) == living
    assert await find_executor(store, again) == again
    assert await find_executor(store, dead[0]) is None


async def test_lock_answers_with_the_rows_that_exist(store: Store) -> None:
    """Unknown and repeated keys do no harm."""
    records = [make_executor("e2"), make_executor("e1"), make_executor("e1", OTHER_APP)]
    await add_executors(store, *records)
    unknown = make_executor("e3").ref.key
    keys = [record.ref.key for record in records]

    async with store.write() as work:
        found = await work.executors.lock([*keys, unknown, *keys])
        nothing = await work.executors.lock([])

    assert found == {record.ref.key: record for record in records}
    assert nothing == {}


async def test_lock_keeps_others_from_writing_until_the_end(store: Store) -> None:
    """Two transactions that count in one row do not lose a step."""
    record = make_executor()
    await add_executors(store, record)

    async def count() -> None:
        async with store.write() as work:
            found = (await work.executors.lock([record.ref.key]))[record.ref.key]
            assert await work.executors.save(
                replace(found, unseen_starts=found.unseen_starts + 1),
                expected_epoch=found.epoch,
                expected_status=found.status,
            )

    await asyncio.gather(*(count() for _ in range(8)))

    counted = await find_executor(store, record)
    assert counted is not None
    assert counted.unseen_starts == 8


async def test_list_by_application_is_ordered_by_executor(store: Store) -> None:
    """Only the executors of that application are listed, page by page."""
    await add_executors(
        store,
        *(make_executor(name) for name in ("b", "c", "a")),
        make_executor("d", OTHER_APP),
    )

    async with store.read() as work:
        first = await work.executors.list_by_application(APP.id, after=None, limit=2)
        second = await work.executors.list_by_application(
            APP.id, after=first[-1].ref.key, limit=2
        )

    assert [record.ref.executor_id for record in first] == ["a", "b"]
    assert [record.ref.executor_id for record in second] == ["c"]


async def test_list_versions_names_those_of_one_application(store: Store) -> None:
    """Each once, also those of executors that are dead."""
    dead = ExecutorStatus.DEAD
    await add_executors(
        store,
        make_executor("a"),
        make_executor("b"),
        make_executor("c", status=dead, app_version=AppVersion("v2")),
        make_executor("d", OTHER_APP, app_version=AppVersion("theirs")),
    )

    async with store.read() as work:
        versions = await work.executors.list_versions(APP.id)

    assert versions == {make_executor().app_version, AppVersion("v2")}


async def test_list_by_status_pages_through_all_applications(store: Store) -> None:
    """Pages follow each other without a gap or a repetition."""
    records = [
        make_executor(name, application)
        for application in (APP, OTHER_APP)
        for name in ("a", "b", "c")
    ]
    await add_executors(store, *records, make_disconnected("d"))

    pages: list[list[str]] = []
    last = None
    while True:
        async with store.read() as work:
            page = await work.executors.list_by_status(
                ExecutorStatus.HEALTHY, after=last, limit=4
            )
        if not page:
            break
        pages.append([f"{r.ref.application.id}/{r.ref.executor_id}" for r in page])
        last = page[-1].ref.key

    assert pages == [
        ["app-1/a", "app-1/b", "app-1/c", "app-2/a"],
        ["app-2/b", "app-2/c"],
    ]


async def test_list_connections_tells_what_an_instance_holds(store: Store) -> None:
    """Only HEALTHY rows of that instance count, page by page."""
    held = make_executor("held", connection_id=ConnectionId("c7"))
    last = make_executor("last", connection_id=ConnectionId("c8"))
    await add_executors(
        store,
        last,
        held,
        make_executor("foreign", owner=InstanceId("relay-2")),
        make_disconnected("gone"),
    )

    async with store.read() as work:
        first = await work.executors.list_connections(INSTANCE, after=None, limit=1)
        second = await work.executors.list_connections(
            INSTANCE, after=held.ref.key, limit=2
        )

    assert first == [(held.ref, "c7")]
    assert second == [(last.ref, "c8")]


async def test_list_elapsed_finds_the_disconnected_whose_grace_is_over(
    store: Store, clock: FakeClock
) -> None:
    """A deadline counts from its very instant, the longest overdue first."""
    await add_executors(
        store,
        make_disconnected("exact", grace=timedelta(seconds=10)),
        make_disconnected("over", grace=timedelta(seconds=5)),
        make_disconnected("open", grace=timedelta(seconds=10, microseconds=1)),
        make_executor("dead", status=ExecutorStatus.DEAD, dead_after=after(1)),
        make_executor("healthy", dead_after=after(1)),
    )
    clock.jump(timedelta(seconds=10))

    async with store.read() as work:
        elapsed = await work.executors.list_elapsed(10)
        first = await work.executors.list_elapsed(1)

    assert [record.ref.executor_id for record in elapsed] == ["over", "exact"]
    assert [record.ref.executor_id for record in first] == ["over"]


async def test_find_next_deadline_looks_at_the_disconnected_only(store: Store) -> None:
    """The earliest open deadline is found, or none."""
    async with store.read() as work:
        assert await work.executors.find_next_deadline() is None
    await add_executors(
        store,
        make_disconnected("late", grace=timedelta(seconds=9)),
        make_disconnected("soon", grace=timedelta(seconds=5)),
        make_executor("dead", status=ExecutorStatus.DEAD, dead_after=after(1)),
    )

    async with store.read() as work:
        assert await work.executors.find_next_deadline() == after(5)


async def test_count_by_status_counts_each_status(store: Store) -> None:
    """A status that nobody has counts zero."""
    await add_executors(
        store, make_executor("a"), make_executor("b"), make_disconnected("c")
    )

    async with store.read() as work:
        counts = await work.executors.count_by_status()

    assert counts == {
        ExecutorStatus.HEALTHY: 2,
        ExecutorStatus.DISCONNECTED: 1,
        ExecutorStatus.DEAD: 0,
    }


async def test_touch_moves_last_seen_forward_on_the_same_connection_only(
    store: Store,
) -> None:
    """Old news and news of an older connection change nothing."""
    fresh, older, moved = (make_executor(name) for name in ("fresh", "older", "moved"))
    await add_executors(store, fresh, older, moved)
    same, other = ConnectionId("c1"), ConnectionId("c0")

    async with store.write() as work:
        changed = await work.executors.touch(
            [
                (moved.ref.key, other, after(5)),
                (older.ref.key, same, after(-5)),
                (fresh.ref.key, same, after(5)),
                (make_executor("unknown").ref.key, same, after(5)),
            ]
        )
        nothing = await work.executors.touch([])

    assert changed == 1
    assert nothing == 0
    seen = replace(fresh, last_seen_at=after(5))
    assert await find_executor(store, fresh) == seen
    assert await find_executor(store, older) == older
    assert await find_executor(store, moved) == moved


async def test_recompute_deadlines_counts_from_where_each_grace_began(
    store: Store,
) -> None:
    """A new timeout moves open deadlines; a loss that was no fault keeps its floor."""
    plain = make_disconnected("plain", started_at=after(3))
    fault = make_disconnected("fault", started_at=after(4), grace_is_fault=True)
    dead = make_executor("dead", status=ExecutorStatus.DEAD, dead_after=after(1))
    foreign = make_disconnected("foreign", OTHER_APP)
    await add_executors(store, plain, fault, dead, foreign)

    async with store.write() as work:
        short = await work.executors.recompute_deadlines(
            APP.id, grace=timedelta(milliseconds=1500), fault_grace=GRACE
        )

    assert short == 2
    assert await find_executor(store, plain) == replace(plain, dead_after=after(4.5))
    assert await find_executor(store, fault) == replace(fault, dead_after=after(64))
    assert await find_executor(store, dead) == dead
    assert await find_executor(store, foreign) == foreign

    ten_years = timedelta(days=3653)
    async with store.write() as work:
        await work.executors.recompute_deadlines(
            APP.id, grace=ten_years, fault_grace=GRACE
        )

    moved = await find_executor(store, fault)
    assert moved is not None
    assert moved.dead_after == after(4) + ten_years


async def test_raise_deadlines_moves_only_those_before_the_floor(store: Store) -> None:
    """A later deadline stays, and so does that of a dead executor."""
    early = make_disconnected(
        "early", started_at=after(-60), grace=timedelta(seconds=65)
    )
    late = make_disconnected("late", OTHER_APP, grace=timedelta(seconds=50))
    dead = make_executor("dead", status=ExecutorStatus.DEAD, dead_after=after(1))
    await add_executors(store, early, late, dead)

    async with store.write() as work:
        raised = await work.executors.raise_deadlines(after(30))

    assert raised == 1
    assert await find_executor(store, early) == replace(
        early, grace_started_at=START, grace_is_fault=True, dead_after=after(30)
    )
    assert await find_executor(store, late) == late
    assert await find_executor(store, dead) == dead
