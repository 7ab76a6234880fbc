"""Ending in portions, so that the loop does other things in between."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

from relay.clock import SystemClock
from relay.hub.hub import Hub
from relay.hub.partings import ENDED_PER_TURN, Partings
from relay.hub.socket import RelayWebSocketProtocol
from relay.settings import RelaySettings
from relay.tasks import TaskSet
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.fuzz.stage import MemoryTransport
from tests.hub.paper import count_by_turn


class Transport:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


async def turn() -> None:
    """Let the loop run once what is ready."""
    await SystemClock().sleep(timedelta(0))


async def test_a_crowd_is_closed_in_portions_in_the_order_of_its_coming() -> None:
    partings = Partings()
    crowd = [Transport() for _ in range(3 * ENDED_PER_TURN + 1)]
    for transport in crowd:
        partings.add(transport.close)
    assert not any(transport.closed for transport in crowd)

    for portion in range(1, 4):
        await turn()
        closed = [transport.closed for transport in crowd]
        assert closed == sorted(closed, reverse=True)
        assert sum(closed) == portion * ENDED_PER_TURN
    await turn()

    assert all(transport.closed == 1 for transport in crowd)


async def test_who_comes_later_is_closed_too() -> None:
    """Also after everybody before has been closed, and in the middle of a crowd."""
    partings = Partings()
    first, last = Transport(), Transport()
    partings.add(first.close)
    await turn()
    crowd = [Transport() for _ in range(ENDED_PER_TURN)]
    for transport in crowd:
        partings.add(transport.close)
    partings.add(last.close)
    await turn()
    latest = Transport()
    partings.add(latest.close)
    await turn()

    assert [t.closed for t in (first, *crowd, last, latest)] == [1] * (len(crowd) + 3)


async def test_failure_in_one_ending_does_not_keep_the_others(clock: FakeClock) -> None:
    """The loop reports it."""
    partings, last = Partings(), Transport()
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))

    def fail() -> None:
        raise LookupError("a defect")

    partings.add(fail)
    partings.add(last.close)
    await clock.settle()

    assert last.closed == 1
    assert len(reported) == 1


async def test_sockets_that_are_reset_at_once_leave_in_portions(
    clock: FakeClock,
) -> None:
    """A proxy that is killed resets all that it carries."""
    hub = Hub(settings=RelaySettings(), clock=clock, metrics=Metrics())
    server = SimpleNamespace(connections=set())
    protocols = [
        RelayWebSocketProtocol(
            config=None,  # type: ignore[arg-type]  # not looked at
            server_state=server,  # type: ignore[arg-type]  # all that is needed
            app_state={"hub": hub},
        )
        for _ in range(3 * ENDED_PER_TURN)
    ]
    for protocol in protocols:
        protocol.connection_made(MemoryTransport(lambda _: None))
    portions: list[int] = []

    async with TaskSet("count") as tasks:
        tasks.spawn(
            count_by_turn(lambda: len(server.connections), portions, clock),
            name="count",
        )
        await clock.settle()
        for protocol in protocols:
            protocol.connection_lost(ConnectionResetError())
        await clock.settle()

    assert sum(portions) == len(protocols)
    assert max(portions) <= ENDED_PER_TURN
    assert not hub.switchboard.links
