"""What is left of sockets that are gone: nothing."""

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import pytest
from websockets.server import ServerProtocol

from relay.hub.connection import Connection
from relay.hub.events import Loss
from relay.hub.handshake import Refusal
from relay.hub.socket import RelayWebSocketProtocol
from relay.hub.turnstile import PLACES
from relay.hub.web import RelayHttpProtocol
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import Bench, eventually, knock
from tests.hub.raw import raw_client, upgrade_request

ROUNDS = 200
THOUSAND = 1000
THOUSANDS = 3
AT_ONCE = 20


def count_descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


@dataclass(frozen=True)
class Inventory:
    """What a process keeps, of the kinds that a client could make more of."""

    tasks: int
    descriptors: int
    things: int

    @classmethod
    async def take(cls, clock: FakeClock) -> Self:
        # It keeps its alarms until their time has come, wanted or not.
        await clock.advance(timedelta(minutes=1))
        gc.collect()
        # Cancelled timers, with their contexts, stay with the loop until it is their
        # turn or there are a hundred; here they are those of the clients' time-outs.
        things = [
            each
            for each in gc.get_objects()
            if not isinstance(each, asyncio.TimerHandle | Context)
        ]
        return cls(len(asyncio.all_tasks()), count_descriptors(), len(things))


async def repeat(times: int, once: Callable[[], Awaitable[object]]) -> None:
    """Do it so often, a few at a time."""

    async def work() -> None:
        for _ in range(times // AT_ONCE):
            await once()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())


async def leaves_nothing(
    bench: Bench, clock: FakeClock, once: Callable[[], Awaitable[object]]
) -> None:
    """
    Do it a thousand times, wait until everything is gone, and compare.

    What a process builds once (a module that is imported late, the caches of a class)
    grows in one thousand and not in the next; what leaks grows in each.
    """
    await repeat(AT_ONCE, once)
    await eventually(lambda: not bench.server.server_state.connections)
    growths: list[int] = []
    while not growths or (min(growths) >= THOUSAND / 10 and len(growths) < THOUSANDS):
        before = await Inventory.take(clock)
        await repeat(THOUSAND, once)
        await nothing_is_left(bench, before)
        growths.append((await Inventory.take(clock)).things - before.things)
    # One object for each ten sockets would be a leak; the rest is noise.
    assert min(growths) < THOUSAND / 10, growths


async def nothing_is_left(bench: Bench, before: Inventory) -> None:
    """Wait until everything is gone that is known by name."""
    await eventually(lambda: not bench.hub.switchboard.links)
    await eventually(lambda: not bench.server.server_state.connections)
    await eventually(lambda: len(asyncio.all_tasks()) <= before.tasks)
    await eventually(lambda: count_descriptors() <= before.descriptors)
    switchboard = bench.hub.switchboard
    assert bench.hub.connection_count == 0
    assert len(switchboard.unclosed) == len(switchboard.silence) == 0
    assert len(switchboard.callers) == 0
    assert switchboard.turnstile.room == PLACES


async def test_refused_upgrades_leave_nothing(bench: Bench, clock: FakeClock) -> None:
    """A client with a bad key knocks every second for ever."""
    bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")

    async def be_refused() -> None:
        assert (await knock(bench, "/websocket/orders/key")).status == 401
        bench.gatekeeper.knocks.clear()

    await leaves_nothing(bench, clock, be_refused)


async def ask_and_reset(bench: Bench) -> None:
    async with raw_client(bench.port) as client:
        client.send(upgrade_request())
        client.reset()


async def ask_and_end(bench: Bench) -> None:
    async with raw_client(bench.port) as client:
        client.send(upgrade_request())
        client.end()
        # Half a close is one: nothing can be answered over such a socket.
        await client.read_all()


async def come_in_and_reset(bench: Bench) -> None:
    async with raw_client(bench.port) as client:
        client.send(upgrade_request())
        await client.read_head()
        client.reset()


async def come_in_and_end(bench: Bench) -> None:
    async with raw_client(bench.port) as client:
        client.send(upgrade_request())
        await client.read_head()
        client.end()
        await client.read_all()


async def half_ask_and_reset(bench: Bench) -> None:
    async with raw_client(bench.port) as client:
        client.send(upgrade_request()[:60])
        client.reset()


@pytest.mark.parametrize(
    "abort",
    [
        ask_and_reset,
        ask_and_end,
        come_in_and_reset,
        come_in_and_end,
        half_ask_and_reset,
    ],
)
async def test_aborted_upgrades_leave_nothing(
    bench: Bench, clock: FakeClock, abort: Callable[[Bench], Awaitable[object]]
) -> None:
    """Wherever on the way in its client goes, and however."""

    async def once() -> None:
        await abort(bench)
        bench.gatekeeper.knocks.clear()

    await leaves_nothing(bench, clock, once)

    assert bench.listener.events == []


async def test_connections_leave_nothing(bench: Bench) -> None:
    """Neither tasks, nor descriptors, nor entries in any index."""
    async with await bench.connect():
        pass
    await eventually(lambda: not bench.server.server_state.connections)
    tasks, descriptors = len(asyncio.all_tasks()), count_descriptors()

    for number in range(ROUNDS):
        executor = await FakeExecutor.connect(bench.url, executor_id=f"e-{number}")
        await executor.wait_for("executor_info")
        if number % 2:
            await executor.close()
        else:
            executor.abort()
            await executor.wait_closed()

    await eventually(lambda: not bench.hub.switchboard.links)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
    await eventually(lambda: count_descriptors() <= descriptors)
    switchboard = bench.hub.switchboard
    assert bench.hub.connection_count == 0
    assert list(switchboard.seats) == []
    assert not switchboard.handshaking
    assert [len(switchboard.silence), len(switchboard.unclosed)] == [0, 0]
    assert not bench.server.server_state.connections


async def test_idle_connection_has_no_task(bench: Bench) -> None:
    """An executor that is only there costs memory, and a place in one order."""
    before = {task.get_name() for task in asyncio.all_tasks()}
    async with await bench.connect():
        await eventually(lambda: len(bench.hub.switchboard.tasks) == 0)

        hub_tasks = {
            task.get_name()
            for task in asyncio.all_tasks()
            if task.get_name().startswith("hub")
        }
        assert hub_tasks == {name for name in before if name.startswith("hub")}


def count_living(kind: type) -> int:
    """Objects of a class that nothing has freed yet."""
    return sum(type(thing) is kind for thing in gc.get_objects())


@pytest.mark.parametrize("ending", ["closed by peer", "reset", "hung up", "refused"])
async def test_ended_socket_is_freed_without_the_garbage_collector(
    bench: Bench, ending: str
) -> None:
    """No cycle holds it: full collections are rare, and slow with many sockets."""
    gc.collect()
    gc.disable()
    kinds = (RelayWebSocketProtocol, RelayHttpProtocol, Connection, ServerProtocol)
    try:
        assert not any(map(count_living, kinds)), "a test before has left some"
        if ending == "refused":
            bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")
            await knock(bench, "/websocket/orders/key")
        else:
            executor = await bench.connect()
            assert count_living(RelayWebSocketProtocol) == 1
            await executor.ping()
            match ending:
                case "closed by peer":
                    await executor.close()
                case "reset":
                    executor.abort()
                case "hung up":
                    (arrival,) = bench.listener.arrivals
                    bench.hub.close_connection(
                        arrival.connection_id, Loss.SUPERSEDED, 4000, ""
                    )
            await executor.wait_closed()

        await eventually(lambda: not any(map(count_living, kinds)))
    finally:
        gc.enable()
