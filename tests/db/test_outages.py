"""A PostgreSQL that goes away, hangs or gives up is absent."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy import select, text

from relay.db import Database
from relay.errors import StoreUnavailableError
from tests.db.samples import keep, sample
from tests.postgres import PostgresServer, running_postgres


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that a test may stop."""
    with running_postgres(18) as server:
        yield server


@pytest.fixture
async def own_database(own_server: PostgresServer) -> AsyncIterator[Database]:
    """An empty database on `own_server`; the server runs."""
    own_server.start()
    database = Database.open(own_server.create_database().url)
    yield database
    await database.close()


async def test_a_server_that_is_down_is_absent_until_it_is_back(
    own_server: PostgresServer, own_database: Database
) -> None:
    """Every transaction says so, and a pool of dead connections does no harm later."""
    async with own_database.transaction(write=True) as transaction:
        await transaction.execute(select(1))

    own_server.stop()
    for write in (False, True):
        with pytest.raises(StoreUnavailableError):
            async with own_database.transaction(write=write):
                pass

    own_server.start()
    async with own_database.transaction(write=True) as transaction:
        await transaction.execute(select(1))


async def test_a_server_that_stops_in_mid_transaction_is_absent(
    own_server: PostgresServer, own_database: Database
) -> None:
    """The next statement says so, and so does the commit."""

    async def work(*, is_to_ask_again: bool) -> None:
        own_server.start()
        async with own_database.transaction(write=True) as transaction:
            await transaction.execute(select(1))
            own_server.stop()
            if is_to_ask_again:
                await transaction.execute(select(1))

    for is_to_ask_again in (True, False):
        with pytest.raises(StoreUnavailableError):
            await work(is_to_ask_again=is_to_ask_again)

    assert own_database.connections_in_use == 0


async def test_a_session_ended_by_the_server_is_absence(
    postgres_server: PostgresServer,
) -> None:
    """An administrator's command ends one transaction and not the next."""
    parts = postgres_server.create_database()
    database = Database.open(parts.url)

    async def work() -> None:
        async with database.transaction(write=True) as transaction:
            postgres_server.end_connections(parts.name)
            await transaction.execute(select(1))

    with pytest.raises(StoreUnavailableError):
        await work()
    async with database.transaction(write=True) as transaction:
        await transaction.execute(select(1))

    await database.close()
    postgres_server.drop_database(parts.name)


async def test_a_statement_that_takes_too_long_is_absence(
    postgres_server: PostgresServer,
) -> None:
    """The server's own limit ends it; the caller may try again."""
    database = Database.open(postgres_server.create_database().url)

    async def work() -> None:
        async with database.transaction(write=True) as transaction:
            await transaction.execute(text("SET LOCAL statement_timeout = '10ms'"))
            await transaction.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(StoreUnavailableError, match="timeout"):
        await work()

    await database.close()


async def test_a_deadlock_is_absence(postgres_server: PostgresServer) -> None:
    """The transaction that the server gave up may be repeated."""
    database = Database.open(postgres_server.create_database().url)
    async with database.transaction(write=True) as transaction:
        await transaction.run_sync(sample.metadata.create_all)
        await keep(transaction, id=1)
        await keep(transaction, id=2)
    both_hold_one = asyncio.Barrier(2)

    async def take(first: int, second: int) -> bool:
        try:
            async with database.transaction(write=True) as transaction:
                await transaction.lock_rows(sample, sample.c.id == first)
                await both_hold_one.wait()
                await transaction.lock_rows(sample, sample.c.id == second)
        except StoreUnavailableError:
            return False
        return True

    assert sorted(await asyncio.gather(take(1, 2), take(2, 1))) == [False, True]
    await database.close()
