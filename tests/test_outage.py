"""A whole server whose database goes away and comes back, under 200 executors."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from websockets.exceptions import InvalidStatus

from relay.errors import StoreUnavailableError
from relay.liveness.states import ExecutorStatus
from relay.registry import SHELL_ACTOR, AuditQuery
from relay.server import Server
from relay.settings import load_settings
from relay.testing.executor import FakeExecutor
from tests.conftest import NEWEST_POSTGRES, SQLITE
from tests.serving import CLOCK, Serving, serving

FLEET = 200
OUTAGE = timedelta(seconds=5)
BACK_WITHIN = timedelta(seconds=15)


@pytest.fixture(params=[SQLITE, f"postgresql-{NEWEST_POSTGRES}"])
def engine_name(request: pytest.FixtureRequest) -> str:
    """One of each kind: the versions of PostgreSQL do not differ in being away."""
    name: str = request.param
    return name


@pytest.fixture(params=["local", "keys"])
async def relay(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> AsyncIterator[Serving]:
    """A server in each mode on each engine."""
    settings = load_settings(
        {"data_dir": tmp_path, "database_url": database_url, "auth": request.param}
    )
    async with serving(settings) as relay:
        yield relay


@contextmanager
def database_away(server: Server) -> Iterator[None]:
    """Let every transaction fail as if nothing listened on the port."""

    def refuse(*, write: bool) -> NoReturn:
        raise StoreUnavailableError(f"connection refused ({write=})")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.database, "transaction", refuse)
        yield


@dataclass
class Fleet:
    """Executors of one server, all with one key."""

    relay: Serving
    key: str
    stack: AsyncExitStack

    async def connect(self, executor_id: str, app: str = "loop") -> FakeExecutor:
        """One more of them."""
        return await self.stack.enter_async_context(
            await FakeExecutor.connect(
                self.relay.url, app, self.key, executor_id=executor_id
            )
        )

    async def statuses(self, app: str = "loop") -> dict[str, str]:
        """What the API says of each."""
        answer = await self.relay.http.get(
            f"/v2/orgs/local/apps/{app}/executors",
            headers={"Authorization": f"Bearer {self.key}"},
        )
        assert answer.is_success
        return {each["executorId"]: each["status"] for each in answer.json()}

    async def until_healthy(self, count: int, app: str = "loop") -> dict[str, str]:
        """Wait until so many are; the statuses of all then."""
        async with CLOCK.timeout(BACK_WITHIN):
            while True:
                statuses = await self.statuses(app)
                if list(statuses.values()).count("HEALTHY") == count:
                    return statuses
                await CLOCK.sleep(timedelta(milliseconds=100))

    async def until_ready(self) -> None:
        """Wait until the server calls itself ready."""
        async with CLOCK.timeout(BACK_WITHIN):
            while not (await self.relay.http.get("/readyz")).is_success:
                await CLOCK.sleep(timedelta(milliseconds=100))


@pytest.fixture
async def fleet(relay: Serving) -> AsyncIterator[Fleet]:
    """200 executors of a registered application with a short grace, recorded."""
    registry = relay.server.registry
    await registry.applications.put(SHELL_ACTOR, "loop", private_mode=None)
    minted = await registry.keys.create(
        SHELL_ACTOR,
        "worker",
        permissions=None,
        application_names=None,
        is_admin=True,
    )
    async with AsyncExitStack() as stack:
        fleet = Fleet(relay, minted.text, stack)
        for number in range(FLEET):
            await fleet.connect(f"executor-{number}")
        await fleet.until_healthy(FLEET)
        answer = await relay.http.patch(
            "/v2/orgs/local/apps/loop",
            json={"executorTimeoutSecs": 2},
            headers={"Authorization": f"Bearer {minted.text}"},
        )
        assert answer.is_success
        yield fleet


async def test_the_fleet_outlives_an_outage_of_the_database(fleet: Fleet) -> None:
    """Sockets stay, the known come and go, and all of it is written on return."""
    relay, server = fleet.relay, fleet.relay.server
    is_local = server.settings.auth.value == "local"
    (old,) = [await fleet.connect("comes-back")]
    await fleet.until_healthy(FLEET + 1)
    sockets = server.hub.connection_count

    old.abort()
    await old.wait_closed()
    with database_away(server):
        began = CLOCK.monotonic()
        await fleet.connect("comes-back")
        for number in range(20):
            await fleet.connect(f"new-{number}")
        if is_local:
            for number in range(5):
                await fleet.connect(f"new-{number}", app="unheard-of")
        else:
            with pytest.raises(InvalidStatus) as refusal:
                await FakeExecutor.connect(relay.url, "loop", "dbos_" + "x" * 43)
            assert refusal.value.response.status_code == 503
        assert (await relay.http.get("/healthz")).status_code == 200
        assert (await relay.http.get("/readyz")).status_code == 503
        spent = timedelta(seconds=CLOCK.monotonic() - began)
        await CLOCK.sleep(OUTAGE - spent)
        assert server.hub.connection_count == sockets + 20 + 5 * is_local

    statuses = await fleet.until_healthy(FLEET + 21)
    assert len(statuses) == FLEET + 21
    if is_local:
        assert len(await fleet.until_healthy(5, app="unheard-of")) == 5
    await fleet.until_ready()
    assert server.hub.connection_count == sockets + 20 + 5 * is_local
    await _check_audit(server, newcomers=25 if is_local else 20)


async def _check_audit(server: Server, *, newcomers: int) -> None:
    async def count(operation: str) -> int:
        query = AuditQuery(operation=operation, limit=1000)
        return len(await server.registry.list_audit(query))

    assert await count("executor.connect") == FLEET + 1 + newcomers
    assert await count("executor.disconnect") == 1
    assert await count("executor.reconnect") == 1
    assert await count("application.create") == (2 if newcomers == 25 else 1)
    assert await count("executor.dead") == 0
    counts = {ExecutorStatus.DEAD: 0, ExecutorStatus.DISCONNECTED: 0}
    async with server.store.read() as work:
        assert (await work.executors.count_by_status()) | counts == {
            ExecutorStatus.HEALTHY: FLEET + 1 + newcomers
        } | counts
