"""One open transaction, and what its statements need to be the same on both engines."""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    FromClause,
    Interval,
    Table,
    bindparam,
    column,
    func,
    literal,
    select,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeEngine

from relay.db.absence import translated
from relay.db.types import MICROSECOND, Instant
from relay.tasks import run_to_end

_T = TypeVar("_T")


async def finish(connection: AsyncConnection, step: Coroutine[Any, Any, _T]) -> _T:
    """
    Await one step of a transaction, on SQLite to its end.

    There a step that is cancelled in the middle leaves a connection behind whose
    transaction nobody ends, and the file locked until the garbage collector finds it.
    PostgreSQL's driver cancels the statement on the server, which may be one of half a
    minute.
    """
    if connection.dialect.name == "sqlite":
        return await run_to_end(step)
    return await step


class Transaction:
    """
    One open transaction: the door through which statements reach the database.

    `now` is the database's clock, read when the transaction began.
    """

    def __init__(self, connection: AsyncConnection, now: datetime) -> None:
        self._connection = connection
        self.now = now

    async def execute(
        self,
        statement: Executable,
        parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> CursorResult[Any]:
        """
        Run one statement; a sequence of parameters runs it once for each.

        Raises:
            StoreUnavailableError: the database is gone, and the transaction with it.
        """
        with translated():
            return await finish(
                self._connection, self._connection.execute(statement, parameters)
            )

    async def run_sync(self, work: Callable[[Connection], _T]) -> _T:
        """Hand the connection to code that knows no asyncio, such as Alembic."""
        with translated():
            return await finish(self._connection, self._connection.run_sync(work))

    async def lock_rows(self, table: Table, *criteria: ColumnElement[bool]) -> None:
        """
        Lock the matching rows until the end, in the order of their primary key.

        A statement that changes many rows visits them in an order of its own choice;
        two of them can wait for each other unless both take the rows like this first.
        SQLite locks the whole file when a writing transaction begins.
        """
        if self._is_sqlite:
            return
        keys = table.primary_key.columns
        await self.execute(
            select(*keys).where(*criteria).order_by(*keys).with_for_update()
        )

    async def insert_new(self, table: Table, *rows: Mapping[str, Any]) -> set[Any]:
        """
        Insert each row unless a unique rule forbids it.

        The transaction stays usable, which after PostgreSQL's error it would not.

        Args:
            rows: column to value, the same columns in each.

        Returns:
            The primary keys of the inserted rows, as tuples.
        """
        if not rows:
            return set()
        insert = sqlite.insert if self._is_sqlite else postgresql.insert
        statement = (
            insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
        )
        inserted = await self.execute(statement, rows)
        return {tuple(key) for key in inserted}

    def later(
        self, instant: ColumnElement[datetime], span: timedelta
    ) -> ColumnElement[datetime]:
        """The expression `instant + span`."""
        if self._is_sqlite:
            return type_coerce(
                type_coerce(instant, BigInteger) + literal(span // MICROSECOND),
                Instant,
            )
        return type_coerce(instant + literal(span, Interval), Instant)

    def table_of(
        self,
        columns: Mapping[str, TypeEngine[Any]],
        rows: Sequence[Sequence[Any]],
    ) -> FromClause:
        """
        `rows` as a table to join with, named `given`.

        However many rows, the statement stays the same text with a handful of
        parameters: a `VALUES` list of a thousand rows would be compiled anew each
        time, and that blocks the loop for tens of milliseconds.

        Args:
            columns: name to type, in the order of the values of a row.
        """
        if self._is_sqlite:
            return self._table_of_json(columns, rows)
        arrays = [
            bindparam(
                name,
                [row[place] for row in rows],
                # One, even of lists: a value of JSON can be one, too.
                ARRAY(kind, dimensions=1),
                unique=True,
            )
            for place, (name, kind) in enumerate(columns.items())
        ]
        return (
            func.unnest(*arrays)
            .table_valued(*(column(name, kind) for name, kind in columns.items()))
            .render_derived(name="given")
        )

    def _table_of_json(
        self,
        columns: Mapping[str, TypeEngine[Any]],
        rows: Sequence[Sequence[Any]],
    ) -> FromClause:
        dialect = self._connection.dialect
        encoders = [
            kind.dialect_impl(dialect).bind_processor(dialect)
            for kind in columns.values()
        ]
        text = json.dumps(
            [
                [
                    encode(value) if encode else value
                    for encode, value in zip(encoders, row, strict=True)
                ]
                for row in rows
            ]
        )
        each = func.json_each(text).table_valued("value")
        return (
            select(
                *(
                    type_coerce(
                        func.json_extract(each.c.value, f"$[{place}]"), kind
                    ).label(name)
                    for place, (name, kind) in enumerate(columns.items())
                )
            )
            .select_from(each)
            .subquery("given")
        )

    @property
    def commits_overtake(self) -> bool:
        """Whether a transaction may commit before another that began earlier."""
        return not self._is_sqlite

    @property
    def _is_sqlite(self) -> bool:
        return self._connection.dialect.name == "sqlite"
