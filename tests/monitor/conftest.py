"""A monitor on a store whose clock the tests own."""

import pytest

from relay.db import Database
from relay.testing.clock import FakeClock
from tests.conftest import SQLITE
from tests.monitor.scene import Scene


@pytest.fixture
def engine_name(request: pytest.FixtureRequest) -> str:
    """SQLite, unless a test names another engine: the store's own tests know all."""
    name: str = getattr(request, "param", SQLITE)
    return name


@pytest.fixture
async def scene(database: Database, clock: FakeClock) -> Scene:
    """A started monitor of one registered application with a grace of 30 s."""
    scene = Scene(database, clock)
    await scene.register()
    await scene.monitor.start()
    return scene
