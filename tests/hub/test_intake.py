"""Large messages: read in a thread, in order, and answers also at the end."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs
from websockets.frames import Frame, Opcode

from relay.errors import ConnectionLostError
from relay.hub.connection import Connection
from relay.hub.events import Loss
from relay.hub.intake import (
    LARGE_FRAME_BYTES,
    Head,
    Intake,
    may_be_read_here,
    read_head,
)
from relay.hub.reading import ReadingThread
from relay.ids import RequestId
from relay.protocol import Envelope, FrameError
from relay.testing.answers import Fragmented, Raw, Reply, Silence
from relay.testing.clock import FakeClock
from tests.hub.conftest import ORDERS, Bench, eventually
from tests.hub.paper import PaperLink, open_connection
from tests.hub.test_frames import PaddingRequest, find

SPAN = timedelta(seconds=30)
LARGE = "x" * LARGE_FRAME_BYTES


def message(request_id: str, text: str = "") -> bytes:
    reply = {"type": "padding", "request_id": request_id, "text": text}
    return json.dumps(reply).encode()


@dataclass(frozen=True)
class WatchedRequest(PaddingRequest):
    """A request that knows in which threads its reply was decoded."""

    threads: list[int] = field(default_factory=list)

    def decode_reply(self, frame: bytes) -> dict[str, Any]:
        self.threads.append(threading.get_ident())
        return super().decode_reply(frame)


class Desk:
    """An intake, and what came of it."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.threads: list[int] = []
        self.emptied = 0
        self.may_read = threading.Event()
        self.may_read.set()
        self.intake = Intake(self._take, self._empty, threads=None, read=self._read)

    def _take(self, frame: bytes, head: Head) -> None:
        del frame
        assert isinstance(head, Envelope)
        self.taken.append(head.request_id)

    def _empty(self) -> None:
        self.emptied += 1

    def _read(self, frame: bytes) -> Head:
        self.threads.append(threading.get_ident())
        assert self.may_read.wait(timeout=10)
        return read_head(frame)


async def test_head_of_a_large_message_is_read_in_another_thread() -> None:
    """And that of a small one behind it here, in its turn."""
    desk = Desk()

    desk.intake.add(message("1", LARGE))
    desk.intake.add(message("2"))
    assert desk.taken == []
    await eventually(lambda: desk.emptied)

    assert desk.taken == ["1", "2"]
    here = threading.get_ident()
    assert [thread == here for thread in desk.threads] == [False, True]


async def test_messages_are_handed_on_in_their_order() -> None:
    """However long the reading of each of them takes."""
    desk = Desk()
    expected = [str(number) for number in range(9)]

    for number in expected:
        desk.intake.add(message(number, LARGE if int(number) % 3 == 0 else ""))
    await eventually(lambda: desk.emptied)

    assert desk.taken == expected
    assert desk.emptied == 1


async def test_what_is_here_at_the_end_is_handed_on_in_the_same_turn() -> None:
    """The thread that still reads comes too late with its own result."""
    desk = Desk()
    desk.may_read.clear()
    desk.intake.add(message("1", LARGE))
    desk.intake.add(message("2", LARGE))
    await eventually(lambda: desk.threads)

    desk.may_read.set()
    desk.intake.finish()

    assert desk.taken == ["1", "2"]
    assert desk.threads[1:] == [threading.get_ident()] * 2
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    assert desk.taken == ["1", "2"]
    assert desk.emptied == 0


async def test_reading_that_has_not_begun_is_called_off_at_the_end() -> None:
    """A thread that reads for all sockets has others to read for."""
    thread, may_go_on = ReadingThread("reader"), threading.Event()
    thread.submit(may_go_on.wait, 10)
    taken: list[Head] = []
    readers: list[int] = []

    def read(frame: bytes) -> Head:
        readers.append(threading.get_ident())
        return read_head(frame)

    intake = Intake(
        lambda frame, head: taken.append(head),
        lambda: None,
        threads=thread,
        read=read,
    )
    intake.add(message("1", LARGE))
    intake.finish()
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    may_go_on.set()
    thread.shutdown()

    assert len(taken) == 1
    assert readers == [threading.get_ident()]


def test_unreadable_message_has_an_error_for_a_head() -> None:
    """It is taken in its turn like any other."""
    assert isinstance(read_head(b"garbage"), FrameError)


@pytest.mark.parametrize(("text", "is_here"), [("", True), (LARGE, False)])
async def test_large_reply_is_decoded_in_another_thread(
    bench: Bench, text: str, is_here: bool
) -> None:
    """A small one is not worth the way there and back."""
    request = WatchedRequest()
    async with await bench.connect(script={"padding": [Reply({"text": text})]}):
        reply = await find(bench).ask(request, SPAN)

    assert reply["text"] == text
    (thread,) = request.threads
    assert (thread == threading.get_ident()) is is_here


def list_rows(row: bytes, size_bytes: int) -> bytes:
    """A frame of about that size, full of equal rows."""
    count = size_bytes // (len(row) + 1)
    return b'{"type": "padding", "request_id": "1", "output": [%b]}' % b",".join(
        [row] * count
    )


ORDINARY_ROW = json.dumps(
    {f"Property{number}": "x" * 12 for number in range(25)}
    | {"Input": '{"args": [1, {"a": 2}], "kwargs": {}}'}
).encode()


@pytest.mark.parametrize(
    ("frame", "is_here"),
    [
        (list_rows(ORDINARY_ROW, 150 * len(ORDINARY_ROW)), True),
        (b'"%b"' % (b"x" * (LARGE_FRAME_BYTES - 10)), True),
        (list_rows(b"{}", 15_000), True),
        (list_rows(b"{}", 20_000), False),
        (list_rows(b'{"topic":[]}', 40_000), False),
        (list_rows(b"1", 30_000), True),
        (list_rows(b"1", 60_000), False),
        (list_rows(ORDINARY_ROW, LARGE_FRAME_BYTES), False),
    ],
)
def test_what_a_message_holds_decides_where_it_is_read(
    frame: bytes, is_here: bool
) -> None:
    """A thousand rows of nothing take longer than a page of a hundred workflows."""
    assert may_be_read_here(frame) is is_here


async def test_short_reply_of_very_many_rows_is_decoded_in_another_thread(
    bench: Bench,
) -> None:
    """It would stop everybody for a tenth of a second."""
    request = WatchedRequest()
    rows: list[Any] = [{}] * 20_000
    async with await bench.connect(script={"padding": [Reply({"output": rows})]}):
        await find(bench).ask(request, SPAN)

    (thread,) = request.threads
    assert thread != threading.get_ident()


async def test_all_sockets_share_one_thread(bench: Bench) -> None:
    """Several would take turns with the loop, and do no more together than one."""
    request = WatchedRequest()
    async with (
        await bench.connect(script={"padding": [Reply({"text": LARGE})]}),
        await bench.connect(
            executor_id="executor-2", script={"padding": [Reply({"text": LARGE})]}
        ),
    ):
        tasks = bench.hub.switchboard.tasks
        asking = [
            tasks.spawn(peer.ask(request, SPAN), name="ask")
            for peer in bench.hub.list_peers(ORDERS.id)
            for _ in range(3)
        ]
        for task in asking:
            await task

    assert len(request.threads) == 6
    assert len(set(request.threads)) == 1


async def test_peer_whose_large_message_waits_for_the_thread_is_not_silent(
    bench: Bench, clock: FakeClock
) -> None:
    """Nothing is read from its socket meanwhile, whatever it sends."""
    may_read = threading.Event()
    bench.hub.switchboard.reader.submit(may_read.wait, 10)
    async with await bench.connect(script={"padding": [Reply({"text": LARGE})]}):
        connection = find(bench)
        asking = bench.hub.switchboard.tasks.spawn(
            connection.ask(PaddingRequest(), 3 * SPAN), name="ask"
        )
        await eventually(lambda: connection.is_deaf)

        await clock.advance(2 * SPAN)

        assert bench.listener.departures == []
        may_read.set()
        assert (await asking)["text"] == LARGE
        assert not connection.is_deaf


async def test_reply_in_fragments_may_be_large(bench: Bench) -> None:
    """A character cut by their borders is whole again."""
    text = "äöü€" * LARGE_FRAME_BYTES
    async with await bench.connect(
        script={"padding": [Fragmented({"text": text}, pieces=7)]}
    ):
        reply = await find(bench).ask(PaddingRequest(), SPAN)

    assert reply["text"] == text


async def test_small_reply_behind_a_large_one_is_answered_too(bench: Bench) -> None:
    """Both came with one packet; afterwards the socket is read as before."""
    async with await bench.connect(script={"padding": [Silence()]}) as executor:
        connection = find(bench)
        tasks = bench.hub.switchboard.tasks
        asking = [
            tasks.spawn(connection.ask(PaddingRequest(), SPAN), name=f"ask {n}")
            for n in range(2)
        ]
        await executor.wait_for("padding", 2)
        first, second = executor.received("padding")

        executor.write(
            as_frame({**first, "text": LARGE}) + as_frame({**second, "text": "small"})
        )

        assert [(await task)["text"] for task in asking] == [LARGE, "small"]
        await executor.ping()


async def test_large_text_that_is_not_utf8_closes_the_socket(bench: Bench) -> None:
    """As a small one does."""
    executor = await bench.connect(
        script={"padding": [Raw(LARGE.encode() + b'{"type": "\xff"}')]}
    )

    with pytest.raises(ConnectionLostError) as failure:
        await find(bench).ask(PaddingRequest(), SPAN)

    await executor.wait_closed()
    assert failure.value.delivered
    assert executor.close_code == 1007
    assert bench.listener.departures[0].loss is Loss.PROTOCOL


async def test_large_reply_before_a_close_frame_is_an_answer(bench: Bench) -> None:
    """It had arrived whole when the connection ended."""
    executor = await bench.connect(script={"padding": [Silence()]})
    asking = bench.hub.switchboard.tasks.spawn(
        find(bench).ask(PaddingRequest(), SPAN), name="ask"
    )
    asked = await executor.wait_for("padding")

    executor.write(
        as_frame({**asked, "text": LARGE})
        + Frame(Opcode.CLOSE, b"").serialize(mask=True)
    )

    assert (await asking)["text"] == LARGE
    await executor.wait_closed()


class Paper:
    """A connection on paper that has been asked something."""

    def __init__(self, clock: FakeClock, reader: ReadingThread) -> None:
        self.link = PaperLink()
        self.connection: Connection = open_connection(self.link, clock, reader)

    def ask(self) -> "asyncio.Task[dict[str, Any]]":
        return asyncio.get_running_loop().create_task(
            self.connection.ask(PaddingRequest(), SPAN)
        )

    def answer(self, text: str) -> Callable[[], None]:
        request_id = RequestId(json.loads(self.link.sent[-1])["request_id"])
        return lambda: self.connection.receive(message(request_id, text))


@pytest.fixture
def paper(clock: FakeClock) -> Iterator[Paper]:
    """The thread that reads for it has ended when the test has."""
    reader = ReadingThread("paper")
    yield Paper(clock, reader)
    reader.shutdown(cancel_futures=True)


async def test_nothing_is_read_from_the_socket_while_a_large_message_is(
    paper: Paper, clock: FakeClock
) -> None:
    """An executor that sends faster than we read fills its own memory, not ours."""
    asking = paper.ask()
    await clock.settle()

    paper.answer(LARGE)()

    assert not paper.link.is_reading
    assert (await asking)["text"] == LARGE
    assert paper.link.is_reading


async def test_end_of_a_connection_lets_its_socket_be_read_again(
    paper: Paper, clock: FakeClock
) -> None:
    """Or nobody would see that the peer has closed it; the answer is one still."""
    asking = paper.ask()
    await clock.settle()
    paper.answer(LARGE)()

    paper.connection.end(Loss.CLOSED)

    assert paper.link.is_reading
    assert (await asking)["text"] == LARGE


async def test_small_message_does_not_stop_the_reading(
    paper: Paper, clock: FakeClock
) -> None:
    """It is taken in the turn in which it comes."""
    asking = paper.ask()
    await clock.settle()

    paper.answer("small")()

    assert paper.link.is_reading
    assert paper.connection.in_flight == 0
    await asking


async def test_large_message_that_nobody_waits_for_is_dropped(
    paper: Paper, clock: FakeClock
) -> None:
    """And the next one is read."""
    paper.connection.receive(message("unknown", LARGE))
    paper.connection.receive(LARGE.encode())
    await eventually(lambda: paper.link.is_reading)

    asking = paper.ask()
    await clock.settle()
    paper.answer(LARGE)()
    assert (await asking)["text"] == LARGE


@pytest.mark.parametrize(
    "place", ["relay.hub.intake.decode_envelope", "relay.hub.replies.Replies.settle"]
)
async def test_defect_in_taking_a_large_message_costs_the_connection(
    paper: Paper, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """In the thread and here: the log has it, and nobody waits for ever."""
    asking = paper.ask()
    await clock.settle()

    def fail(*_: object) -> bool:
        raise LookupError("a defect")

    monkeypatch.setattr(place, fail)
    with capture_logs() as logs:
        paper.answer(LARGE)()
        await eventually(lambda: paper.link.failures)
        paper.connection.end(Loss.FAILED)

    assert [entry["event"] for entry in logs] == ["frame_failed"]
    with pytest.raises(ConnectionLostError):
        await asking


async def test_defect_at_the_end_of_a_connection_keeps_nobody_waiting(
    paper: Paper, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with what had arrived."""
    asking = paper.ask()
    await clock.settle()

    def fail(*_: object) -> bool:
        raise LookupError("a defect")

    monkeypatch.setattr("relay.hub.intake.decode_envelope", fail)
    with capture_logs():
        paper.answer(LARGE)()
        paper.connection.end(Loss.RESET)

    with pytest.raises(ConnectionLostError):
        await asking


def as_frame(fields: dict[str, Any]) -> bytes:
    """One text frame as a client sends it."""
    return Frame(Opcode.TEXT, json.dumps(fields).encode()).serialize(mask=True)
