"""
The database of the simulation: Relay's own SQL, in memory, and away when told to be.

The statements, guards and constraints are the real ones: the repositories of
`relay.store` run on an in-memory SQLite. Only the way there is replaced, so that one
transaction after another runs in the loop's own turn, in an order that a seed repeats,
and so that it can fail in each of the ways in which a database across a network does.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from random import Random
from typing import Any, Final, cast

from sqlalchemy import Connection, CursorResult, Executable, create_engine, event
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import StaticPool

from relay.db import Database, Transaction
from relay.errors import StoreUnavailableError
from relay.store.tables import metadata
from tests.simulation.clock import SimClock

HANG: Final = timedelta(seconds=15)
"""How long a database that says nothing is waited for."""


class Fault(Enum):
    """What befalls a transaction."""

    REFUSED = auto()
    """The database does not answer, and is seen not to."""

    HUNG = auto()
    """It does not answer, and that takes a while to find out."""

    UNDONE = auto()
    """The commit fails, and nothing is written."""

    UNKNOWN = auto()
    """The commit succeeds, and its answer is lost."""


@dataclass(slots=True)
class Weather:
    """
    How the database behaves now.

    `outage` befalls every transaction, `troubles` each befall one of the next. `lag`
    bounds the time on the way to it and back, in seconds; most transactions take none.
    `jumped` is how far its clock has been set off from the process's.
    """

    outage: Fault | None = None
    troubles: int = 0
    lag: float = 0.0
    jumped: timedelta = timedelta(0)

    def calm(self) -> None:
        """No more trouble; its clock stays as it is."""
        self.outage, self.troubles, self.lag = None, 0, 0.0


class SimStore:
    """
    The one database, which outlives every run of Relay.

    Attributes:
        rows: a raw connection for whoever looks at what is committed.
        committed: called in the turn of each commit that changed something.
        befell: called when a single transaction is about to fail.
    """

    def __init__(self, clock: SimClock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.weather = Weather()
        self.committed: Callable[[], None] = lambda: None
        self.befell: Callable[[Fault], None] = lambda fault: None
        self.queue = asyncio.Lock()
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"isolation_level": None, "check_same_thread": False},
            hide_parameters=True,
        )
        event.listen(engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
        metadata.create_all(engine)
        self.connection = engine.connect()
        self.rows: sqlite3.Connection = (
            self.connection.connection.driver_connection  # type: ignore[assignment]  # that of pysqlite
        )
        self.rows.execute("PRAGMA foreign_keys=ON")

    @property
    def now(self) -> datetime:
        """What the database's clock says."""
        return self.clock.now() - self.clock.jumped + self.weather.jumped

    def seconds_until(self, instant: int) -> float:
        """The seconds until an instant as it stands in a row, in microseconds."""
        return instant / 1e6 - self.now.timestamp()

    def open(self) -> "SimDatabase":
        """The way to it for one run of Relay."""
        return SimDatabase(self)

    def close(self) -> None:
        """Forget everything."""
        self.connection.close()
        self.connection.engine.dispose()

    def draw_fault(self) -> Fault | None:
        """What befalls the transaction that begins now."""
        if self.weather.outage is not None:
            return self.weather.outage
        if self.weather.troubles and self.random.random() < 0.5:
            self.weather.troubles -= 1
            fault = self.random.choice(list(Fault))
            self.befell(fault)
            return fault
        return None

    def draw_lag(self) -> timedelta:
        """How long it takes to get there, or back."""
        if not self.weather.lag or self.random.random() < 0.7:
            return timedelta(0)
        return timedelta(seconds=self.random.random() * self.weather.lag)


class SimDatabase(Database):
    """
    A `relay.db.Database` without pools: transactions run one after another.

    While one is open nobody else reads or writes, and its statements take no time; time
    passes on the way to it, while it is open, and on the way back.
    """

    def __init__(self, store: SimStore) -> None:
        super().__init__(
            dialect="sqlite",
            writer=cast(Any, None),
            reader=cast(Any, None),
            path=None,
            clock=None,
        )
        self._store = store
        self.is_cut = False

    @asynccontextmanager
    async def transaction(self, *, write: bool) -> AsyncIterator[Transaction]:
        store, clock = self._store, self._store.clock
        fault = store.draw_fault()
        if fault is Fault.HUNG:
            await clock.sleep(HANG)
        if fault is Fault.HUNG or fault is Fault.REFUSED:
            raise StoreUnavailableError("the simulated database is away")
        await _pass(clock, store.draw_lag())
        async with store.queue:
            if self.is_cut:
                raise StoreUnavailableError("this run of Relay has ended")
            changes = store.rows.total_changes
            with store.connection.begin() as begun:
                connection = _InThisTurn(store.connection)
                yield Transaction(cast(AsyncConnection, connection), store.now)
                await _pass(clock, store.draw_lag())
                if fault is Fault.UNDONE and write:
                    begun.rollback()
                    raise StoreUnavailableError("the commit failed")
            if store.rows.total_changes != changes:
                assert write, "a transaction that may only read has written"
                store.committed()
        await _pass(clock, store.draw_lag())
        if fault is Fault.UNKNOWN and write:
            raise StoreUnavailableError("nobody knows whether it was committed")

    async def close(self) -> None:
        """Nothing is pooled."""

    @property
    def connections_in_use(self) -> int:
        return int(self._store.queue.locked())


class _InThisTurn:
    """What a `Transaction` uses of an `AsyncConnection`, without ever waiting."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def dialect(self) -> Dialect:
        return self._connection.dialect

    async def execute(
        self,
        statement: Executable,
        parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)


async def _pass(clock: SimClock, span: timedelta) -> None:
    if span:
        await clock.sleep(span)
