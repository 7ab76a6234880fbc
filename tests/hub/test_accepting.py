"""When sockets cannot be accepted, or only few more can."""

import asyncio
import errno
import socket
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.hub.descriptors import WARNING_SPAN, Ceilings, Descriptors
from relay.hub.lobby import Lobby
from relay.hub.turnstile import Turnstile
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.hub.conftest import Bench, eventually, knock
from tests.hub.raw import ECHO, raw_client
from tests.hub.test_upgrade import read_problem

SECOND = timedelta(seconds=1)


class Exhausted(socket.socket):
    """A listener from which nothing can be accepted."""

    attempts = 0
    error = errno.EMFILE

    def accept(self) -> tuple[socket.socket, object]:
        self.attempts += 1
        raise OSError(self.error, "no more")


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENETDOWN])
async def test_accept_that_fails_is_left_alone_for_a_moment(
    clock: FakeClock, error: int
) -> None:
    """The client stays in the queue; trying again at once would be a busy loop."""
    metrics = Metrics()
    with Exhausted() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.error = error
        lobby = Lobby(
            [listener],
            make_protocol=asyncio.Protocol,
            turnstile=Turnstile(clock),
            descriptors=Descriptors(Ceilings.below(1024), clock, metrics),
            clock=clock,
            metrics=metrics,
        )
        lobby.open()
        async with raw_client(listener.getsockname()[1]):
            await eventually(lambda: listener.attempts)
            for _ in range(20):
                await clock.settle()
            assert listener.attempts == 1

            await clock.advance(SECOND)
            await eventually(lambda: listener.attempts == 2)
        await lobby.close()


async def test_closing_forgets_a_listener_that_was_left_alone(
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its moment may be over while the last socket is still being handed over."""
    metrics = Metrics()
    may_go_on = asyncio.Event()

    async def be_slow(_: object, arrived: socket.socket) -> None:
        await may_go_on.wait()
        arrived.close()

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", be_slow)
    made: list[asyncio.Protocol] = []

    def make_protocol() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    with Exhausted() as exhausted, socket.socket() as listener:
        for each in (exhausted, listener):
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (exhausted, listener)]
        lobby = Lobby(
            [exhausted, listener],
            make_protocol=make_protocol,
            turnstile=Turnstile(clock),
            descriptors=Descriptors(Ceilings.below(1024), clock, metrics),
            clock=clock,
            metrics=metrics,
        )
        lobby.open()
        async with raw_client(ports[0]), raw_client(ports[1]) as client:
            await eventually(lambda: exhausted.attempts)
            client.send(ECHO)
            await eventually(lambda: made)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(lobby.close())
                await eventually(lambda: exhausted.fileno() < 0)
                await clock.advance(SECOND)
                await clock.settle()
                may_go_on.set()

    assert exhausted.attempts == 1
    assert "task_failed" not in caplog.messages


async def test_near_the_limit_of_descriptors_executors_are_refused(
    bench: Bench,
) -> None:
    """The rest is for the database, for files and for the operator."""
    descriptors = bench.hub.switchboard.descriptors
    descriptors.ceilings = Ceilings(upgrade=0, any_socket=1_000_000)

    answer = await knock(bench, "/websocket/orders/key")

    assert answer.status == 503
    assert "limit of open files" in str(read_problem(answer)["detail"])
    assert bench.gatekeeper.knocks == []
    assert bench.sample("relay_sockets_turned_away_total", reason="descriptors") == 1
    async with raw_client(bench.port) as operator:
        operator.send(ECHO)
        assert (await operator.read_head()).startswith(b"HTTP/1.1 200")


async def test_still_nearer_everybody_is_refused(
    bench: Bench, clock: FakeClock
) -> None:
    """Quickly, without a protocol, and the log says so once a minute."""
    bench.hub.switchboard.descriptors.ceilings = Ceilings(upgrade=0, any_socket=0)
    with capture_logs() as logs:
        for _ in range(3):
            assert (await knock(bench, "/websocket/orders/key")).status == 503
        await clock.advance(WARNING_SPAN)
        assert (await knock(bench, "/echo")).status == 503

    ran_out = [line for line in logs if line["event"] == "descriptors_ran_out"]
    assert [line["refused_sockets"] for line in ran_out] == [1, 3]
    assert bench.sample("relay_sockets_turned_away_total", reason="descriptors") == 4
    assert not bench.server.server_state.connections


@pytest.mark.parametrize(
    ("limit", "upgrade", "any_socket"),
    [(256, 192, 224), (1024, 768, 896), (20_000, 19_500, 19_750)],
)
def test_reserve_fits_the_limit(limit: int, upgrade: int, any_socket: int) -> None:
    """A quarter of a small limit, a fixed number of a large one."""
    assert Ceilings.below(limit) == Ceilings(upgrade, any_socket)


def test_limit_may_be_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinity is a negative number here."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))

    assert Ceilings.of_this_process().upgrade > 1_000_000
