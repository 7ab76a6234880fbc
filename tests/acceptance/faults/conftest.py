"""A database server that a test may stop."""

from collections.abc import Iterator

import pytest

from tests.conftest import NEWEST_POSTGRES
from tests.postgres import PostgresServer, running_postgres


@pytest.fixture
def stoppable_postgres() -> Iterator[PostgresServer]:
    """A server of its own for a test that stops it."""
    with running_postgres(NEWEST_POSTGRES) as server:
        yield server
