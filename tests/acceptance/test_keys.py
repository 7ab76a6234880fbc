"""Keys: what they open, that a revocation counts, and that nobody writes them down."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.environments import PYTHON, SDKS
from tests.acceptance.processes import CLOCK, RelayProcess
from tests.acceptance.stage import MARKER_KEY, Stage

pytestmark = pytest.mark.acceptance

MARK = MARKER_KEY.encode()


async def test_a_key_is_written_nowhere(stage: Stage) -> None:
    """After every way to present a key, no file or answer of Relay holds it."""
    relay = await stage.relay()
    executor = await stage.executor(SDKS[0], "executor", relay=relay)
    answers = [
        await _knock(relay, path, headers)
        for path in (
            f"/websocket/loop/{MARKER_KEY}",
            f"//websocket/loop/{MARKER_KEY}",
            f"/websocket/NO/{MARKER_KEY}",
            f"/websocket/loop/{MARKER_KEY}/more",
            f"/prefix/websocket/loop/{MARKER_KEY}?{MARKER_KEY}",
            f"/websocket/loop/%6darker{MARKER_KEY[6:]}'\"<{MARKER_KEY}",
            "/v2/orgs/local/apps",
        )
        for headers in (
            "",
            f"Authorization: Bearer {MARKER_KEY}\r\n",
            "Origin: http://example.com\r\n" + UPGRADE,
            UPGRADE.replace("13", "x"),
        )
    ]
    answers += [
        (await relay.http.get(path)).content
        for path in ("/metrics", "/v2/orgs/local/audit-logs", "/readyz")
    ]
    await executor.kill()
    await relay.status_is("loop", executor.executor_id, "DISCONNECTED", within=10)
    await relay.terminate()

    assert [answer for answer in answers if MARK in answer] == []
    assert len(_written_by(relay)) >= 2
    for file in _written_by(relay):
        assert MARK not in file.read_bytes(), file.name


async def test_a_revocation_by_another_process_closes_the_socket(stage: Stage) -> None:
    """In keys mode a wrong key stays out, a right one comes in until it is revoked."""
    relay = await stage.relay(RELAY_AUTH="keys")
    admin = (await relay.command("key", "create", "--admin")).strip()
    relay.http.headers["Authorization"] = f"Bearer {admin}"
    await relay.configure("loop", executorTimeoutSecs=3600)
    key = (await relay.command("key", "create", "worker", "--app", "loop")).strip()
    stranger = await stage.executor(
        PYTHON[0], "stranger", relay=relay.url, key=f"{key[:-8]}AAAAAAAA"
    )
    worker = await stage.executor(PYTHON[0], "worker", relay=relay, key=key)
    assert stranger.executor_id not in await relay.executors("loop")

    await relay.command("key", "revoke", "worker")

    await relay.status_is("loop", worker.executor_id, "DISCONNECTED", within=5.5)
    await CLOCK.sleep(timedelta(seconds=3))
    assert (await relay.executors("loop"))[worker.executor_id] == "DISCONNECTED"
    listed = await relay.command("key", "list", "--json")
    assert '"admin"' in listed
    assert '"worker"' not in listed
    assert await _http_status(relay, {"Authorization": f"Bearer {key}"}) == 401
    await relay.terminate()
    for secret in (admin, key):
        for file in _written_by(relay):
            assert secret.encode() not in file.read_bytes(), file.name


UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def _written_by(relay: RelayProcess) -> list[Path]:
    return [relay.log, *relay.directory.glob("data/*")]


async def _http_status(relay: RelayProcess, headers: dict[str, str]) -> int:
    answer = await relay.http.get("/v2/orgs/local/apps", headers=headers)
    return answer.status_code


async def _knock(relay: RelayProcess, path: str, headers: str) -> bytes:
    """Everything Relay answers to one hand-made request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    if "Upgrade" not in headers:
        headers += "Connection: close\r\n"
    host = f"Host: 127.0.0.1:{relay.port}\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\n{host}{headers}\r\n".encode())
    try:
        async with CLOCK.timeout(timedelta(seconds=5)):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
