"""Fixtures of retention."""

from typing import Any

import pytest

from relay.db import Database
from relay.testing.clock import FakeClock
from tests.recovery.stage import Stage
from tests.retention.room import HOUR, Room, settings_of


@pytest.fixture
async def room(database: Database, clock: FakeClock) -> Any:
    async with Stage(database, clock) as stage:
        room = Room(stage)
        await room.set(settings_of(age=HOUR))
        yield room
