"""Rows that several attempts have to write, in as few transactions as it takes."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta

import pytest

from relay.errors import StoreUnavailableError
from relay.ids import RecoveryId
from relay.recovery.writing import (
    WRITTEN_AT_ONCE,
    Together,
    written_together,
)
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock


class Page:
    """Takes rows, one batch at a time, and breaks on a row called `broken`."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.is_down = False
        self.is_closed_after_each = False
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def write(self, rows: Sequence[str]) -> Mapping[RecoveryId, str]:
        await self.may_write.wait()
        if self.is_closed_after_each:
            self.may_write.clear()
        if self.is_down:
            raise StoreUnavailableError("gone")
        self.batches.append(list(rows))
        if "broken" in rows:
            raise ValueError("a row that breaks")
        return {RecoveryId(row): f"{row}!" for row in rows if row != "changed"}


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def tasks() -> AsyncIterator[TaskSet]:
    async with TaskSet("writers") as tasks:
        yield tasks


async def test_rows_gather_while_a_transaction_is_under_way(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """The first goes at once, the others together, and each gets its own answer."""
    together = Together(clock, page.write)
    page.may_write.clear()
    names = ["first", "second", "changed", "third"]
    writers = [
        tasks.spawn(together.write(RecoveryId(name), name), name=name) for name in names
    ]
    await clock.settle()

    page.may_write.set()
    results = await asyncio.gather(*writers)

    assert page.batches == [["first"], ["second", "changed", "third"]]
    assert results == ["first!", "second!", None, "third!"]


async def test_transaction_holds_so_many_rows_and_no_more(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """A thousand deaths do not hold the rows of all for a second."""
    together = Together(clock, page.write)
    page.may_write.clear()
    names = [f"row-{number}" for number in range(WRITTEN_AT_ONCE + 6)]
    writers = [
        tasks.spawn(together.write(RecoveryId(name), name), name=name) for name in names
    ]
    await clock.settle()

    page.may_write.set()
    await asyncio.gather(*writers)

    assert [len(batch) for batch in page.batches] == [1, WRITTEN_AT_ONCE, 5]


async def test_rows_that_belong_together_are_written_together(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """An order that names many is recorded in all of their rows, or in none."""
    together = Together(clock, page.write)
    page.may_write.clear()
    bundles = [
        {RecoveryId(f"{name}-{n}"): f"{name}-{n}" for n in range(number)}
        for name, number in (("a", 1), ("b", WRITTEN_AT_ONCE - 1), ("c", 2), ("d", 3))
    ]
    writers = [
        tasks.spawn(together.write_all(rows), name=str(number))
        for number, rows in enumerate(bundles)
    ]
    await clock.settle()

    page.may_write.set()
    results = await asyncio.gather(*writers)

    assert [len(batch) for batch in page.batches] == [1, WRITTEN_AT_ONCE - 1, 5]
    assert [result.keys() for result in results] == [rows.keys() for rows in bundles]


async def test_row_that_breaks_does_not_take_the_others_with_it(
    page: Page, clock: FakeClock
) -> None:
    """What cannot be written together is written one by one."""
    written = await written_together(clock, ["a", "broken", "b"], page.write)

    assert page.batches == [["a", "broken", "b"], ["a"], ["broken"], ["b"]]
    assert written == {"a": "a!", "b": "b!"}


async def test_row_that_breaks_alone_is_an_error(page: Page, clock: FakeClock) -> None:
    """Its attempt ends with it, and the survey finds the row."""
    with pytest.raises(ValueError, match="breaks"):
        await written_together(clock, ["broken"], page.write)

    assert page.batches == [["broken"]]


async def test_rows_are_kept_while_the_store_is_away(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """They are written together when it is back."""
    page.is_down = True
    writing = tasks.spawn(
        written_together(clock, ["a", "b"], page.write), name="writing"
    )
    await clock.advance(timedelta(minutes=5))
    assert page.batches == []

    page.is_down = False
    await clock.advance(timedelta(seconds=30))

    assert await writing == {"a": "a!", "b": "b!"}
    assert page.batches == [["a", "b"]]


async def test_the_same_row_is_never_twice_in_a_transaction(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """An attempt that has lost its row must not take its successor's write for own."""
    together = Together(clock, page.write)
    page.may_write.clear()
    names = ["first", "row", "other", "row", "last"]
    writers = [
        tasks.spawn(together.write(RecoveryId(name), name), name=name) for name in names
    ]
    await clock.settle()

    page.may_write.set()
    await asyncio.gather(*writers)

    assert page.batches == [["first"], ["row", "other"], ["row", "last"]]


async def test_what_a_cancelled_writer_had_to_write_is_not_written(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """Nobody would look after what it began, such as an order that is never sent."""
    together = Together(clock, page.write)
    page.may_write.clear()
    first, cancelled, last = (
        tasks.spawn(together.write(RecoveryId(name), name), name=name)
        for name in ("first", "cancelled", "last")
    )
    await clock.settle()

    cancelled.cancel()
    await clock.settle()
    page.may_write.set()

    assert [await first, await last] == ["first!", "last!"]
    assert page.batches == [["first"], ["last"]]


async def test_rows_that_a_cancelled_task_was_writing_for_others_are_written(
    page: Page, clock: FakeClock, tasks: TaskSet
) -> None:
    """Whoever comes first writes for all; the others do not depend on its life."""
    together = Together(clock, page.write)
    page.is_closed_after_each = True
    page.may_write.clear()
    first, leader, last = (
        tasks.spawn(together.write(RecoveryId(name), name), name=name)
        for name in ("first", "leader", "last")
    )
    await clock.settle()
    page.may_write.set()
    assert await first == "first!"
    await clock.settle()

    leader.cancel()
    await clock.settle()
    page.may_write.set()

    assert await last == "last!"
    assert page.batches == [["first"], ["last"]]
