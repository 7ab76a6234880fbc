"""The town of this room's tests."""

from collections.abc import AsyncIterator

import pytest

from relay.db import Database
from relay.recovery import Ledger
from relay.testing.clock import FakeClock
from tests.census.town import Town


@pytest.fixture
async def town(database: Database, clock: FakeClock) -> AsyncIterator[Town]:
    """The application `shop` on one database, and nobody connected."""
    town = Town(database, clock)
    async with town:
        await town.add_application()
        yield town


@pytest.fixture
def ledger(town: Town) -> Ledger:
    """The operator's side of the ledger, on the same rows."""
    return Ledger(town.store, town.audit)
