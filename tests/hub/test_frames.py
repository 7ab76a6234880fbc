"""What an executor can put on the wire, and what becomes of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from websockets.frames import Frame, Opcode

from relay.errors import (
    ConnectionLostError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
)
from relay.hub.connection import Connection
from relay.hub.events import Loss
from relay.ids import ExecutorId
from relay.protocol.messages import RecoveryRequest
from relay.testing.answers import (
    Answer,
    Binary,
    Fragmented,
    Hangup,
    Huge,
    Raw,
    Reply,
    Silence,
    WrongId,
    WrongType,
)
from relay.testing.clock import FakeClock
from tests.hub.conftest import Bench, eventually, executor_ref, open_bench

ORDER = RecoveryRequest((ExecutorId("dead-1"),))
SPAN = timedelta(seconds=30)


@dataclass(frozen=True)
class PaddingRequest:
    """A request as large as a test wants; its reply is the whole frame."""

    message_type: ClassVar[str] = "padding"
    pad: str = field(default="x")

    def fields(self) -> Mapping[str, object]:
        return {"pad": self.pad}

    def decode_reply(self, frame: bytes) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(frame)
        return decoded


def find(bench: Bench) -> Connection:
    """The connection of the one executor."""
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    return connection


async def test_fragmented_reply_is_put_together(bench: Bench) -> None:
    """Java cuts its replies; a cut may lie within a character."""
    async with await bench.connect() as executor:
        text = "äöü€" * 20_000
        executor.script("padding", Fragmented({"text": text}, pieces=7))

        reply = await find(bench).ask(PaddingRequest(), SPAN)

        assert reply["text"] == text


async def test_character_cut_between_fragments_is_no_error(bench: Bench) -> None:
    """Only the whole message has to be UTF-8."""
    async with await bench.connect() as executor:
        executor.script("padding", Silence())
        connection = find(bench)

        async def answer() -> None:
            asked = await executor.wait_for("padding")
            text = json.dumps({**asked, "text": "€"}, ensure_ascii=False).encode()
            cut = text.index("€".encode()) + 1
            first = Frame(Opcode.TEXT, text[:cut], fin=False)
            second = Frame(Opcode.CONT, text[cut:])
            ping = Frame(Opcode.PING, b"between")
            for frame in (first, ping, second):
                executor.write(frame.serialize(mask=True))

        replying = bench.hub.switchboard.tasks.spawn(answer(), name="answer")
        reply = await connection.ask(PaddingRequest(), SPAN)

        assert reply["text"] == "€"
        await replying


@pytest.mark.parametrize("answer", [Huge(70_000), Fragmented({"x": "y" * 70_000}, 9)])
async def test_reply_beyond_the_limit_closes_the_socket(
    clock: FakeClock, answer: Answer
) -> None:
    """In one frame or in many: close code 1009, and the asker learns the setting."""
    async with open_bench(clock=clock, max_message_bytes=65_536) as bench:
        executor = await bench.connect(script={"padding": [answer]})

        with pytest.raises(ReplyTooLargeError, match="RELAY_MAX_MESSAGE_BYTES"):
            await find(bench).ask(PaddingRequest(), SPAN)

        await executor.wait_closed()
        (departure,) = bench.listener.departures
        assert executor.close_code == 1009
        assert departure.loss is Loss.TOO_LARGE
        assert departure.close_code == 1009
        assert departure.is_fault


async def test_request_waiting_behind_a_too_large_reply_is_only_lost(
    clock: FakeClock,
) -> None:
    """What was never sent cannot have been the cause, and may be asked elsewhere."""
    async with open_bench(clock=clock, max_message_bytes=65_536) as bench:
        executor = await bench.connect(
            language="go", dbos_version="1.2.0", script={"padding": [Silence()]}
        )
        connection = find(bench)
        tasks = bench.hub.switchboard.tasks
        sent = tasks.spawn(connection.ask(PaddingRequest(), SPAN), name="sent")
        waiting = tasks.spawn(connection.ask(ORDER, SPAN), name="waiting")
        await executor.wait_for("padding")

        executor.write(Frame(Opcode.TEXT, b"x" * 70_000).serialize(mask=True))

        with pytest.raises(ReplyTooLargeError):
            await sent
        with pytest.raises(ConnectionLostError) as failure:
            await waiting
        assert not failure.value.delivered
        await executor.wait_closed()


async def test_text_that_is_not_utf8_closes_the_socket(bench: Bench) -> None:
    """Close code 1007; whoever waits may ask another executor."""
    executor = await bench.connect(script={"padding": [Raw(b'{"type": "\xff"}')]})

    with pytest.raises(ConnectionLostError) as failure:
        await find(bench).ask(PaddingRequest(), SPAN)

    await executor.wait_closed()
    assert failure.value.delivered
    assert executor.close_code == 1007
    assert bench.listener.departures[0].loss is Loss.PROTOCOL


async def test_broken_frame_closes_the_socket(bench: Bench) -> None:
    """A frame that breaks the protocol ends the connection, not the server."""
    executor = await bench.connect()

    executor.write(Frame(Opcode.TEXT, b"{}").serialize(mask=False))

    await executor.wait_closed()
    assert executor.close_code == 1002
    assert bench.listener.departures[0].loss is Loss.PROTOCOL


@pytest.mark.parametrize(
    "stray",
    [
        Raw("garbage"),
        Raw("[]"),
        Raw(""),
        Raw('{"type": "recovery"}'),
        WrongId({"success": True}),
        Binary(b"\x00\x01"),
    ],
)
async def test_frame_that_nobody_waits_for_is_counted_and_dropped(
    bench: Bench, stray: Answer
) -> None:
    """The request stays open, the socket too, and the frame counts as life only."""
    async with await bench.connect(script={"recovery": [stray]}) as executor:
        connection = find(bench)
        asking = bench.hub.switchboard.tasks.spawn(
            connection.ask(ORDER, SPAN), name="ask"
        )
        await eventually(lambda: bench.sample("relay_replies_dropped_total") == 1)

        assert not asking.done()
        assert connection.in_flight == 1
        asked = await executor.wait_for("recovery")
        executor.write(
            Frame(
                Opcode.TEXT, json.dumps({**asked, "success": True}).encode()
            ).serialize(mask=True)
        )
        assert (await asking).success


async def test_reply_of_another_type_fails_its_request(bench: Bench) -> None:
    """A known id with the wrong type is an answer, and no usable one."""
    async with await bench.connect(
        script={"recovery": [WrongType("retention"), Reply({"success": True})]}
    ):
        connection = find(bench)

        with pytest.raises(ReplyInvalidError, match="another type"):
            await connection.ask(ORDER, SPAN)

        assert (await connection.ask(ORDER, SPAN)).success


async def test_close_frame_of_the_peer_is_told(bench: Bench) -> None:
    """Its code and its reason, made printable; it is no fault of Relay."""
    executor = await bench.connect()

    await executor.close(4001, "going\x00 home\n")

    await eventually(lambda: bench.listener.departures)
    (departure,) = bench.listener.departures
    assert executor.close_code == 4001
    assert departure.loss is Loss.CLOSED
    assert departure.close_code == 4001
    assert (
        departure.close_reason
        == "going\N{REPLACEMENT CHARACTER} home\N{REPLACEMENT CHARACTER}"
    )
    assert not departure.is_fault


async def test_reset_is_told_without_a_code(bench: Bench) -> None:
    """A connection that ends without a close frame has neither code nor reason."""
    executor = await bench.connect()

    executor.abort()

    await eventually(lambda: bench.listener.departures)
    (departure,) = bench.listener.departures
    assert (departure.loss, departure.close_code) == (Loss.RESET, None)
    assert departure.close_reason == ""
    assert not departure.is_fault


@pytest.mark.parametrize("hangup", [Hangup(), Hangup(1000), Hangup(1011, "oops")])
async def test_request_in_flight_fails_with_the_socket(
    bench: Bench, hangup: Hangup
) -> None:
    """The asker learns that the frame had left."""
    await bench.connect(script={"recovery": [hangup]})

    with pytest.raises(ConnectionLostError) as failure:
        await find(bench).ask(ORDER, SPAN)

    assert failure.value.delivered
    assert not bench.hub.is_online(executor_ref())


async def test_reply_and_close_in_one_packet_are_both_heard(bench: Bench) -> None:
    """The last reply before the close frame reaches its asker."""
    executor = await bench.connect(
        language="go", dbos_version="1.2.0", script={"recovery": [Silence()]}
    )
    connection = find(bench)
    tasks = bench.hub.switchboard.tasks
    first = tasks.spawn(connection.ask(ORDER, SPAN), name="first")
    second = tasks.spawn(connection.ask(ORDER, SPAN), name="second")
    asked = await executor.wait_for("recovery")
    reply = json.dumps({**asked, "success": True}).encode()

    executor.write(
        Frame(Opcode.TEXT, reply).serialize(mask=True)
        + Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=True)
    )

    assert (await first).success
    with pytest.raises(ConnectionLostError) as failure:
        await second
    assert not failure.value.delivered
    await executor.wait_closed()


async def test_defect_in_a_handler_ends_one_connection_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others, and the server, go on."""
    first = await bench.connect(executor_id="e-1")
    async with await bench.connect(executor_id="e-2"):

        def fail(connection: Connection, frame: bytes) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(Connection, "receive", fail)
        first.write(Frame(Opcode.TEXT, b"{}").serialize(mask=True))
        await first.wait_closed()

        assert first.close_code == 1011
        assert bench.listener.departures[0].loss is Loss.FAILED
        assert bench.hub.is_online(executor_ref("e-2"))


async def test_large_request_reaches_the_executor_whole(bench: Bench) -> None:
    """A frame beyond the write buffer's mark is not taken for a peer not reading."""
    async with await bench.connect(script={"padding": [Reply()]}) as executor:
        pad = "x" * 8_000_000

        await find(bench).ask(PaddingRequest(pad), SPAN)

        assert executor.received("padding")[0]["pad"] == pad


async def test_reply_after_the_timeout_is_dropped(
    bench: Bench, clock: FakeClock
) -> None:
    """It is late for its asker, and it belongs to nobody else."""
    async with await bench.connect(script={"recovery": [Silence()]}) as executor:
        asking = bench.hub.switchboard.tasks.spawn(
            _expect_timeout(find(bench)), name="ask"
        )
        asked = await executor.wait_for("recovery")
        await clock.advance(timedelta(seconds=5))
        await asking

        reply = json.dumps({**asked, "success": True}).encode()
        executor.write(Frame(Opcode.TEXT, reply).serialize(mask=True))

        await eventually(lambda: find(bench).in_flight == 0)


async def _expect_timeout(connection: Connection) -> None:
    with pytest.raises(ReplyTimeoutError) as failure:
        await connection.ask(ORDER, timedelta(seconds=5))
    assert failure.value.delivered
