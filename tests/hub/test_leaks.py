"""What is left of sockets that are gone: nothing."""

import asyncio
import gc
import os

import pytest
from websockets.server import ServerProtocol

from relay.hub.connection import Connection
from relay.hub.events import Loss
from relay.hub.handshake import Refusal
from relay.hub.socket import RelayWebSocketProtocol
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import Bench, eventually, knock

ROUNDS = 200


def count_descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


async def test_refused_upgrades_leave_nothing(bench: Bench) -> None:
    """A client with a bad key knocks every second for ever."""
    bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")
    await knock(bench, "/websocket/orders/key")
    await eventually(lambda: not bench.server.server_state.connections)
    tasks, descriptors = len(asyncio.all_tasks()), count_descriptors()

    for _ in range(ROUNDS):
        await knock(bench, "/websocket/orders/key")

    await eventually(lambda: not bench.hub.switchboard.links)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
    await eventually(lambda: count_descriptors() <= descriptors)
    assert not bench.server.server_state.connections
    assert len(bench.hub.switchboard.unclosed) == 0


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
    try:
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

        await eventually(lambda: count_living(RelayWebSocketProtocol) == 0)
        await eventually(lambda: count_living(Connection) == 0)
        await eventually(lambda: count_living(ServerProtocol) == 0)
    finally:
        gc.enable()
