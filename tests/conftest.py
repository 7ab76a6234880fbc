"""
Fixtures for everything that needs a database.

A test that takes `store`, `database` or `database_url` runs once on each engine, on a
migrated database of its own. `database` reads the time from `clock`.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from relay.db import Database
from relay.store import Store
from relay.store.schema import migrate
from relay.testing.clock import FakeClock
from tests.postgres import PostgresServer, running_postgres
from tests.strict_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

SQLITE = "sqlite"
POSTGRES_VERSIONS = {"postgresql-16": 16, "postgresql-18": 18}
NEWEST_POSTGRES = 18


@pytest.fixture(scope="session")
def find_postgres_server() -> Iterator[Callable[[int], PostgresServer]]:
    """Major version to the one server of that version, started when first asked for."""
    with ExitStack() as servers:

        @cache
        def find(version: int) -> PostgresServer:
            return servers.enter_context(running_postgres(version))

        yield find


@pytest.fixture(scope="session")
def postgres_server(
    find_postgres_server: Callable[[int], PostgresServer],
) -> PostgresServer:
    """A PostgreSQL of the newest version, shared by all tests of the session."""
    return find_postgres_server(NEWEST_POSTGRES)


@pytest.fixture
def system_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of an empty PostgreSQL database, such as executors work on."""
    database = postgres_server.create_database()
    yield database.url
    postgres_server.drop_database(database.name)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database to copy."""
    path = tmp_path_factory.mktemp("template") / "relay.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def find_migrated_template(
    find_postgres_server: Callable[[int], PostgresServer],
) -> Callable[[int], str]:
    """Major version to the name of a migrated PostgreSQL database to copy."""

    @cache
    def find(version: int) -> str:
        template = find_postgres_server(version).create_database()
        _migrate(template.url)
        return template.name

    return find


@pytest.fixture(params=[SQLITE, *POSTGRES_VERSIONS])
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine that Relay runs on, one after the other."""
    name: str = request.param
    return name


@pytest.fixture
def empty_database_url(
    engine_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The address of a database that nobody has migrated."""
    if engine_name == SQLITE:
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    find_server = request.getfixturevalue("find_postgres_server")
    server: PostgresServer = find_server(POSTGRES_VERSIONS[engine_name])
    database = server.create_database()
    yield database.url
    server.drop_database(database.name)


@pytest.fixture
def database_url(
    engine_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The address of a migrated database without a row."""
    # Asked for by name, because a test on SQLite shall not start a PostgreSQL.
    if engine_name == SQLITE:
        path = tmp_path / "relay.db"
        shutil.copyfile(request.getfixturevalue("migrated_file"), path)
        yield f"sqlite:///{path}"
        return
    version = POSTGRES_VERSIONS[engine_name]
    server: PostgresServer = request.getfixturevalue("find_postgres_server")(version)
    template = request.getfixturevalue("find_migrated_template")(version)
    database = server.create_database(template=template)
    yield database.url
    server.drop_database(database.name)


@pytest.fixture
def clock() -> FakeClock:
    """The clock that `database` reads."""
    return FakeClock()


@pytest.fixture
async def database(database_url: str, clock: FakeClock) -> AsyncIterator[Database]:
    """A migrated database; the test fails if it keeps a connection for itself."""
    database = Database.open(database_url, clock=clock)
    yield database
    in_use = database.connections_in_use
    await database.close()
    assert in_use == 0, "a transaction was left open"


@pytest.fixture
def store(database: Database) -> Store:
    """A store without a row."""
    return Store(database)


def _migrate(url: str) -> None:
    async def run() -> None:
        database = Database.open(url)
        try:
            await migrate(database)
        finally:
            await database.close()

    # In a thread of its own, because this one may have an event loop already.
    with ThreadPoolExecutor(max_workers=1) as worker:
        worker.submit(asyncio.run, run()).result()
