"""Somebody else who wants the lock that a server holds on its PostgreSQL database."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
from psycopg import sql

from relay.clock import SystemClock
from relay.server.lock import SERVER_LOCK
from relay.tasks import TaskSet

CLOCK = SystemClock()

_LOCKS = sql.SQL(
    """
    FROM pg_locks
    WHERE locktype = 'advisory'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
)


async def cut_lock_connection(url: str) -> None:
    """End, from the database's side, the connection that holds an advisory lock."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        await admin.execute(
            sql.SQL("SELECT pg_terminate_backend(pid) {} AND granted").format(_LOCKS)
        )


@asynccontextmanager
async def rival_for_the_lock(url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """
    Call what is yielded to take the lock from the server that has it.

    The rival waits for it inside the database, and so gets it before anybody who asks
    again; it keeps it until the block ends.
    """
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as rival:
        async with TaskSet("rival") as tasks:

            async def take_over() -> None:
                waiting = tasks.spawn(
                    rival.execute("SELECT pg_advisory_lock(%s)", [SERVER_LOCK]),
                    name="waiting",
                )
                async with CLOCK.timeout(timedelta(seconds=20)):
                    while not await _is_queued(url):
                        await CLOCK.sleep(timedelta(milliseconds=10))
                    await cut_lock_connection(url)
                    await waiting

            yield take_over


async def _is_queued(url: str) -> bool:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        cursor = await admin.execute(
            sql.SQL("SELECT 1 {} AND NOT granted").format(_LOCKS)
        )
        return await cursor.fetchone() is not None
