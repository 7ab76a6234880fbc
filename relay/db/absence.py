"""Which errors mean that the database is not there, rather than that we are wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from relay.errors import StoreUnavailableError

_ABSENT_SQLSTATE_CLASSES = frozenset(
    {
        "08",  # the connection is gone
        "53",  # out of connections, memory or disk
        "57",  # cancelled, shutting down, starting up
        "58",  # the server's own I/O failed
    }
)
_ABSENT_SQLSTATES = frozenset(
    {
        "40001",  # could not be serialised; undone, may be repeated
        "40P01",  # deadlock; undone, may be repeated
        "55P03",  # a lock was not to be had in time
    }
)
_ABSENT_SQLITE_CODES = frozenset(
    {
        5,  # SQLITE_BUSY: another process kept the file locked
        6,  # SQLITE_LOCKED
        10,  # SQLITE_IOERR
        13,  # SQLITE_FULL
        14,  # SQLITE_CANTOPEN
        15,  # SQLITE_PROTOCOL: the lock protocol of the write-ahead log gave up
    }
)


@contextmanager
def translated(*, connecting: bool = False) -> Iterator[None]:
    try:
        yield
    except (OSError, PoolTimeoutError) as error:
        # `TimeoutError` is an OSError; drivers let both through as they are.
        raise StoreUnavailableError(_describe(error)) from error
    except DBAPIError as error:
        # While connecting there is no statement of ours that could be wrong.
        if connecting or error.connection_invalidated or _is_absence(error.orig):
            raise StoreUnavailableError(_describe(error.orig or error)) from error
        raise


def _is_absence(error: BaseException | None) -> bool:
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str):
        return sqlstate[:2] in _ABSENT_SQLSTATE_CLASSES or sqlstate in _ABSENT_SQLSTATES
    code = getattr(error, "sqlite_errorcode", None)
    # The upper bytes of SQLite's codes only refine the lowest one.
    return isinstance(code, int) and code & 0xFF in _ABSENT_SQLITE_CODES


def _describe(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
