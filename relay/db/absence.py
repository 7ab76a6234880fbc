"""
Which errors mean that the database is not there, rather than that we are wrong.

Absence passes: whoever meets it waits, or is asked to try again. What SQLite says of a
file that it can never use does not pass, and is an error of the settings.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ExceptionContext, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine

from relay.errors import SettingsError, StoreUnavailableError

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
_SQLITE_READONLY = 8
_UNUSABLE_SQLITE_CODES = frozenset(
    {
        _SQLITE_READONLY,
        11,  # SQLITE_CORRUPT
        26,  # SQLITE_NOTADB: it holds something else
    }
)


def refuse_unusable_file(engine: AsyncEngine, *, is_writing: bool) -> None:
    """
    Have every use of an SQLite file that cannot be used say so, and which it is.

    Args:
        is_writing: whether the connections are meant to write. If they are not, the
            plain code of a read-only file says that one of them tried to.
    """

    def refuse(context: ExceptionContext) -> None:
        error = context.original_exception
        code = _sqlite_code(error)
        is_forbidden_write = not is_writing and (
            getattr(error, "sqlite_errorcode", None) == _SQLITE_READONLY
        )
        if code in _UNUSABLE_SQLITE_CODES and not is_forbidden_write:
            raise SettingsError(
                f"{engine.url.database} cannot be used as the database:"
                f" {_describe(error)}"
            ) from None

    event.listen(engine.sync_engine, "handle_error", refuse)


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
    return _sqlite_code(error) in _ABSENT_SQLITE_CODES


def _sqlite_code(error: BaseException | None) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    # The upper bytes of SQLite's codes only refine the lowest one.
    return code & 0xFF if isinstance(code, int) else None


def _describe(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
