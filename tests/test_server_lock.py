"""One server a PostgreSQL database: it waits for its turn, keeps it, or stops."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from relay.db import Database, SessionLock
from relay.errors import StoreLockedError, StoreUnavailableError
from relay.server import Server, lock, open_offline, open_server
from relay.server.lock import SERVER_LOCK, wait_for_turn, watch
from relay.settings import RelaySettings, load_settings
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from tests.postgres import PostgresServer
from tests.rivals import cut_lock_connection, rival_for_the_lock
from tests.serving import CLOCK

PATIENCE = timedelta(seconds=20)
LOST = StoreUnavailableError("the connection was cut")


class ScriptedLock:
    """Answers `hold` with what was written for it, one after the other."""

    def __init__(self, *answers: bool | StoreUnavailableError) -> None:
        self._answers = list(answers)

    @property
    def remaining(self) -> int:
        return len(self._answers)

    async def hold(self) -> bool:
        answer = self._answers.pop(0) if self._answers else True
        if isinstance(answer, StoreUnavailableError):
            raise answer
        return answer


def scripted(*answers: bool | StoreUnavailableError) -> SessionLock:
    """A lock that behaves as written, and is held from then on."""
    return cast(SessionLock, ScriptedLock(*answers))


@pytest.fixture
def settings(
    system_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RelaySettings:
    """A server on a PostgreSQL database of its own, which looks at its lock often."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lock, "CHECK_INTERVAL", timedelta(milliseconds=50))
    return load_settings({"database_url": system_database_url})


@pytest.fixture
async def database(system_database_url: str) -> AsyncIterator[Database]:
    """An empty PostgreSQL database."""
    database = Database.open(system_database_url)
    yield database
    await database.close()


# --- the lock of the database -----------------------------------------------------


async def test_a_session_lock_has_one_holder(database: Database) -> None:
    """The holder may ask again; another one gets it when the holder lets go."""
    first, second = (database.open_session_lock(7) for _ in range(2))

    assert await first.hold()
    assert await first.hold()
    assert not await second.hold()
    await first.close()

    assert await second.hold()
    await second.close()


async def test_locks_of_other_keys_and_databases_do_not_meet(
    database: Database, postgres_server: PostgresServer
) -> None:
    """Two Relays on two databases of one PostgreSQL both run."""
    other = postgres_server.create_database()
    elsewhere = Database.open(other.url)
    locks = [
        database.open_session_lock(SERVER_LOCK),
        database.open_session_lock(SERVER_LOCK + 1),
        elsewhere.open_session_lock(SERVER_LOCK),
    ]

    assert [await lock.hold() for lock in locks] == [True] * 3

    for taken in locks:
        await taken.close()
    await elsewhere.close()
    postgres_server.drop_database(other.name)


async def test_a_lock_whose_connection_was_cut_can_be_taken_again(
    database: Database, system_database_url: str
) -> None:
    """The loss is told once; the next try opens a new connection."""
    session_lock = database.open_session_lock(7)
    assert await session_lock.hold()

    await cut_lock_connection(system_database_url)

    with pytest.raises(StoreUnavailableError):
        await session_lock.hold()
    assert await session_lock.hold()
    await session_lock.close()


async def test_our_own_lost_connection_is_nobody_else(database: Database) -> None:
    """While the other side has not noticed the loss, the lock is still ours."""
    session_lock = database.open_session_lock(7)
    assert await session_lock.hold()
    lost, session_lock._connection = session_lock._connection, None
    assert lost is not None

    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="our lost connection"):
            await session_lock.hold()

    await lost.close()
    assert await session_lock.hold()
    await session_lock.close()


# --- waiting for a turn, and keeping it -------------------------------------------


async def test_a_server_waits_for_its_turn_and_says_so(clock: FakeClock) -> None:
    """It asks again after 1, 2, 4, 5, 5 … s, also when the database is away."""
    script = ScriptedLock(False, LOST, False, False, False)
    with capture_logs() as logs:
        async with TaskSet("test") as tasks:
            waiting = tasks.spawn(
                wait_for_turn(cast(SessionLock, script), clock), name="waiting"
            )
            await clock.advance(timedelta(seconds=16.9))
            assert script.remaining == 0
            assert not waiting.done()
            await clock.advance(timedelta(seconds=0.2))
            assert waiting.done()

    assert [(line["event"], line["next_try_in_secs"]) for line in logs] == [
        ("waiting_for_other_server", 1),
        ("database_unavailable", 2),
        ("waiting_for_other_server", 4),
        ("waiting_for_other_server", 5),
        ("waiting_for_other_server", 5),
    ]
    assert logs[0]["reason"] == (
        "another Relay server uses this database; this one starts when that has stopped"
    )


async def test_a_lost_lock_is_taken_again(clock: FakeClock) -> None:
    """At once, and if that fails with growing pauses; the server is not replaced."""
    replaced = asyncio.Event()
    with capture_logs() as logs:
        async with TaskSet("test") as tasks:
            tasks.spawn(
                watch(scripted(True, LOST, LOST, LOST), replaced, clock), name="watch"
            )
            await clock.advance(timedelta(seconds=20))

    assert not replaced.is_set()
    assert [(line["event"], line.get("next_try_in_secs")) for line in logs] == [
        ("server_lock_lost", 0),
        ("server_lock_lost", 1),
        ("server_lock_lost", 2),
        ("server_lock_taken_again", None),
    ]


async def test_a_lock_in_other_hands_ends_the_server(clock: FakeClock) -> None:
    """One error in the log, and no more attempts to get it back."""
    replaced = asyncio.Event()
    script = ScriptedLock(LOST, False, False)
    with capture_logs() as logs:
        async with TaskSet("test") as tasks:
            tasks.spawn(watch(cast(SessionLock, script), replaced, clock), name="watch")
            await clock.advance(timedelta(seconds=20))

    assert replaced.is_set()
    assert script.remaining == 1
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("server_lock_lost", "warning"),
        ("server_replaced", "error"),
    ]


# --- servers ----------------------------------------------------------------------


async def test_a_second_server_waits_until_the_first_has_closed(
    settings: RelaySettings,
) -> None:
    """It touches nothing meanwhile; commands work beside the first."""
    opened: list[Server] = []
    may_close = asyncio.Event()

    async def second() -> None:
        async with open_server(settings) as server:
            opened.append(server)
            await may_close.wait()

    async with TaskSet("test") as tasks:
        with capture_logs() as logs:
            async with open_server(settings):
                running = tasks.spawn(second(), name="second")
                async with CLOCK.timeout(PATIENCE):
                    while not _said(logs, "waiting_for_other_server"):
                        await CLOCK.sleep(timedelta(milliseconds=10))
                async with open_offline(settings) as offline:
                    assert await offline.registry.keys.list_live() == []
                assert opened == []

        async with CLOCK.timeout(PATIENCE):
            while not opened:
                await CLOCK.sleep(timedelta(milliseconds=10))
            may_close.set()
            await running


async def test_a_server_outlives_the_loss_of_its_locks_connection(
    settings: RelaySettings, system_database_url: str
) -> None:
    """It has the lock again, and runs."""
    with capture_logs() as logs:
        async with open_server(settings) as server:
            await cut_lock_connection(system_database_url)
            async with CLOCK.timeout(PATIENCE):
                while not _said(logs, "server_lock_taken_again"):
                    await CLOCK.sleep(timedelta(milliseconds=10))

            assert not server.replaced.is_set()
            rival = server.database.open_session_lock(SERVER_LOCK)
            assert not await rival.hold()
            await rival.close()


async def test_a_replaced_server_ends_with_the_reason(
    settings: RelaySettings, system_database_url: str
) -> None:
    """Whoever was faster keeps the lock; this one says so when it has closed."""

    async def run_until_replaced() -> None:
        async with open_server(settings) as server:
            await take_over()
            async with CLOCK.timeout(PATIENCE):
                await server.replaced.wait()

    async with rival_for_the_lock(system_database_url) as take_over:
        with capture_logs() as logs:
            with pytest.raises(StoreLockedError, match="another Relay server uses"):
                await run_until_replaced()

    assert [line["event"] for line in logs][-2:] == [
        "server_replaced",
        "server_closing",
    ]


def _said(logs: Sequence[Mapping[str, object]], event: str) -> bool:
    return any(line["event"] == event for line in logs)
