"""The process around the server: its address, its signals, its end."""

import asyncio
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from relay.errors import SettingsError
from relay.launch import bind, raise_descriptor_limit
from relay.liveness.states import ExecutorStatus
from relay.server import open_offline
from relay.settings import load_settings
from relay.testing.executor import FakeExecutor
from tests.acceptance.processes import free_port
from tests.rivals import rival_for_the_lock
from tests.serving import CLOCK

PATIENCE = timedelta(seconds=20)


@asynccontextmanager
async def relay_serve(
    directory: Path, *flags: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`relay serve` as a process that does not outlive the test."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "relay", "serve", "--port", "0", *flags),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with CLOCK.timeout(PATIENCE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read_until(stream: asyncio.StreamReader | None, text: str) -> str:
    """The first line that holds `text`."""
    assert stream is not None
    while line := (await stream.readline()).decode():
        if text in line:
            return line
    raise AssertionError(f"ended without saying {text!r}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_with_status_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    """It says where it listens, with the real port, and stops in order."""
    async with relay_serve(tmp_path) as process:
        line = await read_until(process.stdout, "listening on http://127.0.0.1:")
        port = int(line.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()

        process.send_signal(number)
        _, complaints = await process.communicate()

    assert port > 0
    assert process.returncode == 0
    assert b"Traceback" not in complaints


async def test_a_signal_ends_a_server_that_waits_for_its_database(
    tmp_path: Path,
) -> None:
    """It does not have to be killed because the database is away."""
    url = f"postgresql://relay@127.0.0.1:{free_port()}/relay"
    async with relay_serve(tmp_path, "--database-url", url) as process:
        await read_until(process.stderr, "database_unavailable")

        process.send_signal(signal.SIGTERM)
        _, complaints = await process.communicate()

    assert process.returncode == 0
    assert b"Traceback" not in complaints


async def test_a_signal_ends_a_server_that_waits_for_its_turn(
    tmp_path: Path, system_database_url: str
) -> None:
    """The second one on a database ends without having served, the first stays."""
    flags = ("--database-url", system_database_url)
    async with relay_serve(tmp_path, *flags) as first:
        await read_until(first.stdout, "listening on")
        async with relay_serve(tmp_path, *flags) as second:
            await read_until(second.stderr, "waiting_for_other_server")

            second.send_signal(signal.SIGTERM)
            said, complaints = await second.communicate()

        assert first.returncode is None
    assert second.returncode == 0
    assert said == b""
    assert b"Traceback" not in complaints


async def test_a_server_that_was_replaced_stops_in_order(
    tmp_path: Path, system_database_url: str
) -> None:
    """Status 1 and the reason; its executors are told, and none of them is DEAD."""
    async with rival_for_the_lock(system_database_url) as take_over:
        async with relay_serve(
            tmp_path, "--database-url", system_database_url
        ) as process:
            line = await read_until(process.stdout, "listening on http://")
            url = line.rsplit("http://", 1)[1].strip()
            async with await FakeExecutor.connect(f"ws://{url}", "loop") as executor:
                await take_over()
                await executor.closed.wait()
            _, complaints = await process.communicate()

    assert process.returncode == 1
    assert b"server_replaced" in complaints
    assert complaints.endswith(
        b"relay: another Relay server uses the database; stop it first\n"
    )
    assert b"Traceback" not in complaints
    settings = load_settings({"database_url": system_database_url})
    async with open_offline(settings) as offline, offline.store.read() as work:
        counts = await work.executors.count_by_status()
    assert {status: count for status, count in counts.items() if count} == {
        ExecutorStatus.DISCONNECTED: 1
    }


async def test_a_start_that_cannot_succeed_ends_with_one_message(
    tmp_path: Path,
) -> None:
    """A second server on one SQLite file: status 1, the reason, no traceback."""
    async with relay_serve(tmp_path) as first:
        await read_until(first.stdout, "listening on")
        async with relay_serve(tmp_path) as second:
            _, complaints = await second.communicate()

    assert second.returncode == 1
    assert complaints.startswith(b"relay: another Relay server")
    assert len(complaints.splitlines()) == 1


def test_all_addresses_of_a_name_get_one_port() -> None:
    """`localhost` may be two addresses; clients try either."""
    listeners = bind("localhost", 0)

    ports = {listener.getsockname()[1] for listener in listeners}
    for listener in listeners:
        listener.close()

    assert len(ports) == 1
    assert 0 not in ports


def test_an_address_that_is_taken_is_told() -> None:
    """The message names it, and no socket stays open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(SettingsError, match=rf"127\.0\.0\.1:{port}: Address"):
            bind("127.0.0.1", port)


def test_a_name_without_address_is_told() -> None:
    """A typing error in the host is no traceback."""
    with pytest.raises(SettingsError, match="cannot listen on no-such-host"):
        bind("no-such-host.invalid", 8090)


@pytest.fixture
def low_limit() -> Iterator[int]:
    """A soft limit of open files below the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = min(before[0], before[1] - 1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    yield soft
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_open_files_is_raised_to_what_is_allowed(low_limit: int) -> None:
    """The common default of 1024 would be a thousand executors."""
    raise_descriptor_limit()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
    assert soft > low_limit


def test_a_family_the_machine_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`localhost` names an IPv6 address also where IPv6 is switched off."""
    v4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    lacking = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [lacking, v4])

    [listener] = bind("localhost", 0)

    assert listener.getsockname()[0] == "127.0.0.1"
    listener.close()
