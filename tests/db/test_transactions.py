"""Transactions on both engines."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Integer, String, delete, select
from sqlalchemy.exc import DBAPIError

from relay.clock import SystemClock
from relay.db import Database, Instant
from relay.tasks import TaskSet
from relay.testing.clock import START, FakeClock
from tests.db.samples import keep, sample


async def test_now_is_the_databases_clock_read_once(database_url: str) -> None:
    """Without a clock of ours, `now` is aware, in UTC, and does not move."""
    database = Database.open(database_url)
    before = datetime.now(UTC)  # noqa: TID251 - compared with the database's clock

    async with database.transaction(write=False) as transaction:
        first = transaction.now
        await transaction.execute(select(1))
        second = transaction.now
    await database.close()

    assert first == second
    assert first.tzinfo is UTC
    assert abs(first - before) < timedelta(minutes=1)


async def test_now_is_the_given_clocks(database: Database, clock: FakeClock) -> None:
    """Tests own the time of the database as well."""
    clock.jump(timedelta(seconds=5))

    async with database.transaction(write=True) as transaction:
        assert transaction.now == START + timedelta(seconds=5)


async def test_an_error_undoes_the_transaction(samples: Database) -> None:
    """Nothing of a block that failed is kept."""

    async def fail() -> None:
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()

    async with samples.transaction(write=False) as transaction:
        assert (await transaction.execute(select(sample))).all() == []


async def test_cancelling_undoes_the_transaction(samples: Database) -> None:
    """A task that is cancelled inside a transaction leaves no row and no connection."""
    is_inside = asyncio.Event()

    async def hang() -> None:
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1)
            is_inside.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(hang())
        await is_inside.wait()
        task.cancel()

    async with samples.transaction(write=True) as transaction:
        assert (await transaction.execute(select(sample))).all() == []


async def test_cancelling_a_writer_that_waits_leaves_nothing_behind(
    samples: Database,
) -> None:
    """It gives its place up; those who come later are served."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)

    async def wait_in_vain() -> None:
        async with samples.transaction(write=True) as transaction:
            await transaction.lock_rows(sample, sample.c.id == 1)

    async with samples.transaction(write=True) as transaction:
        await transaction.execute(sample.update().values(name="held"))
        waiting = asyncio.gather(wait_in_vain(), wait_in_vain())
        await FakeClock.settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    await wait_in_vain()
    assert samples.connections_in_use == 0


async def test_a_reading_transaction_cannot_write(samples: Database) -> None:
    """A forgotten `write` is found at the first statement, on both engines."""
    with pytest.raises(DBAPIError, match=r"readonly|read-only"):
        async with samples.transaction(write=False) as transaction:
            await keep(transaction, id=1)

    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)


async def test_writers_that_read_before_they_write_lose_nothing(
    samples: Database,
) -> None:
    """Each of many writers at once sees what the one before it wrote."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=0, name="0")

    async def count() -> None:
        async with samples.transaction(write=True) as transaction:
            await transaction.lock_rows(sample, sample.c.id == 0)
            result = await transaction.execute(select(sample.c.name))
            number = int(result.scalar_one())
            await transaction.execute(sample.update().values(name=str(number + 1)))

    await asyncio.gather(*(count() for _ in range(20)))

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(select(sample.c.name))
        assert found.scalar_one() == "20"


async def test_insert_new_leaves_the_transaction_usable(samples: Database) -> None:
    """A row that a unique rule forbids is not inserted, and the rest goes on."""
    async with samples.transaction(write=True) as transaction:
        assert await transaction.insert_new(sample, {"id": 1, "name": "a"})
        assert not await transaction.insert_new(sample, {"id": 2, "name": "a"})
        assert not await transaction.insert_new(sample, {"id": 1, "name": "b"})
        assert await transaction.insert_new(sample, {"id": 2, "name": "b"})

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(
            select(sample.c.id, sample.c.name).order_by(sample.c.id)
        )
        assert [tuple(row) for row in found] == [(1, "a"), (2, "b")]


async def test_rows_are_given_as_a_table(samples: Database) -> None:
    """Text, instants and nothing arrive as what they are, however many rows."""
    rows = [("ü'\"", START, 1), (None, None, 2), ("", START + timedelta(1), 3)]
    rows += [("many", START, number) for number in range(4, 5000)]

    async with samples.transaction(write=False) as transaction:
        given = transaction.table_of(
            {"word": String(), "at": Instant(), "number": Integer()}, rows
        )
        found = await transaction.execute(select(given).order_by(given.c.number))
        assert [tuple(row) for row in found] == rows


async def test_cancelling_anywhere_leaves_no_lock(samples: Database) -> None:
    """The next writer does not wait, wherever in its work the last one was stopped."""
    gc.collect()
    gc.disable()  # it would find the lost connection, some time

    async def write() -> None:
        while True:
            async with samples.transaction(write=True) as transaction:
                for _ in range(3):
                    await transaction.insert_new(
                        sample, *({"id": number} for number in range(500))
                    )
                    await transaction.execute(delete(sample))

    try:
        for turn in range(30):
            async with TaskSet("writers") as tasks:
                tasks.spawn(write(), name="first")
                tasks.spawn(write(), name="second")
                await SystemClock().sleep(timedelta(milliseconds=turn))
            async with SystemClock().timeout(timedelta(seconds=3)):
                async with samples.transaction(write=True) as transaction:
                    await transaction.execute(delete(sample))
    finally:
        gc.enable()
