"""Many tasks that ask at once: one reading, no old one, and no mishap is shared."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from relay.gathering import Gathering
from relay.tasks import TaskSet


class Shelf:
    """A store whose readings take until they are let go; the values count them."""

    def __init__(self) -> None:
        self.readings: list[Collection[str]] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def read_many(self, keys: Collection[str]) -> Mapping[str, str]:
        self.readings.append(sorted(keys))
        number = len(self.readings)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return {key: f"{key} as of {number}" for key in keys if key != "nothing"}


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def gathering(shelf: Shelf) -> Gathering[str, str]:
    return Gathering(shelf.read_many)


async def _let_others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time


async def test_one_question_is_one_reading(
    shelf: Shelf, gathering: Gathering[str, str]
) -> None:
    assert await gathering.read("a") == "a as of 1"
    assert await gathering.read("a") == "a as of 2"
    assert shelf.readings == [["a"], ["a"]]


async def test_what_has_no_value_is_told_as_such(
    gathering: Gathering[str, str],
) -> None:
    assert await gathering.read("nothing") is None


async def test_questions_that_come_during_a_reading_share_the_next_one(
    shelf: Shelf, gathering: Gathering[str, str]
) -> None:
    shelf.gate.clear()
    async with TaskSet("askers") as tasks:
        first = tasks.spawn(gathering.read("a"), name="first")
        await _let_others_run()
        others = [tasks.spawn(gathering.read(key), name=key) for key in ("a", "b", "a")]
        await _let_others_run()
        shelf.gate.set()
        assert await first == "a as of 1"
        assert [await other for other in others] == [
            "a as of 2",
            "b as of 2",
            "a as of 2",
        ]
    assert shelf.readings == [["a"], ["a", "b"]]


async def test_a_reading_that_fails_fails_for_all_it_was_for_and_no_others(
    shelf: Shelf, gathering: Gathering[str, str]
) -> None:
    shelf.gate.clear()
    shelf.error = OSError("away")
    async with TaskSet("askers") as tasks:
        lost = [
            tasks.spawn(_outcome(gathering, "a"), name=f"{number}")
            for number in range(3)
        ]
        await _let_others_run()
        shelf.gate.set()
        assert [await task for task in lost] == ["away"] * 3
    assert len(shelf.readings) == 2

    shelf.error = None
    assert await gathering.read("a") == "a as of 3"


async def test_one_who_is_cancelled_takes_nobody_along(
    shelf: Shelf, gathering: Gathering[str, str]
) -> None:
    shelf.gate.clear()
    async with TaskSet("askers") as tasks:
        reader = tasks.spawn(gathering.read("a"), name="reader")
        await _let_others_run()
        waiting = tasks.spawn(gathering.read("b"), name="waiting")
        leaving = tasks.spawn(gathering.read("c"), name="leaving")
        await _let_others_run()
        reader.cancel()
        leaving.cancel()
        await _let_others_run()
        shelf.gate.set()
        assert await waiting == "b as of 2"
    assert shelf.readings == [["a"], ["b"]]


async def _outcome(gathering: Gathering[str, str], key: str) -> str | None:
    try:
        return await gathering.read(key)
    except OSError as error:
        return str(error)
