"""The census of a running server, whose executors are asked over real sockets."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.settings import load_settings
from relay.testing.executor import FakeExecutor
from relay.testing.work import FakeWork
from tests.serving import CLOCK, Serving, serving

CENSUS = "/relay/v1/orgs/local/apps/orders/census"


@pytest.fixture
async def relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Serving]:
    """A server of its own, whose census is taken when a test says so."""
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"data_dir": tmp_path / "data", "port": 0})
    async with serving(settings) as relay:
        yield relay


async def connected(relay: Serving, name: str, work: FakeWork) -> FakeExecutor:
    """An executor that Relay knows to be HEALTHY."""
    executor = await FakeExecutor.connect(relay.url, executor_id=name, work=work)
    async with CLOCK.timeout(timedelta(seconds=20)):
        while name not in await list_healthy(relay):
            await CLOCK.sleep(timedelta(milliseconds=20))
    return executor


async def list_healthy(relay: Serving) -> set[str]:
    answer = await relay.http.get("/v2/orgs/local/apps/orders/executors")
    executors = answer.json() if answer.status_code == 200 else []
    return {e["executorId"] for e in executors if e["status"] == "HEALTHY"}


async def report(relay: Serving) -> dict[str, Any]:
    found: dict[str, Any] = (await relay.http.get(CENSUS)).json()
    return found


async def test_pending_work_of_a_stranger_is_found_on_a_running_server(
    relay: Serving,
) -> None:
    """From the executor's count to what an operator reads."""
    work = FakeWork()
    work.add("stranger", "v1", "w-1", "w-2")
    work.add("a", "v1", "w-3")
    async with await connected(relay, "a", work):
        await relay.server.census.take_now()

        found = await report(relay)

    assert found["answeredBy"] == "a"
    assert found["pendingCount"] == 3
    [owner] = found["owners"]
    assert (owner["executorId"], owner["kind"]) == ("stranger", "UNKNOWN_OWNER")
    assert owner["pendingCount"] == 2


async def test_two_databases_are_found_out_on_a_running_server(
    relay: Serving,
) -> None:
    """By a loop of the server itself, seconds after the second one has connected."""
    work, other = FakeWork(), FakeWork()
    work.add("a", "v1", "w-1")
    other.add("w", "v1", "w-2")
    async with (
        await connected(relay, "a", work),
        await connected(relay, "w", other),
        CLOCK.timeout(timedelta(seconds=30)),
    ):
        while (found := await report(relay))["dispute"] is None:
            await CLOCK.sleep(timedelta(milliseconds=50))

    assert sorted(found["dispute"]["sides"]) == [["a"], ["w"]]
