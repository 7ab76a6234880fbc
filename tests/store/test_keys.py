"""API keys: found by hash, revoked by name, scoped without inference."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.errors import ConflictError, NotFoundError
from relay.ids import KeyId, KeyName, OrgName
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import APP, LOCAL, OTHER_APP, make_key, register


@pytest.fixture(autouse=True)
async def applications(store: Store) -> None:
    """Two registered applications."""
    await register(store, APP, OTHER_APP)


async def test_a_key_is_found_by_its_hash_and_by_its_name(store: Store) -> None:
    """A key comes back with its permissions and its applications."""
    every = make_key("every")
    some = make_key("some", application_ids=(APP.id, OTHER_APP.id))
    none = make_key("none", application_ids=())
    async with store.write() as work:
        for key in (every, some, none):
            await work.keys.insert(key, key.name.encode())

    async with store.read() as work:
        for key in (every, some, none):
            assert await work.keys.find_by_hash(key.name.encode()) == key
            assert await work.keys.find_by_name(LOCAL, key.name) == key
        assert await work.keys.find_by_hash(b"unknown") is None
        assert await work.keys.find_by_name(OrgName("other"), every.name) is None
        assert await work.keys.list_live(LOCAL) == [every, none, some]


async def test_insert_refuses_a_live_name_and_an_unknown_organization(
    store: Store,
) -> None:
    """A name is taken as long as its key lives."""
    async with store.write() as work:
        await work.keys.insert(make_key(), b"1")
        with pytest.raises(ConflictError):
            await work.keys.insert(make_key(id=KeyId("other")), b"2")
        with pytest.raises(NotFoundError):
            await work.keys.insert(make_key("x", organization=OrgName("other")), b"3")

    async with store.read() as work:
        assert len(await work.keys.list_live(LOCAL)) == 1


async def test_a_revoked_key_is_found_by_hash_only_and_frees_its_name(
    store: Store, clock: FakeClock
) -> None:
    """Revoking names the key once; afterwards the name may be used again."""
    key = make_key(application_ids=(APP.id,))
    async with store.write() as work:
        await work.keys.insert(key, b"1")
    clock.jump(timedelta(seconds=5))
    revoked = replace(key, revoked_at=START + timedelta(seconds=5))

    async with store.write() as work:
        assert await work.keys.revoke(OrgName("other"), key.name) is None
        assert await work.keys.revoke(LOCAL, KeyName("other")) is None
        assert await work.keys.revoke(LOCAL, key.name) == revoked
        assert await work.keys.revoke(LOCAL, key.name) is None

    async with store.write() as work:
        assert await work.keys.find_by_hash(b"1") == revoked
        assert await work.keys.find_by_name(LOCAL, key.name) is None
        assert await work.keys.list_live(LOCAL) == []
        await work.keys.insert(make_key(id=KeyId("key-2")), b"2")


async def test_list_hashed_shows_what_changed_since_an_instant(
    store: Store, clock: FakeClock
) -> None:
    """A poll that asks from its last instant misses no new key and no revocation."""
    for name in ("early", "late", "live", "new"):
        clock.jump(timedelta(seconds=1))
        async with store.write() as work:
            key = make_key(name, created_at=work.now)
            await work.keys.insert(key, name.encode())
    for name in ("early", "late"):
        clock.jump(timedelta(seconds=1))
        async with store.write() as work:
            await work.keys.revoke(LOCAL, KeyName(name))

    async with store.read() as work:
        since = {
            seconds: await work.keys.list_hashed(
                changed_since=START + timedelta(seconds=seconds)
            )
            for seconds in (0, 4, 6)
        }

    assert set(since[0]) == {b"early", b"late", b"live", b"new"}
    assert set(since[4]) == {b"early", b"late", b"new"}
    assert set(since[6]) == {b"late"}
    assert since[6][b"late"].revoked_at is not None


async def test_list_hashed_shows_all_living_keys(store: Store) -> None:
    """Without an instant, as at the start of a server."""
    async with store.write() as work:
        for name in ("gone", "live"):
            await work.keys.insert(make_key(name), name.encode())
        await work.keys.revoke(LOCAL, KeyName("gone"))

    async with store.read() as work:
        keys = await work.keys.list_hashed(changed_since=None)

    assert {secret: key.name for secret, key in keys.items()} == {b"live": "live"}


async def test_touch_records_the_last_use(store: Store, clock: FakeClock) -> None:
    """Only the named keys are touched; unknown ones do no harm."""
    used, idle = make_key("used"), make_key("idle")
    async with store.write() as work:
        await work.keys.insert(used, b"1")
        await work.keys.insert(idle, b"2")
    clock.jump(timedelta(seconds=5))

    async with store.write() as work:
        assert await work.keys.touch({used.id, make_key("unknown").id}) == 1
        assert await work.keys.touch([]) == 0

    async with store.read() as work:
        assert await work.keys.list_live(LOCAL) == [
            idle,
            replace(used, last_used_at=START + timedelta(seconds=5)),
        ]


async def test_whether_there_is_any_key_is_about_live_ones(store: Store) -> None:
    """Of that organization."""
    async with store.write() as work:
        await work.organizations.ensure(LOCAL)
        assert not await work.keys.has_live(LOCAL)
        for name in ("one", "two"):
            await work.keys.insert(make_key(name), name.encode())
        assert await work.keys.has_live(LOCAL)
        assert not await work.keys.has_live(OrgName("another"))
        for name in ("one", "two"):
            await work.keys.revoke(LOCAL, KeyName(name))
        assert not await work.keys.has_live(LOCAL)
