"""The process around the server: its signals and its end."""

import asyncio
import signal
from pathlib import Path
from typing import cast

import pytest

from relay.errors import SettingsError
from relay.launch import Application, WebServer, bind, configure
from relay.liveness.states import ExecutorStatus
from relay.server import open_offline, open_server
from relay.settings import RelaySettings, load_settings
from relay.testing.executor import FakeExecutor
from relay_api.app import create_app
from tests.launch.processes import read_until, relay_serve
from tests.ports import ReservedPort
from tests.rivals import rival_for_the_lock


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
    with ReservedPort() as port:
        url = f"postgresql://relay@127.0.0.1:{port.number}/relay"
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


async def test_an_address_that_another_process_listens_on_first_is_told(
    tmp_path: Path,
) -> None:
    """Both could bind it as long as nobody listened; its file is free again."""
    settings = RelaySettings(data_dir=tmp_path)
    [rival] = bind("127.0.0.1", 0)
    port = rival.getsockname()[1]
    [listener] = bind("127.0.0.1", port)
    web = WebServer(configure(cast(Application, create_app(settings))))
    with rival, listener:
        rival.listen()

        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}"):
            await web.serve([listener])

    async with open_server(settings) as reopened:
        assert reopened.hub.connection_count == 0
