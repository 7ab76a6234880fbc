"""Fixtures of the migrations."""

from collections.abc import AsyncIterator

import pytest

from relay.db import Database
from relay.testing.clock import FakeClock
from tests.migration.yard import Yard
from tests.recovery.stage import Stage


@pytest.fixture
async def yard(database: Database, clock: FakeClock) -> AsyncIterator[Yard]:
    """The application `shop`, and nobody connected."""
    async with Stage(database, clock) as stage:
        await stage.add_application()
        yard = Yard(stage)
        yield yard
        await yard.close()
