"""The unit of work: all or nothing, and what happens afterwards."""

from datetime import timedelta

import pytest

from relay.db import Database
from relay.errors import StoreUnavailableError
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import LOCAL


async def test_now_is_read_once(store: Store, clock: FakeClock) -> None:
    """Time that passes inside a unit of work does not pass for it."""
    async with store.write() as work:
        clock.jump(timedelta(seconds=5))
        assert work.now == START
        made = await work.organizations.ensure(LOCAL)

    assert made.created_at == START
    async with store.read() as work:
        assert work.now == START + timedelta(seconds=5)


async def test_an_error_undoes_everything(store: Store) -> None:
    """What a failed unit of work wrote is not there, and nobody is told."""
    told: list[str] = []

    async def fail() -> None:
        async with store.write() as work:
            await work.organizations.ensure(LOCAL)
            work.after_commit(lambda: told.append("committed"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()

    async with store.read() as work:
        assert await work.organizations.find(LOCAL) is None
    assert told == []


async def test_listeners_are_told_after_the_commit_in_order(store: Store) -> None:
    """Nobody is told while the transaction may still be undone."""
    told: list[str] = []

    async with store.write() as work:
        work.after_commit(lambda: told.append("first"))
        work.after_commit(lambda: told.append("second"))
        assert told == []

    assert told == ["first", "second"]


async def test_ping_answers_when_the_database_does(store: Store) -> None:
    """A database that answers makes no fuss."""
    await store.ping()


async def test_a_database_that_is_not_there_is_unavailable() -> None:
    """Reading, writing and asking all say so."""
    database = Database.open("postgresql://user@127.0.0.1:1/relay")
    store = Store(database)

    with pytest.raises(StoreUnavailableError):
        await store.ping()
    for open_work in (store.read, store.write):
        with pytest.raises(StoreUnavailableError):
            async with open_work():
                pass

    await database.close()
