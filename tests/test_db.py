"""The wall between Relay and its databases."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from relay.db import Database, Instant, Json, Span, Transaction
from relay.errors import SettingsError, StoreUnavailableError
from relay.testing.clock import START, FakeClock
from tests.postgres import PostgresServer, running_postgres

PASSWORD = "marker-secret"

sample = Table(
    "sample",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Instant),
    Column("span", Span),
    Column("data", Json),
    Column("name", String, unique=True),
)


@pytest.fixture
async def samples(database: Database) -> Database:
    """A database with the table `sample`."""
    async with database.transaction(write=True) as transaction:
        await transaction.run_sync(sample.metadata.create_all)
    return database


async def keep(transaction: Transaction, **values: object) -> None:
    await transaction.execute(sample.insert().values(**values))


# --- what is stored ---------------------------------------------------------------


@pytest.mark.parametrize(
    "at",
    [
        datetime.min.replace(tzinfo=UTC) + timedelta(days=2000),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=timezone(timedelta(hours=-11))),
        datetime(2036, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
async def test_an_instant_comes_back_exact_and_in_utc(
    samples: Database, at: datetime
) -> None:
    """To the microsecond, whatever its time zone was."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1, at=at)

    async with samples.transaction(write=False) as transaction:
        found = (await transaction.execute(select(sample.c.at))).scalar_one()

    assert found == at
    assert found.tzinfo is UTC


async def test_a_naive_datetime_is_refused(samples: Database) -> None:
    """Neither stored nor compared: nobody knows which moment it means."""
    naive = START.replace(tzinfo=None)

    for statement in (
        sample.insert().values(id=1, at=naive),
        select(sample).where(sample.c.at < naive),
    ):
        with pytest.raises(StatementError, match="naive"):
            async with samples.transaction(write=True) as transaction:
                await transaction.execute(statement)

    async with samples.transaction(write=False) as transaction:
        assert (await transaction.execute(select(sample))).all() == []


async def test_a_span_is_kept_in_milliseconds(samples: Database) -> None:
    """Ten years fit; what is finer than a millisecond is cut off."""
    spans = [timedelta(days=3653), timedelta(milliseconds=-1), timedelta(0), None]
    async with samples.transaction(write=True) as transaction:
        for place, span in enumerate(spans):
            await keep(transaction, id=place, span=span)
        await keep(transaction, id=9, span=timedelta(microseconds=1999))

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(select(sample.c.span).order_by(sample.c.id))
        assert found.scalars().all() == [*spans, timedelta(milliseconds=1)]


async def test_json_keeps_what_json_can_say(samples: Database) -> None:
    """Unicode, NUL characters and huge numbers; `None` is NULL."""
    values = [{"ü": ["\0", 2**70, 1.5, None, True]}, [], "", 0, None]
    async with samples.transaction(write=True) as transaction:
        for place, value in enumerate(values):
            await keep(transaction, id=place, data=value)

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(select(sample.c.data).order_by(sample.c.id))
        assert found.scalars().all() == values
        nulls = await transaction.execute(
            select(sample.c.id).where(sample.c.data.is_(None))
        )
        assert nulls.scalars().all() == [4]


async def test_a_number_that_json_does_not_know_is_refused(samples: Database) -> None:
    """NaN would be stored on one engine and refused by the other."""
    with pytest.raises(StatementError):
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1, data=float("nan"))


# --- transactions -----------------------------------------------------------------


async def test_now_is_the_databases_clock_read_once(database_url: str) -> None:
    """Without a clock of ours, `now` is aware, in UTC, and does not move."""
    database = Database.open(database_url)
    before = datetime.now(UTC)  # noqa: TID251 - compared with the database's clock

    async with database.transaction(write=False) as transaction:
        first = transaction.now
        await transaction.execute(select(1))
        second = transaction.now
    await database.close()

    assert first == second
    assert first.tzinfo is UTC
    assert abs(first - before) < timedelta(minutes=1)


async def test_now_is_the_given_clocks(database: Database, clock: FakeClock) -> None:
    """Tests own the time of the database as well."""
    clock.jump(timedelta(seconds=5))

    async with database.transaction(write=True) as transaction:
        assert transaction.now == START + timedelta(seconds=5)


async def test_an_error_undoes_the_transaction(samples: Database) -> None:
    """Nothing of a block that failed is kept."""

    async def fail() -> None:
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()

    async with samples.transaction(write=False) as transaction:
        assert (await transaction.execute(select(sample))).all() == []


async def test_cancelling_undoes_the_transaction(samples: Database) -> None:
    """A task that is cancelled inside a transaction leaves no row and no connection."""
    is_inside = asyncio.Event()

    async def hang() -> None:
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1)
            is_inside.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(hang())
        await is_inside.wait()
        task.cancel()

    async with samples.transaction(write=True) as transaction:
        assert (await transaction.execute(select(sample))).all() == []


async def test_cancelling_a_writer_that_waits_leaves_nothing_behind(
    samples: Database,
) -> None:
    """It gives its place up; those who come later are served."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)

    async def wait_in_vain() -> None:
        async with samples.transaction(write=True) as transaction:
            await transaction.lock_rows(sample, sample.c.id == 1)

    async with samples.transaction(write=True) as transaction:
        await transaction.execute(sample.update().values(name="held"))
        waiting = asyncio.gather(wait_in_vain(), wait_in_vain())
        await FakeClock.settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    await wait_in_vain()
    assert samples.connections_in_use == 0


async def test_a_reading_transaction_cannot_write(samples: Database) -> None:
    """A forgotten `write` is found at the first statement, on both engines."""
    with pytest.raises(DBAPIError, match=r"readonly|read-only"):
        async with samples.transaction(write=False) as transaction:
            await keep(transaction, id=1)

    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)


async def test_writers_that_read_before_they_write_lose_nothing(
    samples: Database,
) -> None:
    """Each of many writers at once sees what the one before it wrote."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=0, name="0")

    async def count() -> None:
        async with samples.transaction(write=True) as transaction:
            await transaction.lock_rows(sample, sample.c.id == 0)
            result = await transaction.execute(select(sample.c.name))
            number = int(result.scalar_one())
            await transaction.execute(sample.update().values(name=str(number + 1)))

    await asyncio.gather(*(count() for _ in range(20)))

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(select(sample.c.name))
        assert found.scalar_one() == "20"


async def test_insert_new_leaves_the_transaction_usable(samples: Database) -> None:
    """A row that a unique rule forbids is not inserted, and the rest goes on."""
    async with samples.transaction(write=True) as transaction:
        assert await transaction.insert_new(sample, {"id": 1, "name": "a"})
        assert not await transaction.insert_new(sample, {"id": 2, "name": "a"})
        assert not await transaction.insert_new(sample, {"id": 1, "name": "b"})
        assert await transaction.insert_new(sample, {"id": 2, "name": "b"})

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(
            select(sample.c.id, sample.c.name).order_by(sample.c.id)
        )
        assert [tuple(row) for row in found] == [(1, "a"), (2, "b")]


async def test_rows_are_given_as_a_table(samples: Database) -> None:
    """Text, instants and nothing arrive as what they are, however many rows."""
    rows = [("ü'\"", START, 1), (None, None, 2), ("", START + timedelta(1), 3)]
    rows += [("many", START, number) for number in range(4, 5000)]

    async with samples.transaction(write=False) as transaction:
        given = transaction.table_of(
            {"word": String(), "at": Instant(), "number": Integer()}, rows
        )
        found = await transaction.execute(select(given).order_by(given.c.number))
        assert [tuple(row) for row in found] == rows


# --- what is absence and what is an error -----------------------------------------


async def test_a_broken_rule_is_no_absence(samples: Database) -> None:
    """Integrity and programming errors are ours to see."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)

    with pytest.raises(IntegrityError):
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1)
    with pytest.raises(DBAPIError):
        async with samples.transaction(write=True) as transaction:
            await transaction.execute(text("SELECT nothing FROM nowhere"))


async def test_an_error_of_the_block_is_not_taken_for_absence(
    database: Database,
) -> None:
    """A time-out or a socket error of the caller passes as it is."""
    for error in (TimeoutError("mine"), OSError("mine")):
        with pytest.raises(type(error), match="mine"):
            async with database.transaction(write=False):
                raise error


async def test_parameters_are_not_in_errors(samples: Database) -> None:
    """A value that broke a rule may be a secret."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)

    with pytest.raises(IntegrityError) as caught:
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1, data=PASSWORD)

    assert PASSWORD not in str(caught.value)


async def test_sqlite_that_another_process_keeps_locked_is_absent(
    migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer gives up after the busy time-out, and works when the lock is gone."""
    monkeypatch.setattr("relay.db.database._SQLITE_BUSY_TIMEOUT", timedelta(0))
    path = tmp_path / "locked.db"
    shutil.copyfile(migrated_file, path)
    other = sqlite3.connect(path, isolation_level=None)
    database = Database.open(f"sqlite:///{path}")
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailableError, match="locked"):
        async with database.transaction(write=True):
            pass
    async with database.transaction(write=False) as transaction:
        await transaction.execute(select(1))

    other.execute("ROLLBACK")
    async with database.transaction(write=True):
        pass
    other.close()
    await database.close()


async def test_sqlite_that_may_not_be_written_is_an_error(
    migrated_file: Path, tmp_path: Path
) -> None:
    """It does not pass by itself; reading goes on."""
    path = tmp_path / "closed.db"
    shutil.copyfile(migrated_file, path)
    database = Database.open(f"sqlite:///file:{path}?mode=ro&uri=true")

    with pytest.raises(SettingsError, match=r"closed\.db cannot be used .*readonly"):
        async with database.transaction(write=True) as transaction:
            await transaction.execute(text("DELETE FROM application"))
    async with database.transaction(write=False) as transaction:
        await transaction.execute(select(1))

    await database.close()


@pytest.mark.parametrize("write", [True, False])
async def test_a_file_that_is_no_database_is_an_error(
    tmp_path: Path, write: bool
) -> None:
    """And not absence, neither at the first connection nor at the first statement."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear database, " * 100)
    database = Database.open(f"sqlite:///{path}")

    with pytest.raises(SettingsError, match=rf"{path} cannot be used .*not a database"):
        async with database.transaction(write=write) as transaction:
            await transaction.execute(text("SELECT * FROM sqlite_master"))

    await database.close()


async def test_sqlite_in_a_missing_directory_is_absent(tmp_path: Path) -> None:
    """A file that cannot be opened is told as that."""
    database = Database.open(f"sqlite:///{tmp_path / 'missing' / 'relay.db'}")

    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailableError, match="unable to open"):
        async with database.transaction(write=False):
            pass

    await database.close()
    # The driver does not wait for the thread of a connection that never opened, and
    # that thread still has something to tell the event loop.
    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join)


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


# --- addresses --------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{PASSWORD}@host:port/relay",
        f"//user:{PASSWORD}@host/relay",
        f"mysql://user:{PASSWORD}@host/relay",
        f"postgresql+psycopg://user:{PASSWORD}@host/relay",
        "sqlite://",
        "sqlite:///:memory:",
        "",
    ],
)
def test_an_address_that_relay_cannot_use_is_refused_without_its_password(
    url: str,
) -> None:
    """The error says what is wrong and repeats no secret, in its causes neither."""
    with pytest.raises(SettingsError) as caught:
        Database.open(url)

    told: BaseException | None = caught.value
    while told is not None:
        assert PASSWORD not in str(told)
        told = told.__cause__


async def test_a_wrong_password_is_absence_and_not_told(
    postgres_server: PostgresServer,
) -> None:
    """A server that does not let us in is one that does not answer us."""
    url = postgres_server.create_database().url
    database = Database.open(url.replace(postgres_server.password, PASSWORD))

    with pytest.raises(StoreUnavailableError, match="authentication") as caught:
        async with database.transaction(write=False):
            pass

    assert PASSWORD not in repr(caught.value) + repr(caught.value.__cause__)
    await database.close()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
async def test_the_usual_spellings_of_an_address_work(
    postgres_server: PostgresServer, scheme: str
) -> None:
    """Every name of the driver is accepted, and libpq's `sslmode`."""
    url = postgres_server.create_database().url
    database = Database.open(
        url.replace("postgresql://", f"{scheme}://") + "?sslmode=disable"
    )

    async with database.transaction(write=False) as transaction:
        await transaction.execute(select(1))

    assert database.dialect == "postgresql"
    assert database.path is None
    await database.close()


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
def test_an_sqlite_database_knows_its_file(scheme: str, tmp_path: Path) -> None:
    """The server puts its lock file beside it."""
    database = Database.open(f"{scheme}:///{tmp_path / 'relay.db'}")

    assert database.dialect == "sqlite"
    assert database.path == tmp_path / "relay.db"
