"""A lock of PostgreSQL that lasts as long as one connection."""

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay.db.absence import translated
from relay.errors import StoreUnavailableError

_HOLDER = text(
    """
    SELECT holder.application_name
    FROM pg_locks held JOIN pg_stat_activity holder USING (pid)
    WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
      AND (held.classid::bigint << 32) + held.objid::bigint = :key
      AND held.database =
          (SELECT oid FROM pg_database WHERE datname = current_database())
    """
)


class SessionLock:
    """
    A session advisory lock, on a connection that serves nothing else.

    PostgreSQL frees it when that connection ends, for whatever reason; a network that
    is gone counts after some 25 s (`Database.open_session_lock` sets the keepalives).
    So a lock that was taken is not known to be held: ask again with `hold`.

    Needs sessions of its own: a pooler that shares them between transactions (such as
    PgBouncer in transaction mode) cannot stand in between.
    """

    def __init__(self, engine: AsyncEngine, key: int, name: str) -> None:
        self._engine = engine
        self._key = key
        self._name = name
        self._connection: AsyncConnection | None = None

    async def hold(self) -> bool:
        """
        Take the lock, or see that it is still ours; a lost connection is replaced.

        Returns:
            False: another session holds it.

        Raises:
            StoreUnavailableError: the database does not answer, or the connection that
                we lost still holds the lock over there. Try again.
        """
        try:
            with translated(connecting=True):
                return await self._try()
        except StoreUnavailableError:
            await self._drop_connection()
            raise

    async def close(self) -> None:
        """Give the lock back, if we have it."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        await self._engine.dispose()

    async def _try(self) -> bool:
        if self._connection is None:
            self._connection = await self._engine.connect()
        # Whoever has it may take it again: one statement asks and takes.
        taken = await self._connection.scalar(
            select(func.pg_try_advisory_lock(bindparam("key", self._key)))
        )
        if taken:
            return True
        holder = (
            await self._connection.execute(_HOLDER, {"key": self._key})
        ).one_or_none()
        if holder is None:
            raise StoreUnavailableError("the lock changes hands")
        if holder.application_name == self._name:
            raise StoreUnavailableError("our lost connection has not ended there yet")
        return False

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with translated(connecting=True):
                await connection.invalidate()
                await connection.close()
