"""HTTP clients that keep the server waiting."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from relay.hub.callers import PROGRESS_BYTES, REQUEST_LIMIT, UNREAD_LIMIT
from relay.hub.web import RelayHttpProtocol
from relay.launch.web import LAST_CALL
from relay.testing.clock import FakeClock
from tests.hub.conftest import Bench, eventually, open_bench
from tests.hub.raw import ECHO, RawClient, raw_client

SECOND = timedelta(seconds=1)
LARGE = 32 * 1024 * 1024
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


class Desk:
    """Answers when the test says so, and with more than the system buffers."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.is_asked = asyncio.Event()

    async def wait(self, request: Request) -> Response:
        del request
        self.is_asked.set()
        await self.may_answer.wait()
        return PlainTextResponse("at last")

    async def give_all(self, request: Request) -> Response:
        del request
        return PlainTextResponse("x" * LARGE)


@pytest.fixture
def desk() -> Desk:
    """What the clients here ask."""
    return Desk()


@pytest.fixture
async def bench(clock: FakeClock, desk: Desk) -> AsyncIterator[Bench]:
    """A hub beside two slow routes."""
    routes = [Route("/wait", desk.wait), Route("/large", desk.give_all)]
    async with open_bench(clock=clock, routes=routes) as opened:
        yield opened
        desk.may_answer.set()


@pytest.fixture
async def client(bench: Bench) -> AsyncIterator[RawClient]:
    """A connection of which every byte is the test's."""
    async with raw_client(bench.port) as opened:
        yield opened


def count(bench: Bench, reason: str) -> float:
    """How many sockets were cut for that reason."""
    return bench.sample("relay_sockets_turned_away_total", reason=reason)


async def until_open(bench: Bench, callers: int = 1) -> None:
    """Wait until so many HTTP connections are there."""
    await eventually(lambda: len(bench.hub.switchboard.callers) == callers)


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /ec",
        b"GET /echo HTTP/1.1\r\nHost: localhost\r\n",
        POST % 10 + b"half",
        b"\r\n",
    ],
    ids=["line", "head", "body", "nothing but a line break"],
)
async def test_unfinished_request_is_cut(
    bench: Bench, clock: FakeClock, client: RawClient, begun: bytes
) -> None:
    """Ten seconds are enough for a request, whatever part of it is missing."""
    client.send(ECHO)
    await client.read_head()
    client.send(begun)
    (caller,) = bench.server.server_state.connections
    assert isinstance(caller, RelayHttpProtocol)
    await eventually(lambda: caller.asking_since is not None)
    await clock.advance(REQUEST_LIMIT - 2 * SECOND)
    assert count(bench, "silent") == 0

    await clock.advance(3 * SECOND)

    await client.read_all()
    assert count(bench, "silent") == 1
    await until_open(bench, 0)
    assert not bench.server.server_state.connections


async def test_large_body_may_take_its_time(
    bench: Bench, clock: FakeClock, client: RawClient
) -> None:
    """As long as it goes on coming."""
    pieces = 4
    client.send(POST % (pieces * PROGRESS_BYTES))
    for _ in range(pieces):
        client.send(b"x" * PROGRESS_BYTES)
        await client.writer.drain()
        await clock.advance(REQUEST_LIMIT * 0.7)

    assert (await client.read_head()).startswith(b"HTTP/1.1 200")
    assert count(bench, "silent") == 0


async def test_answer_may_take_its_time(
    bench: Bench, clock: FakeClock, client: RawClient, desk: Desk
) -> None:
    """Then it is the client who waits, and for executors it may be minutes."""
    client.send(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await desk.is_asked.wait()

    await clock.advance(20 * REQUEST_LIMIT)

    desk.may_answer.set()
    assert (await client.read_head()).startswith(b"HTTP/1.1 200")
    assert count(bench, "silent") == 0


@pytest.mark.parametrize(
    "stray",
    [b"\r\n", b"GET /ec", b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["line break", "half a request", "whole request"],
)
async def test_stray_bytes_do_not_hurry_an_answer(
    bench: Bench, clock: FakeClock, client: RawClient, desk: Desk, stray: bytes
) -> None:
    """A line break after a body, or the next request: both may come too early."""
    client.send(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await desk.is_asked.wait()
    client.send(stray)
    await client.writer.drain()
    await clock.settle()

    await clock.advance(20 * REQUEST_LIMIT)

    assert count(bench, "silent") == 0
    desk.may_answer.set()
    assert (await client.read_head()).startswith(b"HTTP/1.1 200")


async def test_unfinished_pipelined_request_is_cut(
    bench: Bench, clock: FakeClock, client: RawClient, desk: Desk
) -> None:
    """Its time begins when the answer before it is given."""
    client.send(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n" + POST % 10)
    await desk.is_asked.wait()
    await clock.advance(2 * REQUEST_LIMIT)
    desk.may_answer.set()
    await client.read_head()
    await clock.advance(REQUEST_LIMIT - 2 * SECOND)
    assert count(bench, "silent") == 0

    await clock.advance(3 * SECOND)

    await client.read_all()
    assert count(bench, "silent") == 1


async def test_idle_connection_is_left_to_uvicorn(
    bench: Bench, clock: FakeClock, client: RawClient
) -> None:
    """It closes what is idle between two requests, by its own clock."""
    client.send(ECHO)
    await client.read_head()

    await clock.advance(3 * REQUEST_LIMIT)

    client.send(ECHO)
    assert b"200 OK" in await client.read_head()


def connect_thinly(port: int) -> socket.socket:
    """A client whose system takes little for it."""
    thin = socket.socket()
    thin.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    thin.connect(("127.0.0.1", port))
    thin.setblocking(False)
    return thin


async def test_client_that_does_not_read_is_cut(bench: Bench, clock: FakeClock) -> None:
    """It would hold its answer in memory, and a descriptor, for ever."""
    with connect_thinly(bench.port) as thin:
        thin.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until_open(bench)
        await clock.advance(UNREAD_LIMIT)
        assert count(bench, "slow_reader") == 0

        await clock.advance(3 * SECOND)

        assert count(bench, "slow_reader") == 1
        await until_open(bench, 0)


async def test_client_that_reads_slowly_is_kept(bench: Bench, clock: FakeClock) -> None:
    """A long answer over a thin line takes its time."""
    with connect_thinly(bench.port) as thin:
        thin.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        loop = asyncio.get_running_loop()
        received = 0
        while received < LARGE // 2:
            for _ in range(64):
                received += len(await loop.sock_recv(thin, 64 * 1024))
            await clock.advance(UNREAD_LIMIT * 0.6)
        assert count(bench, "slow_reader") == 0


async def test_standstill_of_ours_cuts_nobody(
    bench: Bench, clock: FakeClock, client: RawClient
) -> None:
    """What would have saved the client may lie unread."""
    client.send(b"GET /ec")
    await until_open(bench)
    clock.jump(2 * REQUEST_LIMIT)

    await clock.advance(SECOND / 2)
    client.send(b"ho HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert (await client.read_head()).startswith(b"HTTP/1.1 200")
    assert count(bench, "silent") == 0


async def test_executor_is_no_caller(bench: Bench, clock: FakeClock) -> None:
    """After the upgrade its socket is the hub's to watch."""
    async with await bench.connect():
        assert len(bench.hub.switchboard.callers) == 0

        await clock.advance(2 * REQUEST_LIMIT)

        assert bench.hub.connection_count == 1


async def test_stopping_server_cuts_who_keeps_it_waiting(
    clock: FakeClock, desk: Desk
) -> None:
    """Clients have a few seconds to ask, and to read; then the server goes."""
    routes = [Route("/large", desk.give_all)]
    async with open_bench(clock=clock, routes=routes) as bench:
        with connect_thinly(bench.port) as thin:
            thin.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with raw_client(bench.port) as client:
                client.send(POST % 10 + b"half")
                await until_open(bench, 2)
                await eventually(lambda: bench.server.server_state.tasks)

                bench.server.should_exit = True
                await eventually(lambda: bench.hub.is_draining)
                await clock.advance(LAST_CALL)

                await until_open(bench, 0)
