"""The desk of this room's tests."""

import pytest

from relay.db import Database
from tests.operations.crew import Crew
from tests.operations.desk import Desk


@pytest.fixture
async def desk(database: Database) -> Desk:
    """The use-cases on the application `shop`, with executors that answer nothing."""
    desk = Desk(database)
    await desk.open()
    return desk


@pytest.fixture
def crew(database: Database) -> Crew:
    """The application `shop`, and nobody connected."""
    return Crew(database)
