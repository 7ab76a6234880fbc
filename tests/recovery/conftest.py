"""The stage of this room's tests."""

from collections.abc import AsyncIterator

import pytest

from relay.db import Database
from relay.recovery import Ledger
from relay.testing.clock import FakeClock
from tests.recovery.stage import Stage


@pytest.fixture
async def stage(database: Database, clock: FakeClock) -> AsyncIterator[Stage]:
    """An organization with the application `shop`, and nobody connected."""
    async with Stage(database, clock) as stage:
        await stage.add_application()
        yield stage


@pytest.fixture
def ledger(stage: Stage) -> Ledger:
    """The operator's side of the ledger, on the same rows."""
    return Ledger(stage.store, stage.audit)
