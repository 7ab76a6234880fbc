"""A registry on each engine, in both modes."""

from collections.abc import Callable
from typing import Any

import pytest

from relay.audit import AuditWriter
from relay.db import Database
from relay.registry import LOCAL_ORGANIZATION, Registry
from relay.settings import RelaySettings
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.registry.outages import FragileStore
from tests.registry.sockets import RecordingSockets


@pytest.fixture
def sockets() -> RecordingSockets:
    return RecordingSockets()


@pytest.fixture
def store(database: Database) -> FragileStore:
    """A store without a row, which can go away."""
    return FragileStore(database)


@pytest.fixture
async def make_registry(
    store: FragileStore, sockets: RecordingSockets, clock: FakeClock
) -> Callable[..., Registry]:
    """Settings by field name to a registry; all share the store and the sockets."""
    async with store.write() as work:
        await work.organizations.ensure(LOCAL_ORGANIZATION)

    def make(**given: Any) -> Registry:
        return Registry(
            store=store,
            audit=AuditWriter(Metrics()),
            settings=RelaySettings(**given),
            clock=clock,
            hub=sockets,
            recheck_deadlines=lambda: None,
        )

    return make


@pytest.fixture
def local(make_registry: Callable[..., Registry]) -> Registry:
    """A registry in local mode."""
    return make_registry()


@pytest.fixture
def keyed(make_registry: Callable[..., Registry]) -> Registry:
    """A registry that asks for keys."""
    return make_registry(auth="keys")
