"""
The stage of an acceptance test, and its logs in the report when the test fails.

Acceptance tests wait most of the time, some of them for minutes, and so their order
decides how long all of them take (`order`).
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from pluggy import Result

from tests.acceptance.companies import Company, open_company
from tests.acceptance.environments import PYTHON, SDKS, TYPESCRIPT
from tests.acceptance.order import dealt
from tests.acceptance.processes import ended_in_reverse
from tests.acceptance.stage import Stage
from tests.acceptance.uuid_extension import uuid_extension
from tests.conftest import POSTGRES_VERSIONS, SQLITE
from tests.postgres import PostgresServer

HERE = Path(__file__).resolve().parent
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


@pytest.fixture(params=[SQLITE, "postgresql"])
def store_settings(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> Iterator[Mapping[str, str]]:
    """The settings of a Relay on an empty store of each kind."""
    if request.param == SQLITE:
        yield {}
        return
    database = postgres_server.create_database()
    yield {"RELAY_DATABASE_URL": database.url}
    postgres_server.drop_database(database.name)


@pytest.fixture
def company(stage: Stage, postgres_server: PostgresServer) -> Iterator[Company]:
    """The newest SDK of each language."""
    with open_company(stage, postgres_server, [PYTHON[0], TYPESCRIPT[0]]) as company:
        yield company


@pytest.fixture
def everybody(stage: Stage, postgres_server: PostgresServer) -> Iterator[Company]:
    """Every SDK there is."""
    with open_company(stage, postgres_server, SDKS) as company:
        yield company


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deal ours anew, in the places that they have among all tests."""
    ours = [
        place for place, item in enumerate(items) if HERE in item.path.resolve().parents
    ]
    again = dealt([items[place] for place in ours], _docstring_of)
    for place, item in zip(ours, again, strict=True):
        items[place] = item


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


def _docstring_of(item: pytest.Item) -> str | None:
    docstring: str | None = getattr(item, "obj", None).__doc__
    return docstring
