"""The stage of an acceptance test, and its logs in the report when the test fails."""

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path

import pytest
from pluggy import Result

from tests.acceptance.processes import ended_in_reverse
from tests.acceptance.stage import Stage
from tests.acceptance.uuid_extension import uuid_extension
from tests.conftest import POSTGRES_VERSIONS
from tests.postgres import PostgresServer

_TAIL_BYTES = 20_000


@pytest.fixture
async def stage(tmp_path: Path, system_database_url: str) -> AsyncIterator[Stage]:
    """An empty stage on a fresh PostgreSQL database; all its processes end with it."""
    stage = Stage(tmp_path, system_database_url)
    with uuid_extension(system_database_url):
        async with ended_in_reverse(stage.processes):
            yield stage


@pytest.fixture(params=POSTGRES_VERSIONS)
def relay_database_url(
    request: pytest.FixtureRequest,
    find_postgres_server: Callable[[int], PostgresServer],
) -> Iterator[str]:
    """An empty database for Relay itself, on each PostgreSQL."""
    server = find_postgres_server(POSTGRES_VERSIONS[request.param])
    database = server.create_database()
    yield database.url
    server.drop_database(database.name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, Result[pytest.TestReport], None]:
    outcome = yield
    report = outcome.get_result()
    stage = getattr(item, "funcargs", {}).get("stage")
    if report.failed and isinstance(stage, Stage):
        for log in sorted(stage.directory.glob("*.log")):
            text = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
            report.sections.append((log.name, text))
