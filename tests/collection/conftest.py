"""Fixtures of the collection."""

from collections.abc import AsyncIterator

import pytest

from relay.db import Database
from relay.testing.clock import FakeClock
from tests.collection.room import Room
from tests.recovery.stage import Stage


@pytest.fixture
async def room(database: Database, clock: FakeClock) -> AsyncIterator[Room]:
    """The application `shop`, and nobody connected."""
    async with Stage(database, clock) as stage:
        await stage.add_application()
        yield Room(stage)
