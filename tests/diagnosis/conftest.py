"""The office of this room's tests."""

import pytest

from relay.db import Database
from tests.diagnosis.office import Office


@pytest.fixture
async def office(database: Database) -> Office:
    """The use-cases on the application `shop`, of which nothing is known yet."""
    office = Office(database)
    await office.open()
    return office
