"""Replies that take long to read: each asker waits for its own, and not for ever."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

import pytest

from relay.errors import ReplyInvalidError, ReplyTimeoutError
from relay.hub.connection import TIMEOUTS_TO_UNRESPONSIVE, Connection
from relay.hub.intake import LARGE_FRAME_BYTES, SMALL_FRAME_BYTES
from relay.hub.reading import BUDGET, SLICE, ReadingThread
from relay.ids import ApplicationId, ApplicationRef, AppName, OrgName
from relay.protocol.steps import LongReply, Steps
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from tests.hub.conftest import ORDERS, eventually
from tests.hub.paper import PaperLink, open_connection

SPAN = timedelta(seconds=25)
OTHER = ApplicationRef(ApplicationId("app-2"), OrgName("local"), AppName("other"))


@dataclass(frozen=True, slots=True)
class ListingRequest(LongReply[int]):
    """A question whose answer is read in steps, each of which does as the test says."""

    step: Callable[[], bool] = field(default=lambda: False)
    message_type: ClassVar[str] = "listing"

    def fields(self) -> Mapping[str, object]:
        return {}

    def decode_in_steps(self, frame: bytes) -> Steps[int]:
        count = 0
        while self.step():
            count += 1
            yield
        return count


class Room:
    """Connections on paper that share one thread, whose time the test owns."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.spent_seconds = 0.0
        self.reader = ReadingThread("paper", read_spent=lambda: self.spent_seconds)

    def open(self, application: ApplicationRef = ORDERS) -> Connection:
        return open_connection(PaperLink(), self.clock, self.reader, application)

    def spend(self, span: timedelta) -> bool:
        self.spent_seconds += span.total_seconds()
        return True


@pytest.fixture
def room(clock: FakeClock) -> Iterator[Room]:
    opened = Room(clock)
    yield opened
    opened.spent_seconds += 1e9
    opened.reader.shutdown(cancel_futures=True)


async def answer_large(connection: Connection) -> None:
    """Let the executor answer what it was asked last, with a large message."""
    await FakeClock.settle()
    link = connection.link
    assert isinstance(link, PaperLink)
    reply = {**json.loads(link.sent[-1]), "text": "x" * LARGE_FRAME_BYTES}
    connection.receive(json.dumps(reply).encode())


async def answer_with_rows(connection: Connection) -> None:
    """The same with so many rows that only its head is read at once."""
    await FakeClock.settle()
    link = connection.link
    assert isinstance(link, PaperLink)
    reply = {**json.loads(link.sent[-1]), "rows": [{}] * (SMALL_FRAME_BYTES // 2)}
    connection.receive(json.dumps(reply).encode())
    await FakeClock.settle()


async def test_long_reply_of_one_application_does_not_hold_up_another_s(
    room: Room,
) -> None:
    """Half a million rows are read behind fifty."""
    may_read = threading.Event()
    room.reader.submit(may_read.wait, 10)
    greedy_steps = 0
    steps_left = iter(range(50))
    steps_before: list[int] = []

    def be_greedy() -> bool:
        nonlocal greedy_steps
        greedy_steps += 1
        return room.spend(SLICE)

    def be_modest() -> bool:
        steps_before.append(greedy_steps)
        return room.spend(SLICE) and next(steps_left, None) is not None

    first, second = room.open(), room.open(OTHER)
    async with TaskSet("asking") as tasks:
        tasks.spawn(first.ask(ListingRequest(be_greedy), SPAN), name="greedy")
        await answer_with_rows(first)
        asking = tasks.spawn(second.ask(ListingRequest(be_modest), SPAN), name="modest")
        await answer_with_rows(second)
        may_read.set()

        assert await asking == 50

    assert steps_before[-1] <= 52


async def test_reply_that_takes_too_long_to_read_is_the_fault_of_its_executor(
    room: Room,
) -> None:
    """Its asker is told whose."""
    connection = room.open()
    request = ListingRequest(lambda: room.spend(BUDGET / 10))

    async with TaskSet("asking") as tasks:
        asking = tasks.spawn(connection.ask(request, SPAN), name="ask")
        await answer_large(connection)

        with pytest.raises(ReplyInvalidError, match=r"e1 .* more than 5 s"):
            await asking


async def test_reading_counts_in_the_time_that_the_asker_gives(
    room: Room, clock: FakeClock
) -> None:
    """And is called off at the end of it; the executor was not silent."""
    connection = room.open()
    has_begun, was_left = threading.Event(), threading.Event()

    class EndlessRequest(ListingRequest):
        def decode_in_steps(self, frame: bytes) -> Steps[int]:
            has_begun.set()
            try:
                while True:
                    yield
            finally:
                was_left.set()

    async with TaskSet("asking") as tasks:
        asking = tasks.spawn(connection.ask(EndlessRequest(), SPAN), name="ask")
        await answer_large(connection)
        await eventually(has_begun.is_set)
        assert not asking.done()

        await clock.advance(SPAN)

        with pytest.raises(ReplyTimeoutError) as failure:
            await asking
        assert failure.value.delivered
        await eventually(was_left.is_set)
        assert connection.in_flight == 0

        for silences in range(1, TIMEOUTS_TO_UNRESPONSIVE + 1):
            asking = tasks.spawn(connection.ask(ListingRequest(), SPAN), name="ask")
            await clock.advance(SPAN)
            with pytest.raises(ReplyTimeoutError):
                await asking
            is_responsive = silences < TIMEOUTS_TO_UNRESPONSIVE
            assert connection.is_responsive is is_responsive


async def test_executor_whose_large_message_waits_to_be_read_is_not_silent(
    room: Room, clock: FakeClock
) -> None:
    """It may have answered."""
    connection = room.open()
    may_read = threading.Event()
    room.reader.submit(may_read.wait, 10)

    for _ in range(TIMEOUTS_TO_UNRESPONSIVE):
        async with TaskSet("asking") as tasks:
            asking = tasks.spawn(connection.ask(ListingRequest(), SPAN), name="ask")
            await answer_large(connection)
            await clock.advance(SPAN)
            with pytest.raises(ReplyTimeoutError):
                await asking

    assert connection.is_responsive
    may_read.set()
