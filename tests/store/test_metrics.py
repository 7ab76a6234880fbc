"""Counts of windows, where the last one ended, and when they are thrown away."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from relay.collection import MetricReports
from relay.collection.planning import LONGEST_NAME_CHARS
from relay.collection.reports import PAGE_ROWS
from relay.ids import ApplicationRef, ExecutorId, RecoveryId
from relay.records import MetricRecord, MetricType, RecoveryState
from relay.store import Store
from relay.testing.clock import START
from tests.store.rows import (
    APP,
    OTHER_APP,
    add_recoveries,
    make_metric,
    make_recovery,
    register,
)

MINUTE = timedelta(minutes=1)


async def close(
    store: Store,
    minute: int,
    *records: MetricRecord,
    application: ApplicationRef = APP,
    expected: int | None,
) -> bool:
    """Close the window of some minute; `expected` is the minute the last one ended."""
    start = START + minute * MINUTE
    async with store.write() as work:
        await work.applications.lock_settings({application.id})
        return await work.metrics.close_window(
            application.id,
            start,
            start + MINUTE,
            [replace(record, time_bucket=start) for record in records],
            expected_end=None if expected is None else START + expected * MINUTE,
        )


async def find_end(store: Store, application: ApplicationRef = APP) -> datetime | None:
    async with store.read() as work:
        return (await work.metrics.find_ends([application.id])).get(application.id)


async def list_rows(
    store: Store, first: int = 0, last: int = 1000, application: ApplicationRef = APP
) -> Sequence[MetricRecord]:
    pages = MetricReports(store).list_between(
        application, START + first * MINUTE, START + last * MINUTE
    )
    return [record async for page in pages for record in page]


async def test_the_rows_of_a_window_come_back_as_they_were(store: Store) -> None:
    """With its end; other applications have none."""
    await register(store, APP, OTHER_APP)
    records = [
        make_metric("a\u00e4\U0001f600", metric_type=MetricType.RECOVERIES),
        make_metric("", value=2**53 - 1),
    ]

    assert await close(store, 0, *records, expected=None)

    assert list(await list_rows(store)) == records
    assert await find_end(store) == START + MINUTE
    assert await list_rows(store, application=OTHER_APP) == []
    assert await find_end(store, OTHER_APP) is None


async def test_the_longest_name_fits_into_the_index(store: Store) -> None:
    """Of the largest characters, all different."""
    await register(store, APP)
    name = "".join(chr(0x20000 + 7 * place) for place in range(LONGEST_NAME_CHARS))

    assert await close(store, 0, make_metric(name), expected=None)

    assert [row.metric_name for row in await list_rows(store)] == [name]


async def test_a_window_is_closed_once(store: Store) -> None:
    """Whoever planned it on old news changes nothing: no first one, no later one."""
    await register(store, APP)
    assert await close(store, 0, make_metric(), expected=None)

    assert not await close(store, 0, make_metric("other"), expected=None)
    assert await close(store, 1, make_metric(), expected=1)
    assert not await close(store, 1, make_metric("other"), expected=1)

    assert {row.metric_name for row in await list_rows(store)} == {"checkout"}
    assert await find_end(store) == START + 2 * MINUTE


async def test_a_window_replaces_what_begins_later(store: Store) -> None:
    """The clock was set back; other applications have their own windows."""
    await register(store, APP, OTHER_APP)
    await close(store, 0, make_metric("before"), expected=None)
    await close(store, 5, make_metric("wrong"), expected=1)
    foreign = make_metric(application=OTHER_APP)
    await close(store, 7, foreign, application=OTHER_APP, expected=None)

    assert await close(store, 1, make_metric("right"), expected=6)

    assert [row.metric_name for row in await list_rows(store)] == ["before", "right"]
    assert len(await list_rows(store, application=OTHER_APP)) == 1


async def test_windows_are_listed_by_their_beginning(store: Store) -> None:
    """The start of the question is in it, its end is not."""
    await register(store, APP)
    for minute in range(4):
        last_end = minute or None
        await close(store, minute, make_metric(f"m{minute}"), expected=last_end)

    assert [row.metric_name for row in await list_rows(store, 1, 3)] == ["m1", "m2"]


async def test_many_rows_are_read_in_pages(store: Store) -> None:
    """Each once: the oldest windows first, in each by type and name."""
    await register(store, APP)
    names = [f"n{number:04}" for number in range(700)]
    steps = [make_metric(name, metric_type=MetricType.STEPS) for name in names]
    await close(store, 0, *reversed(steps), make_metric("w"), expected=None)
    await close(store, 1, *steps, expected=1)

    rows = await list_rows(store)

    assert [row.metric_name for row in rows] == [*names, "w", *names]
    assert [row.time_bucket for row in rows] == sorted(row.time_bucket for row in rows)


async def test_pages_are_transactions_of_their_own(store: Store) -> None:
    """Whoever reads slowly keeps nobody from writing; what is gone is left out."""
    await register(store, APP)
    names = [f"n{number:04}" for number in range(PAGE_ROWS + 1)]
    await close(store, 0, *map(make_metric, names), expected=None)
    pages = MetricReports(store).list_between(APP, START, START + MINUTE)

    first = await anext(aiter(pages))
    async with store.write() as work:
        await work.metrics.purge(APP.id, START + MINUTE, limit=1)
    rest = [page async for page in pages]

    assert [row.metric_name for row in first] == names[:-1]
    assert rest == []


async def test_rows_are_counted_up_to_a_limit(store: Store) -> None:
    """Those of the application that begin from the start on and before the end."""
    await register(store, APP, OTHER_APP)
    for minute in range(4):
        records = [make_metric(name) for name in ("a", "b")]
        await close(store, minute, *records, expected=minute or None)
    foreign = make_metric(application=OTHER_APP)
    await close(store, 1, foreign, application=OTHER_APP, expected=None)

    async with store.read() as work:
        counts = [
            await work.metrics.count(
                APP.id, START + MINUTE, START + 3 * MINUTE, limit=limit
            )
            for limit in (3, 4, 5)
        ]

    assert counts == [3, 4, 4]


async def test_the_last_window_before_an_instant_is_found(store: Store) -> None:
    """One that begins at it does not."""
    await register(store, APP, OTHER_APP)
    await close(store, 0, make_metric("a"), make_metric("b"), expected=None)
    await close(store, 2, make_metric("c"), expected=1)
    foreign = make_metric(application=OTHER_APP)
    await close(store, 1, foreign, application=OTHER_APP, expected=None)

    async with store.read() as work:
        found = [
            await work.metrics.find_last_before(APP.id, START + minute * MINUTE)
            for minute in range(4)
        ]

    starts = [None if row is None else row.time_bucket for row in found]
    assert starts == [None, START, START, START + 2 * MINUTE]


async def test_recoveries_are_counted_by_executor(store: Store) -> None:
    """Those opened from the start on and before the end, ended or not."""
    await register(store, APP, OTHER_APP)
    instant = timedelta(microseconds=1)
    ended = make_recovery("before", "e1", state=RecoveryState.DONE)
    await add_recoveries(
        store,
        replace(ended, opened_at=START - instant),
        replace(ended, id=RecoveryId("start"), opened_at=START),
        replace(make_recovery("last", "e2"), opened_at=START + MINUTE - instant),
        replace(make_recovery("end", "e3"), opened_at=START + MINUTE),
        make_recovery("foreign", "e9", OTHER_APP),
    )

    async with store.read() as work:
        end = START + MINUTE
        found = await work.metrics.count_recoveries(APP.id, START, end, limit=9)
        cut = await work.metrics.count_recoveries(APP.id, START, end, limit=1)

    assert found == {ExecutorId("e1"): 1, ExecutorId("e2"): 1}
    assert cut == {ExecutorId("e1"): 1}


async def test_old_windows_are_purged_whole(store: Store) -> None:
    """The oldest first, some at a time; where the last one ended is remembered."""
    await register(store, APP, OTHER_APP)
    for minute in range(4):
        records = [make_metric(name) for name in ("a", "b")]
        await close(store, minute, *records, expected=minute or None)
    foreign = make_metric(application=OTHER_APP)
    await close(store, 0, foreign, application=OTHER_APP, expected=None)

    async def purge() -> int:
        async with store.write() as work:
            return await work.metrics.purge(APP.id, START + 3 * MINUTE, limit=3)

    assert [await purge() for _ in range(3)] == [4, 2, 0]
    assert {row.time_bucket for row in await list_rows(store)} == {START + 3 * MINUTE}
    assert await find_end(store) == START + 4 * MINUTE
    assert len(await list_rows(store, application=OTHER_APP)) == 1


async def test_counts_go_with_their_application(store: Store) -> None:
    """One that is registered again begins anew."""
    await register(store, APP)
    await close(store, 0, make_metric(), expected=None)

    async with store.write() as work:
        assert await work.applications.delete(APP.id)
    await register(store, APP)

    assert await list_rows(store) == []
    assert await find_end(store) is None
