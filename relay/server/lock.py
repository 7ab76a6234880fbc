"""
The right to be the only server of a database.

A server that starts gives every executor a fresh grace and frees the recoveries that
nobody in its own process works on, so a second one beside it would order living work
to be recovered. Until instances know each other, one runs at a time.

- SQLite: a lock on a file, see `relay.store.lockfile`. A second server is refused.
- PostgreSQL: a lock of the database on a connection of its own. A second server waits
  for its turn, because its predecessor may be about to end. The connection can be lost;
  so the lock is asked for again every few seconds, and taken again if need be. If
  another server was faster, nothing can be done but stop, and in order: the executors
  are as alive as before.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import timedelta
from itertools import chain

import structlog

from relay.clock import Clock
from relay.db import Database, SessionLock
from relay.errors import StoreLockedError, StoreUnavailableError
from relay.server.database import cannot_keep_data
from relay.server.loops import growing_pauses, kept_running
from relay.store.lockfile import LockFile
from relay.tasks import TaskSet

logger = structlog.get_logger(__name__)

SERVER_LOCK = 0x52454C41592D31
"""The lock's key, "RELAY-1"; not the one that guards migrations."""

CHECK_INTERVAL = timedelta(seconds=3)


@asynccontextmanager
async def only_server(database: Database, clock: Clock) -> AsyncIterator[asyncio.Event]:
    """
    The right to be the only server of `database`, for the time of the block.

    Waits on PostgreSQL until it can be had.

    Yields:
        An event that is set when another server has taken the right away; then the
        block has to end.

    Raises:
        SettingsError: the directory of the SQLite file cannot be used.
        StoreLockedError: another server has the SQLite file, or (at the end of the
            block) has taken the PostgreSQL database.
    """
    replaced = asyncio.Event()
    if database.path is not None:
        with ExitStack() as stack:
            try:
                stack.enter_context(LockFile(database.path))
            except OSError as error:
                raise cannot_keep_data(database.path.parent, error) from None
            yield replaced
        return
    async with AsyncExitStack() as connection:
        lock = database.open_session_lock(SERVER_LOCK)
        connection.push_async_callback(lock.close)
        await wait_for_turn(lock, clock)
        async with TaskSet("server lock") as tasks:
            tasks.spawn(
                kept_running("watch", lambda: watch(lock, replaced, clock), clock),
                name="watch",
            )
            yield replaced
    if replaced.is_set():
        raise StoreLockedError("the database")


async def wait_for_turn(lock: SessionLock, clock: Clock) -> None:
    """Return with `lock` taken, when no other server has it any more."""
    for pause in growing_pauses():
        try:
            if await lock.hold():
                return
        except StoreUnavailableError as error:
            logger.warning(
                "database_unavailable",
                reason=error.reason,
                next_try_in_secs=pause.total_seconds(),
            )
        else:
            logger.warning(
                "waiting_for_other_server",
                reason="another Relay server uses this database; this one starts when"
                " that has stopped",
                next_try_in_secs=pause.total_seconds(),
            )
        await clock.sleep(pause)


async def watch(lock: SessionLock, replaced: asyncio.Event, clock: Clock) -> None:
    """Keep `lock` for as long as it can be kept; sets `replaced` when it is gone."""
    while True:
        await clock.sleep(CHECK_INTERVAL)
        if not replaced.is_set() and not await _keep(lock, clock):
            logger.error(
                "server_replaced",
                reason="another Relay server took this database while the connection"
                " of the lock was lost; this one stops",
            )
            replaced.set()


async def _keep(lock: SessionLock, clock: Clock) -> bool:
    # At once the first time: whoever waits for its turn shall not get it only because
    # a connection was cut.
    pauses = chain([timedelta(0)], growing_pauses())
    was_lost = False
    while True:
        try:
            is_ours = await lock.hold()
        except StoreUnavailableError as error:
            was_lost, pause = True, next(pauses)
            logger.warning(
                "server_lock_lost",
                reason=error.reason,
                next_try_in_secs=pause.total_seconds(),
            )
            await clock.sleep(pause)
        else:
            if is_ours and was_lost:
                logger.info("server_lock_taken_again")
            return is_ours
