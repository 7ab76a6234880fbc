"""What `relay.hub.socket` relies on in uvicorn, on real sockets."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import uvloop
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from relay.clock import SystemClock
from relay.errors import ReplyTooLargeError
from relay.hub.events import Loss
from relay.hub.handshake import Refusal
from relay.hub.socket import RelayWebSocketProtocol
from relay.hub.web import RelayHttpProtocol
from relay.ids import ExecutorId
from relay.protocol.messages import RecoveryRequest
from relay.testing.answers import Huge
from relay.testing.clock import FakeClock
from tests.hub.conftest import (
    ADMITTED,
    PATIENCE,
    UPGRADE,
    Bench,
    eventually,
    executor_ref,
    knock,
    open_bench,
)


@pytest.fixture(params=[RelayHttpProtocol, "httptools", "h11"])
async def bench(
    request: pytest.FixtureRequest, clock: FakeClock
) -> AsyncIterator[Bench]:
    """A hub behind the protocol of ours, and each of uvicorn's."""
    async with open_bench(clock=clock, http=request.param) as opened:
        yield opened


def test_constructor_takes_what_uvicorn_gives() -> None:
    """Three keywords, by these names, and no other is required."""
    parameters = inspect.signature(RelayWebSocketProtocol).parameters

    assert list(parameters) == ["config", "server_state", "app_state"]
    for parser in (RelayHttpProtocol, HttpToolsProtocol, H11Protocol):
        names = inspect.signature(parser).parameters
        assert set(parameters) <= set(names)


def test_http_protocol_overrides_what_is_there() -> None:
    """A callback that uvicorn stopped using would never be called here either."""
    overridden = {
        name
        for name, thing in vars(RelayHttpProtocol).items()
        if inspect.isfunction(thing) and not name.startswith("_")
    }

    inherited = {name for name in overridden if hasattr(HttpToolsProtocol, name)}

    assert overridden - inherited == {"cut"}
    assert {"on_body", "on_message_complete"} <= vars(HttpToolsProtocol).keys()


async def test_startup_without_sockets_listens_to_nothing(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvicorn opens the application, and only the lobby accepts."""

    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("uvicorn listens by itself")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", refuse)

    async with open_bench(clock=clock) as bench:
        assert bench.server.lifespan.state["hub"] is bench.hub
        assert bench.server.servers == []
        async with await bench.connect():
            assert bench.hub.connection_count == 1


async def test_socket_is_handed_over_and_asked_who_it_is(bench: Bench) -> None:
    """An upgraded executor is on line with what it said about itself."""
    async with await bench.connect(
        executor_id="e-1", version="v7", metadata={"zone": "a"}
    ):
        (arrival,) = bench.listener.arrivals
        connection = bench.hub.find(executor_ref("e-1"))

        assert connection is not None
        assert arrival.connection_id == connection.id
        assert arrival.info.application_version == "v7"
        assert arrival.info.metadata == {"zone": "a"}
        assert arrival.peer_address == "127.0.0.1"
        assert arrival.key_name == "main"
        assert not arrival.is_collision
        assert len(bench.server.server_state.connections) == 1


async def test_request_and_reply_cross_the_socket(bench: Bench) -> None:
    """What is asked arrives at the executor, and its reply at the asker."""
    async with await bench.connect() as executor:
        connection = bench.hub.find(executor_ref())
        assert connection is not None

        reply = await connection.ask(
            RecoveryRequest((ExecutorId("dead-1"),)), timedelta(seconds=5)
        )

        assert reply.success
        (request,) = executor.received("recovery")
        assert request["executor_ids"] == ["dead-1"]


async def test_ping_is_seen_and_answered_with_its_payload(
    bench: Bench, clock: FakeClock
) -> None:
    """A ping is life, and its pong echoes it."""
    async with await bench.connect() as executor:
        await clock.advance(timedelta(seconds=3))

        await executor.ping(b"\x00\xff\x01\x02")

        connection = bench.hub.find(executor_ref())
        assert connection is not None
        assert connection.last_seen_at == clock.now()


async def test_http_is_served_on_the_same_port(bench: Bench) -> None:
    """A plain request with a body is none of ours."""
    headers = {"Host": "localhost", "Content-Length": "2", "Connection": "close"}
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
    lines = ["POST /echo HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join([*lines, "", "hi"]).encode())
    async with SystemClock().timeout(PATIENCE):
        response = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert response.startswith(b"HTTP/1.1 200")
    assert response.endswith(b'{"method":"POST","body":"hi"}')


async def test_http_request_to_the_socket_path_is_not_found(bench: Bench) -> None:
    """Without an upgrade, the path belongs to the HTTP application."""
    answer = await knock(
        bench,
        "/websocket/orders/key",
        {"Host": "localhost", "Connection": "close"},
    )

    assert answer.status == 404
    assert bench.gatekeeper.knocks == []


async def test_compression_is_never_negotiated(bench: Bench) -> None:
    """The offer that Python and TypeScript make is not taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
    lines = [
        "GET /websocket/orders/key HTTP/1.1",
        *(f"{k}: {v}" for k, v in UPGRADE.items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with SystemClock().timeout(PATIENCE):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()

    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"extensions" not in head.lower()


async def test_server_shutdown_closes_sockets_as_restarting(
    clock: FakeClock,
) -> None:
    """Peers read 1012, the loss is Relay's, and the server does not wait long."""
    async with open_bench(clock=clock) as bench:
        executor = await bench.connect()
        bench.server.should_exit = True

        await executor.wait_closed()

    (departure,) = bench.listener.departures
    assert executor.close_code == 1012
    assert departure.loss is Loss.DRAINED
    assert departure.is_fault
    assert bench.server.server_state.connections == set()


async def test_server_shutdown_refuses_who_waits_for_admission(
    clock: FakeClock,
) -> None:
    """A socket that is no connection yet gets a 503 and does not hold the server up."""
    async with open_bench(clock=clock) as bench:
        bench.gatekeeper.held.clear()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(knock(bench, "/websocket/orders/key"))
            await eventually(lambda: bench.gatekeeper.knocks)
            bench.server.should_exit = True

    assert waiting.result().status == 503
    assert bench.server.server_state.connections == set()


def test_contract_holds_on_uvloop() -> None:
    """The loop of production: asked, pinged, refused, given up, cut and drained."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_go_through_everything())


async def _go_through_everything() -> None:
    clock = FakeClock()
    async with open_bench(clock=clock, max_message_bytes=65_536) as bench:
        bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")
        assert (await knock(bench, "/websocket/orders/key")).status == 401
        bench.gatekeeper.verdict = ADMITTED
        losses = []

        executor = await bench.connect()
        connection = bench.hub.find(executor_ref())
        assert connection is not None
        order = RecoveryRequest((ExecutorId("dead-1"),))
        assert (await connection.ask(order, timedelta(seconds=5))).success
        await executor.ping(b"\x00\xff")
        executor.stop_reading()
        await clock.advance(timedelta(seconds=26))
        losses.append(Loss.SILENT)

        large = await bench.connect(script={"recovery": [Huge(70_000)]})
        connection = bench.hub.find(executor_ref())
        assert connection is not None
        with pytest.raises(ReplyTooLargeError):
            await connection.ask(order, timedelta(seconds=5))
        await large.wait_closed()
        losses.append(Loss.TOO_LARGE)

        last = await bench.connect()
        bench.server.should_exit = True
        await last.wait_closed()
        losses.append(Loss.DRAINED)

        told = [departure.loss for departure in bench.listener.departures]
        assert told == losses
        assert (large.close_code, last.close_code) == (1009, 1012)
        executor.abort()
    assert bench.server.server_state.connections == set()
