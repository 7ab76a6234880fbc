"""Questions wait here, and not at an executor that bears one at a time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from relay.ids import ApplicationId, ExecutorId
from relay.protocol.messages import ExecutorInfo
from relay.protocol.sdk import Sdk, capabilities_of
from relay.recovery.pacing import Pace
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from tests.recovery.records import SHOP, V1, dead_ref
from tests.recovery.stage import FakePeer, FakePeers, Workflows

SERIAL = Sdk("go", "1.2.0")
PARALLEL = Sdk("python", "3.2.0")
OTHER = ApplicationId("app-other")


class Room:
    """Askers that ask until they are told to stop."""

    def __init__(self, tasks: TaskSet) -> None:
        self.clock = FakeClock()
        self.peers = FakePeers()
        self.pace = Pace(self.peers)
        self.asking: list[str] = []
        self._tasks = tasks
        self._answers: dict[str, asyncio.Event] = {}

    def connect(self, name: str, sdk: Sdk = SERIAL) -> FakePeer:
        peer = FakePeer(
            dead_ref(name),
            ExecutorInfo(ExecutorId(name), V1, None, None, None, None),
            capabilities_of(sdk),
            Workflows(),
            self.clock,
        )
        self.peers.peers.append(peer)
        return peer

    async def ask(
        self, *names: str, application_id: ApplicationId = SHOP.id
    ) -> list[asyncio.Task[None]]:
        tasks = []
        for name in names:
            self._answers[name] = asyncio.Event()
            tasks.append(
                self._tasks.spawn(self._question(name, application_id), name=name)
            )
        await self.clock.settle()
        return tasks

    async def answer(self, name: str) -> None:
        self._answers[name].set()
        await self.clock.settle()

    async def _question(self, name: str, application_id: ApplicationId) -> None:
        async with self.pace.question(application_id):
            self.asking.append(name)
            try:
                await self._answers[name].wait()
            finally:
                self.asking.remove(name)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with TaskSet("askers") as tasks:
        yield Room(tasks)


async def test_serial_executor_has_one_question_and_one_that_waits(room: Room) -> None:
    """The next comes when one is answered, in the order of their coming."""
    room.connect("peer")

    await room.ask("a", "b", "c", "d")
    assert room.asking == ["a", "b"]
    await room.answer("b")
    assert room.asking == ["a", "c"]
    await room.answer("a")
    assert room.asking == ["c", "d"]


async def test_executors_add_up_and_silent_ones_do_not(room: Room) -> None:
    """Nobody waits for answers of an executor that gives none."""
    room.connect("serial")
    room.connect("parallel", PARALLEL)
    room.connect("mute", PARALLEL).is_responsive = False

    await room.ask(*(str(number) for number in range(30)))

    assert len(room.asking) == (1 + 1) + (8 + 1)


async def test_questions_go_on_one_by_one_when_nobody_is_left(room: Room) -> None:
    """Each is answered at once then: by that nobody is there."""
    peer = room.connect("peer")
    await room.ask("a", "b", "c", "d")

    room.peers.peers.remove(peer)
    await room.answer("a")
    await room.answer("b")
    assert room.asking == ["c"]
    await room.answer("c")
    assert room.asking == ["d"]


async def test_applications_do_not_wait_for_each_other(room: Room) -> None:
    """The executors of the one bear no questions about the other."""
    room.connect("peer")
    await room.ask("a", "b", "c")

    await room.ask("elsewhere", application_id=OTHER)

    assert room.asking == ["a", "b", "elsewhere"]


async def test_whoever_gives_up_makes_room(room: Room) -> None:
    """In the middle of a question, before its turn, and in the moment of its turn."""
    room.connect("peer")
    a, _, c, d, _ = await room.ask("a", "b", "c", "d", "e")

    c.cancel()
    await room.clock.settle()
    assert room.asking == ["a", "b"]
    a.cancel()
    await room.clock.settle()
    assert room.asking == ["b", "d"]
    d.cancel()
    await room.answer("b")
    assert room.asking == ["e"]


async def test_turn_that_comes_too_late_is_passed_on(room: Room) -> None:
    """It was given and given up in the same turn of the loop."""
    room.connect("peer")
    a, _, c, _ = await room.ask("a", "b", "c", "d")

    a.cancel()
    c.cancel()
    await room.clock.settle()

    assert room.asking == ["b", "d"]
