"""An application is read once a second, and a change of ours is never missed."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from relay.errors import AuthenticationError
from relay.ids import AppName
from relay.records import ApplicationRecord
from relay.registry import LOCAL_ORGANIZATION, SHELL_ACTOR, Registry
from relay.registry.changes import ApplicationChange
from relay.registry.lookup import FRESH_FOR, ApplicationLookup
from relay.store import Store
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock

SHOP = AppName("shop")


@pytest.fixture
async def registry(make_registry: Callable[..., Registry]) -> Registry:
    registry = make_registry()
    await registry.applications.put(SHELL_ACTOR, SHOP, private_mode=None)
    return registry


async def is_private(registry: Registry) -> bool:
    record = await registry.lookup.find(SHOP)
    assert record is not None
    return record.private_mode


async def _change_elsewhere(store: Store) -> None:
    async with store.write() as work:
        old = await work.applications.find(LOCAL_ORGANIZATION, SHOP)
        assert old is not None
        await work.applications.update(replace(old, private_mode=True))


async def test_what_another_process_changes_counts_within_a_second(
    registry: Registry, store: Store, clock: FakeClock
) -> None:
    assert not await is_private(registry)
    await _change_elsewhere(store)

    await clock.advance(FRESH_FOR - timedelta(milliseconds=1))
    assert not await is_private(registry)
    await clock.advance(timedelta(milliseconds=1))
    assert await is_private(registry)


async def test_what_this_process_changes_counts_at_once(registry: Registry) -> None:
    assert not await is_private(registry)

    change = ApplicationChange(private_mode=True)
    await registry.applications.change(SHELL_ACTOR, SHOP, change)
    assert await is_private(registry)

    await registry.applications.put(SHELL_ACTOR, SHOP, private_mode=False)
    assert not await is_private(registry)

    await registry.applications.delete(SHELL_ACTOR, SHOP)
    assert await registry.lookup.find(SHOP) is None

    await registry.applications.put(SHELL_ACTOR, SHOP, private_mode=True)
    assert await is_private(registry)


async def test_a_key_revoked_by_another_process_is_refused_within_a_second(
    make_registry: Callable[..., Registry], clock: FakeClock
) -> None:
    """And one that this process revokes, at once."""
    server, shell = make_registry(auth="keys"), make_registry(auth="keys")
    texts = [
        (
            await shell.keys.create(
                SHELL_ACTOR, name, permissions=None, application_names=None
            )
        ).text
        for name in ("first", "second")
    ]
    for text in texts:
        await server.keys.authenticate(text)

    await shell.keys.revoke(SHELL_ACTOR, "first")
    await server.keys.authenticate(texts[0])
    await clock.advance(FRESH_FOR)
    with pytest.raises(AuthenticationError, match="revoked"):
        await server.keys.authenticate(texts[0])

    await server.keys.authenticate(texts[1])
    await server.keys.revoke(SHELL_ACTOR, "second")
    with pytest.raises(AuthenticationError, match="revoked"):
        await server.keys.authenticate(texts[1])


class SlowLookup(ApplicationLookup):
    """One in whose reading something happens, after it has read."""

    during: Callable[[], None] = staticmethod(lambda: None)

    async def _find_many(
        self, names: Collection[AppName]
    ) -> Mapping[AppName, ApplicationRecord]:
        found = await super()._find_many(names)
        self.during()
        return found


async def test_what_was_read_during_a_change_is_not_remembered(
    registry: Registry, store: Store, clock: FakeClock
) -> None:
    """It may be older than the change, and would hide it for a second."""
    lookup = SlowLookup(store, clock)
    lookup.during = lambda: lookup.forget(SHOP)
    before = await lookup.find(SHOP)
    assert before is not None
    assert not before.private_mode

    lookup.during = lambda: None
    await _change_elsewhere(store)

    after = await lookup.find(SHOP)
    assert after is not None
    assert after.private_mode


async def test_many_who_ask_at_once_are_one_reading(
    registry: Registry, store: Store, clock: FakeClock
) -> None:
    readings = 0

    def count() -> None:
        nonlocal readings
        readings += 1

    lookup = SlowLookup(store, clock)
    lookup.during = count
    async with TaskSet("callers") as tasks:
        asking = [tasks.spawn(lookup.find(SHOP), name=f"{n}") for n in range(20)]
        found: list[ApplicationRecord | None] = [await task for task in asking]

    assert len(set(found)) == 1
    assert readings <= 2


async def test_a_name_that_nobody_has_is_looked_for_each_time(
    registry: Registry,
) -> None:
    """Whoever registers it, in whatever process, is seen at once."""
    name = AppName("later")
    assert await registry.lookup.find(name) is None

    await registry.applications.put(SHELL_ACTOR, name, private_mode=None)

    assert await registry.lookup.find(name) is not None
