"""The desk of this room's tests."""

import pytest

from relay.db import Database
from tests.operations.desk import Desk


@pytest.fixture
async def desk(database: Database) -> Desk:
    """The use-cases on the application `shop`, with executors that answer nothing."""
    desk = Desk(database)
    await desk.open()
    return desk
