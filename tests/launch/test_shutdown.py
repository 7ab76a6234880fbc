"""`relay serve` is told to stop while a lot goes on."""

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from relay.liveness.states import ExecutorStatus
from relay.server import open_offline
from relay.settings import load_settings
from relay.testing.executor import FakeExecutor
from tests.hub.raw import RawClient, raw_client
from tests.launch.processes import read_port, relay_serve
from tests.serving import CLOCK

EXECUTORS = 500
OF_EACH_KIND = 5
STOP_WITHIN = timedelta(seconds=10)
PATIENCE = timedelta(seconds=60)
APPLICATIONS = "/v2/orgs/local/apps"
HEAD = "{} " + APPLICATIONS + "/orders{} HTTP/1.1\r\nHost: localhost\r\n"
LISTING = HEAD.format("GET", "/executors").encode() + b"\r\n"
HALF_A_PATCH = (
    HEAD.format("PATCH", "").encode()
    + b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


async def dial(port: int, stack: AsyncExitStack) -> list[FakeExecutor]:
    """A few hundred executors on line."""

    async def one(number: int) -> FakeExecutor:
        executor = await FakeExecutor.connect(
            f"ws://127.0.0.1:{port}", executor_id=f"e-{number}"
        )
        await executor.wait_for("executor_info")
        return executor

    executors: list[FakeExecutor] = []
    for start in range(0, EXECUTORS, 100):
        executors += await asyncio.gather(*map(one, range(start, start + 100)))
    for executor in executors:
        await stack.enter_async_context(executor)
    return executors


async def count_by_status(directory: Path) -> dict[ExecutorStatus, int]:
    """What the rows say, leaving zeros out."""
    settings = load_settings({"data_dir": str(directory / ".relay")})
    async with open_offline(settings) as offline, offline.store.read() as work:
        counts = await work.executors.count_by_status()
    return {status: count for status, count in counts.items() if count}


async def until_all_are(directory: Path, status: ExecutorStatus) -> None:
    """Wait for the rows; the test's own patience ends it."""
    while await count_by_status(directory) != {status: EXECUTORS}:
        await CLOCK.sleep(timedelta(milliseconds=100))


@contextmanager
def held_database(directory: Path) -> Iterator[sqlite3.Connection]:
    """The file locked by somebody else, so that whoever writes has to wait."""
    connection = sqlite3.connect(
        directory / ".relay" / "relay.db", isolation_level=None
    )
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        connection.close()


@asynccontextmanager
async def slow_callers(port: int) -> AsyncIterator[list[RawClient]]:
    """Those that send slowly, that read slowly, and that do nothing."""
    beginnings = [
        b"GET /healthz HTT",
        HALF_A_PATCH,
        LISTING,
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]
    async with AsyncExitStack() as stack:
        callers = []
        for beginning in beginnings:
            for _ in range(OF_EACH_KIND):
                caller = await stack.enter_async_context(raw_client(port))
                if beginning == LISTING:
                    caller.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a two-way one
                caller.send(beginning)
                callers.append(caller)
        await callers[-1].read_head()
        yield callers


async def test_everybody_is_sent_home_in_ten_seconds(tmp_path: Path) -> None:
    """Executors read 1012 and come back, callers are answered or cut, nobody dies."""
    async with AsyncExitStack() as stack:
        # Quiet: a pipe that nobody empties would hold the server up.
        process = await stack.enter_async_context(
            relay_serve(tmp_path, "--log-level", "warning", patience=PATIENCE)
        )
        port = await read_port(process)
        executors = await dial(port, stack)
        await until_all_are(tmp_path, ExecutorStatus.HEALTHY)
        await stack.enter_async_context(slow_callers(port))
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False)
        )
        async with asyncio.TaskGroup() as tasks:
            with held_database(tmp_path):
                waiting = [
                    tasks.create_task(http.put(f"{APPLICATIONS}/slow-{number}"))
                    for number in range(OF_EACH_KIND)
                ]
                await CLOCK.sleep(timedelta(milliseconds=300))
                process.send_signal(signal.SIGTERM)
                told_at = CLOCK.monotonic()
                await CLOCK.sleep(timedelta(seconds=1))
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", port)
            _, complaints = await process.communicate()
        took = timedelta(seconds=CLOCK.monotonic() - told_at)

        assert process.returncode == 0
        assert took < STOP_WITHIN
        assert b"Traceback" not in complaints
        assert {answer.result().status_code for answer in waiting} <= {200, 201, 204}
        for executor in executors:
            await executor.wait_closed()
        assert {executor.close_code for executor in executors} == {1012}
    assert await count_by_status(tmp_path) == {ExecutorStatus.DISCONNECTED: EXECUTORS}

    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(
            relay_serve(tmp_path, "--log-level", "warning", patience=PATIENCE)
        )
        await dial(await read_port(process), stack)
        await until_all_are(tmp_path, ExecutorStatus.HEALTHY)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Whoever waits for its callers can stop waiting."""
    async with relay_serve(tmp_path) as process:
        port = await read_port(process)
        async with raw_client(port) as caller:
            caller.send(HALF_A_PATCH)
            await CLOCK.sleep(timedelta(milliseconds=300))
            process.send_signal(signal.SIGTERM)
            await CLOCK.sleep(timedelta(milliseconds=500))
            status: int | None = process.returncode
            assert status is None

            process.send_signal(number)
            told_at = CLOCK.monotonic()
            _, complaints = await process.communicate()

    assert process.returncode == -number
    assert CLOCK.monotonic() - told_at < 2
    assert b"Traceback" not in complaints
