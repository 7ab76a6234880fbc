"""The pools that lead to one database, and how a transaction begins and ends."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import (
    URL,
    Connection,
    DateTime,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from relay.clock import Clock, SystemClock
from relay.db.absence import refuse_unusable_file, translated
from relay.db.session_lock import SessionLock
from relay.db.transaction import Transaction, finish
from relay.db.types import MILLISECOND
from relay.errors import SettingsError
from relay.ids import new_id

_SQLITE_READERS = 5
_SQLITE_BUSY_TIMEOUT = timedelta(seconds=5)
_POOL_SIZE = 10
_POOL_WAIT = timedelta(seconds=15)
_CONNECT_TIMEOUT = timedelta(seconds=10)
_STATEMENT_TIMEOUT = timedelta(seconds=30)
_LOCK_TIMEOUT = timedelta(seconds=10)
_IDLE_TRANSACTION_TIMEOUT = timedelta(seconds=60)
# Longer than the server's own limit: this one is for a server that says nothing at all.
_SILENCE_TIMEOUT = _STATEMENT_TIMEOUT + timedelta(seconds=10)

# A holder whose machine is gone must not keep the lock for the two hours that TCP
# would give it.
_LOCK_SESSION = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}


class Database:
    """
    One database and the pools that lead to it.

    `path` is the file of an SQLite database, and `None` for PostgreSQL.
    """

    def __init__(
        self,
        *,
        dialect: Literal["sqlite", "postgresql"],
        writer: AsyncEngine,
        reader: AsyncEngine,
        path: Path | None,
        clock: Clock | None,
    ) -> None:
        self.dialect: Literal["sqlite", "postgresql"] = dialect
        self.path = path
        self._writer = writer
        self._reader = reader
        self._clock = clock

    @classmethod
    def open(cls, url: str, *, clock: Clock | None = None) -> "Database":
        """
        Prepare the way to the database at `url`; nothing is connected yet.

        Args:
            url: `sqlite:///…` (a file) or `postgresql://…`, a driver may be named.
            clock: stands in for the database's clock.

        Raises:
            SettingsError: `url` names no database that Relay can use.
        """
        parsed = _parse(url)
        if parsed.drivername == "sqlite+aiosqlite":
            return cls._open_sqlite(parsed, clock or SystemClock())
        return cls._open_postgresql(parsed, clock)

    @classmethod
    def _open_sqlite(cls, url: URL, clock: Clock) -> "Database":
        if not url.database or url.database == ":memory:":
            raise SettingsError("an SQLite database of Relay needs a file")
        open_engine = partial(
            create_async_engine,
            url,
            # The driver's own guesses about when to begin are off: we say when.
            connect_args={
                "isolation_level": None,
                "timeout": _SQLITE_BUSY_TIMEOUT.total_seconds(),
            },
            pool_timeout=_POOL_WAIT.total_seconds(),
            max_overflow=0,
            json_serializer=_dump_json,
            hide_parameters=True,
        )
        # A pool of one is the queue of writers: inside this process nobody ever finds
        # the file locked, only another process can make us wait.
        writer = open_engine(pool_size=1)
        _run_on_connect(
            writer,
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=FULL",
            "PRAGMA foreign_keys=ON",
        )
        _begin_with(writer, "BEGIN IMMEDIATE")
        reader = open_engine(pool_size=_SQLITE_READERS)
        _run_on_connect(reader, "PRAGMA query_only=ON")
        _begin_with(reader, "BEGIN")
        refuse_unusable_file(writer, is_writing=True)
        refuse_unusable_file(reader, is_writing=False)
        return cls(
            dialect="sqlite",
            writer=writer,
            reader=reader,
            path=Path(url.database),
            clock=clock,
        )

    @classmethod
    def _open_postgresql(cls, url: URL, clock: Clock | None) -> "Database":
        engine = create_async_engine(
            url,
            connect_args={
                "timeout": _CONNECT_TIMEOUT.total_seconds(),
                "command_timeout": _SILENCE_TIMEOUT.total_seconds(),
                "server_settings": {
                    "application_name": "relay",
                    "timezone": "UTC",
                    "jit": "off",
                    "statement_timeout": _in_milliseconds(_STATEMENT_TIMEOUT),
                    "lock_timeout": _in_milliseconds(_LOCK_TIMEOUT),
                    "idle_in_transaction_session_timeout": _in_milliseconds(
                        _IDLE_TRANSACTION_TIMEOUT
                    ),
                },
            },
            pool_size=_POOL_SIZE,
            max_overflow=0,
            pool_timeout=_POOL_WAIT.total_seconds(),
            pool_pre_ping=True,
            json_serializer=_dump_json,
            hide_parameters=True,
        )
        return cls(
            dialect="postgresql",
            writer=engine,
            # The same pool; only the transactions begin differently.
            reader=engine.execution_options(postgresql_readonly=True),
            path=None,
            clock=clock,
        )

    @asynccontextmanager
    async def transaction(self, *, write: bool) -> AsyncIterator[Transaction]:
        """
        Open a transaction: committed at the end of the block, undone on an error.

        Raises:
            StoreUnavailableError: the database did not answer; after a commit that
                failed like this the outcome is unknown.
            SettingsError: the SQLite file is read-only, damaged, or no database.
        """
        engine = self._writer if write else self._reader
        async with AsyncExitStack() as stack:
            with translated(connecting=True):
                connection = await stack.enter_async_context(engine.connect())
            with translated():
                await finish(connection, _begin(connection))
                now = await self._read_clock(connection)
            yield Transaction(connection, now)
            with translated():
                await finish(connection, connection.commit())

    def open_session_lock(self, key: int) -> SessionLock:
        """
        A lock of this PostgreSQL database, not taken yet; nothing is connected.

        Args:
            key: what the lock is called in this database; 63 bits.
        """
        # The name tells a connection that we lost from one of somebody else.
        name = f"relay server {new_id()}"
        engine = create_async_engine(
            self._writer.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "timeout": _CONNECT_TIMEOUT.total_seconds(),
                "command_timeout": _CONNECT_TIMEOUT.total_seconds(),
                "server_settings": {"application_name": name, **_LOCK_SESSION},
            },
            hide_parameters=True,
        )
        return SessionLock(engine, key, name)

    async def close(self) -> None:
        """Close every pooled connection; open transactions must have ended."""
        await self._writer.dispose()
        await self._reader.dispose()

    @property
    def connections_in_use(self) -> int:
        """How many connections are taken from the pools at this moment."""
        pools = {self._writer.pool, self._reader.pool}
        return sum(pool.checkedout() for pool in pools)  # type: ignore[attr-defined]  # both are queue pools

    async def _read_clock(self, connection: AsyncConnection) -> datetime:
        if self._clock is not None:
            return self._clock.now()
        result = await connection.execute(
            select(func.clock_timestamp(type_=DateTime(timezone=True)))
        )
        now: datetime = result.scalar_one()
        return now.astimezone(UTC)


async def _begin(connection: AsyncConnection) -> None:
    await connection.begin()


def _parse(url: str) -> URL:
    # Neither error may show the text it failed on: a password with a stray "@" or "/"
    # would be in it. Hence `from None`.
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SettingsError(
            "the database URL cannot be read; are its user and password"
            " percent-encoded?"
        ) from None
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise SettingsError(
            f"a database URL starts with sqlite:// or postgresql://,"
            f" not {parsed.drivername}://"
        )
    parsed = parsed.set(drivername=driver)
    # libpq's name for it, as every hosting page prints it; asyncpg calls it `ssl`.
    if mode := parsed.query.get("sslmode"):
        parsed = parsed.difference_update_query(["sslmode"])
        parsed = parsed.update_query_dict({"ssl": mode})
    return parsed


def _run_on_connect(engine: AsyncEngine, *statements: str) -> None:
    def prepare(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()

    event.listen(engine.sync_engine, "connect", prepare)


def _begin_with(engine: AsyncEngine, statement: str) -> None:
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    event.listen(engine.sync_engine, "begin", begin)


def _in_milliseconds(span: timedelta) -> str:
    return str(span // MILLISECOND)


def _dump_json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
