"""A process that may open few files."""

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from relay.hub.descriptors import Ceilings
from tests.hub.raw import RawClient, raw_client, upgrade_request
from tests.launch.processes import read_port, relay_serve
from tests.serving import CLOCK

LIMIT = 256
DIALLING = 300


async def status_of(client: RawClient) -> int:
    """The status that answers an upgrade."""
    client.send(upgrade_request())
    return int((await client.read_head()).split()[1])


def read_cpu_seconds(process_id: int) -> float:
    """What a process has used so far."""
    with open(f"/proc/{process_id}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_near_its_limit_it_refuses_and_goes_on(tmp_path: Path) -> None:
    """Executors get a 503, operators an answer, and nothing spins."""
    ceilings = Ceilings.below(LIMIT)
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(
            relay_serve(tmp_path, descriptors=LIMIT)
        )
        port = await read_port(process)
        clients = [
            await stack.enter_async_context(raw_client(port)) for _ in range(DIALLING)
        ]
        statuses = [await status_of(client) for client in clients]

        assert set(statuses) == {101, 503}
        accepted = statuses.count(101)
        assert ceilings.upgrade - 50 < accepted <= ceilings.upgrade
        operator = await stack.enter_async_context(raw_client(port))
        operator.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await operator.read_head()).split()[1] == b"200"

        await CLOCK.sleep(timedelta(seconds=1))  # what is refused is gone by then
        before = read_cpu_seconds(process.pid)
        silent = [
            await stack.enter_async_context(raw_client(port)) for _ in range(LIMIT)
        ]
        await CLOCK.sleep(timedelta(seconds=1))
        assert read_cpu_seconds(process.pid) - before < 0.7
        assert b" 503 " in await silent[-1].read_head()

        process.terminate()
        _, complaints = await process.communicate()
    assert b"descriptors_ran_out" in complaints
    assert b"Too many open files" not in complaints
    assert b"Traceback" not in complaints
    assert process.returncode == 0


async def test_silent_clients_keep_nobody_out(tmp_path: Path) -> None:
    """A thousand connections without a word, and executors and operators come in."""
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(relay_serve(tmp_path))
        port = await read_port(process)
        for _ in range(1000):
            await stack.enter_async_context(raw_client(port))

        began = CLOCK.monotonic()
        executor, operator = [
            await stack.enter_async_context(raw_client(port)) for _ in range(2)
        ]
        operator.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        statuses = await asyncio.gather(status_of(executor), operator.read_head())

        assert statuses[0] == 101
        assert statuses[1].split()[1] == b"200"
        assert CLOCK.monotonic() - began < 2
