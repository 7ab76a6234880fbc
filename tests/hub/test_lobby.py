"""Between the listening socket and uvicorn."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from relay.hub.handshake import Refusal
from relay.hub.lobby import SILENCE_LIMIT, WAITING_LIMIT
from relay.hub.turnstile import PEER_LIMIT
from relay.ids import ApplicationId, AppName
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import Bench, eventually, executor_ref, knock, open_bench
from tests.hub.paper import count_by_turn
from tests.hub.raw import ECHO, RawClient, raw_client, upgrade_request
from tests.hub.test_upgrade import read_problem

SECOND = timedelta(seconds=1)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> int:
    """So few places that two sockets are a crowd."""
    monkeypatch.setattr("relay.hub.turnstile.PLACES", 2)
    return 2


@pytest.fixture
async def clients(bench: Bench) -> AsyncIterator[list[RawClient]]:
    """Five clients that ask for an upgrade, and then say nothing more."""
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(raw_client(bench.port)) for _ in range(5)
        ]
        for client in opened:
            client.send(upgrade_request())
        yield opened


async def test_upgrades_wait_when_it_is_crowded(
    places: int, clients: list[RawClient], bench: Bench, clock: FakeClock
) -> None:
    """They come in as places become free, which each does within a second."""
    hub, lobby = bench.hub, bench.server.lobby
    await eventually(lambda: hub.connection_count == places)
    await eventually(lambda: lobby.waiting_count == len(clients) - places)

    await clock.advance(PEER_LIMIT)

    await eventually(lambda: hub.connection_count == 2 * places)
    assert lobby.waiting_count == 1


async def test_who_waits_for_us_keeps_its_place(
    places: int, bench: Bench, clock: FakeClock
) -> None:
    """When decisions take long, more work to decide on would not help."""
    bench.gatekeeper.held.clear()
    async with AsyncExitStack() as stack:
        for _ in range(places + 1):
            client = await stack.enter_async_context(raw_client(bench.port))
            client.send(upgrade_request())
        await eventually(lambda: len(bench.gatekeeper.knocks) == places)

        await clock.advance(2 * PEER_LIMIT)

        assert bench.server.lobby.waiting_count == 1
        assert len(bench.gatekeeper.knocks) == places


async def test_a_crowd_is_accepted_and_let_in_in_portions(
    bench: Bench, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many dial at once, a turn of the loop stays short."""
    monkeypatch.setattr("relay.hub.lobby.ACCEPTED_PER_TURN", 3)
    monkeypatch.setattr("relay.hub.lobby.LET_IN_PER_TURN", 2)
    monkeypatch.setattr("relay.hub.turnstile.PLACES", 0)
    lobby, turnstile = bench.server.lobby, bench.hub.switchboard.turnstile
    accepted: list[int] = []
    let_in: list[int] = []
    async with AsyncExitStack() as stack, TaskSet("count") as tasks:
        counting = tasks.spawn(
            count_by_turn(lambda: lobby.waiting_count, accepted, clock), name="count"
        )
        for _ in range(10):
            # Not through the loop: they are all there in one turn of it.
            client = socket.create_connection(("127.0.0.1", bench.port))
            stack.callback(client.close)
            client.sendall(upgrade_request())
        await eventually(lambda: lobby.waiting_count == 10)
        counting.cancel()
        assert max(accepted) <= 3

        monkeypatch.setattr("relay.hub.turnstile.PLACES", 20)
        tasks.spawn(
            count_by_turn(lambda: lobby.waiting_count, let_in, clock), name="count"
        )
        turnstile.enter(lobby)
        turnstile.leave(lobby)
        await eventually(lambda: bench.hub.connection_count == 10)

    assert sum(let_in) == 10
    assert max(let_in) <= 2


async def test_who_has_gone_is_not_let_in(
    places: int, clients: list[RawClient], bench: Bench, clock: FakeClock
) -> None:
    """Its client dials anew; the old socket would only be work."""
    hub, lobby = bench.hub, bench.server.lobby
    await eventually(lambda: lobby.waiting_count == len(clients) - places)
    await eventually(lambda: hub.connection_count == places)
    clients[-1].end()
    clients[-2].reset()

    await clock.advance(PEER_LIMIT)

    await eventually(lambda: hub.connection_count == places + 1)
    assert lobby.waiting_count == 0
    assert bench.sample("relay_sockets_turned_away_total", reason="gone") == 2


async def test_who_goes_while_it_is_decided_on_is_no_connection(bench: Bench) -> None:
    """Nobody reads from it meanwhile, so that it has to be asked."""
    bench.gatekeeper.held.clear()
    async with raw_client(bench.port) as client:
        client.send(upgrade_request())
        await eventually(lambda: bench.gatekeeper.knocks)
        client.end()

        bench.gatekeeper.held.set()

        assert await client.read_all() == b""
    assert bench.sample("relay_upgrades_total", outcome="gone") == 1
    await eventually(lambda: not bench.hub.switchboard.links)


async def test_who_waits_may_be_of_any_application(
    places: int, clients: list[RawClient], bench: Bench, clock: FakeClock
) -> None:
    """No deadline is judged over somebody who has come back and stands in the line."""
    others = replace(
        executor_ref().application, id=ApplicationId("others"), name=AppName("others")
    )
    await eventually(lambda: bench.server.lobby.waiting_count)
    assert bench.hub.is_handshaking(others)
    assert not bench.hub.is_anybody_arriving(others)

    await clock.advance(WAITING_LIMIT)

    await eventually(lambda: not bench.server.lobby.waiting_count)
    assert not bench.hub.is_handshaking(others)


async def test_nobody_on_the_way_in_is_overlooked(
    bench: Bench, clock: FakeClock
) -> None:
    """From the line in the lobby to its arrival, in every turn of the loop."""
    lobby, ref = bench.server.lobby, executor_ref()
    overlooked: list[int] = []

    async def watch() -> None:
        turn = 0
        while not bench.hub.is_online(ref):
            if not bench.hub.is_handshaking(ref.application):
                overlooked.append(turn)
            await clock.sleep(timedelta(0))
            turn += 1

    # Not through the loop: it stands in the line when the watch begins.
    bench.gatekeeper.held.clear()
    async with TaskSet("test") as tasks:
        dialling = tasks.spawn(
            FakeExecutor.connect(bench.url, executor_id=ref.executor_id), name="dial"
        )
        while not lobby.waiting_count:
            await clock.sleep(timedelta(0))
        watching = tasks.spawn(watch(), name="watch")
        await eventually(lambda: bench.gatekeeper.knocks)
        bench.gatekeeper.held.set()
        await watching
        async with await dialling:
            assert overlooked == []
            assert not bench.hub.is_handshaking(ref.application)


async def test_http_comes_in_at_once(
    places: int, clients: list[RawClient], bench: Bench
) -> None:
    """An operator looks what is the matter while the crowd waits."""
    lobby = bench.server.lobby
    await eventually(lambda: lobby.waiting_count == len(clients) - places)

    async with raw_client(bench.port) as operator:
        operator.send(ECHO)

        assert (await operator.read_head()).startswith(b"HTTP/1.1 200")
    assert lobby.waiting_count == len(clients) - places


async def test_who_waits_too_long_is_refused(
    bench: Bench, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it gives up by itself, with a reason, and nobody was asked about it."""
    monkeypatch.setattr("relay.hub.turnstile.PLACES", 0)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(knock(bench, "/websocket/orders/key"))
        await eventually(lambda: bench.server.lobby.waiting_count == 1)

        await clock.advance(WAITING_LIMIT)

    answer = waiting.result()
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert "too many executors" in str(read_problem(answer)["detail"])
    assert bench.gatekeeper.knocks == []
    assert bench.sample("relay_sockets_turned_away_total", reason="crowded") == 1


async def test_a_finished_handshake_lets_the_next_one_in(
    places: int, bench: Bench
) -> None:
    """No time has to pass for a crowd to come on line; its places are empty then."""
    async with AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as tasks:
            dialling = [
                tasks.create_task(
                    FakeExecutor.connect(bench.url, executor_id=f"e-{number}")
                )
                for number in range(10 * places)
            ]
        for dialled in dialling:
            await stack.enter_async_context(dialled.result())

        await eventually(lambda: len(bench.listener.arrivals) == 10 * places)
        assert bench.hub.switchboard.turnstile.room == places


@pytest.mark.parametrize("end", ["refused", "reset"])
async def test_who_fails_gives_its_place_back(
    places: int, bench: Bench, end: str
) -> None:
    """Whatever becomes of a socket, the next one comes in without a delay."""
    bench.gatekeeper.held.clear()
    async with AsyncExitStack() as stack:
        for _ in range(2 * places):
            client = await stack.enter_async_context(raw_client(bench.port))
            client.send(upgrade_request())
            if end == "reset":
                await eventually(lambda: bench.hub.switchboard.links)
                client.reset()
        if end == "refused":
            bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")

        bench.gatekeeper.held.set()

        await eventually(lambda: not bench.hub.switchboard.links)
        await eventually(lambda: not bench.server.lobby.waiting_count)
        turnstile = bench.hub.switchboard.turnstile
        await eventually(lambda: turnstile.room == places)


async def test_silent_sockets_keep_nobody_out(bench: Bench, clock: FakeClock) -> None:
    """A thousand of them are dropped in time, and cost no protocol meanwhile."""
    silent = [socket.create_connection(("127.0.0.1", bench.port)) for _ in range(1000)]
    try:
        async with await bench.connect():
            await clock.advance(SILENCE_LIMIT - SECOND)
            assert len(bench.server.server_state.connections) == 1
            assert bench.sample("relay_sockets_turned_away_total", reason="silent") == 0

            await clock.advance(2 * SECOND)

            assert (
                bench.sample("relay_sockets_turned_away_total", reason="silent") == 1000
            )
            assert bench.hub.connection_count == 1
        assert {one.recv(1) for one in silent} == {b""}
    finally:
        for one in silent:
            one.close()


async def test_first_byte_may_come_late(bench: Bench, clock: FakeClock) -> None:
    """Within the limit everybody is served."""
    async with raw_client(bench.port) as client:
        await clock.advance(SILENCE_LIMIT - SECOND)
        client.send(ECHO)

        assert (await client.read_head()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("end", ["closed", "reset"])
async def test_silent_socket_may_go(bench: Bench, clock: FakeClock, end: str) -> None:
    """A port scanner leaves nothing behind, and is not counted later."""
    async with raw_client(bench.port) as client:
        await clock.settle()
        if end == "reset":
            client.reset()

    async with await bench.connect():
        await clock.advance(2 * SILENCE_LIMIT)
    assert bench.sample("relay_sockets_turned_away_total", reason="silent") == 0


async def test_upgrade_in_small_pieces_is_one(bench: Bench) -> None:
    """Its first bytes do not look like an upgrade, and it comes in all the same."""
    async with raw_client(bench.port) as client:
        for byte in upgrade_request():
            client.send(bytes([byte]))
            await client.writer.drain()

        assert (await client.read_head()).startswith(b"HTTP/1.1 101 ")


async def test_closing_refuses_who_waits(
    places: int, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a reason, and nobody can connect any more."""
    async with AsyncExitStack() as stack:
        async with open_bench(clock=clock) as bench:
            monkeypatch.setattr("relay.hub.turnstile.PLACES", 0)
            client = await stack.enter_async_context(raw_client(bench.port))
            silent = await stack.enter_async_context(raw_client(bench.port))
            client.send(upgrade_request())
            await eventually(lambda: bench.server.lobby.waiting_count == 1)
        answer = await client.read_all()

        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"stopping" in answer
        assert await silent.read_all() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", bench.port)
