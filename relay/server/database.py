"""Opening the database: for a server, for a command beside one, for a migration."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never

import structlog

from relay.clock import Clock
from relay.db import Database
from relay.errors import SettingsError, StoreUnavailableError
from relay.server.loops import growing_pauses
from relay.settings import RelaySettings
from relay.store.schema import SchemaState, inspect_schema, migrate

logger = structlog.get_logger(__name__)


@asynccontextmanager
async def open_database(
    settings: RelaySettings, *, must_exist: bool = False
) -> AsyncIterator[Database]:
    """
    The database of `settings` as it is; nothing is connected yet.

    Args:
        must_exist: whether an SQLite file that is missing is an error, and not to be
            made at the first connection.

    Raises:
        SettingsError: the URL, the file or its directory cannot be used.
    """
    database = Database.open(settings.store_url)
    try:
        if database.path is not None:
            try:
                _check_file(database.path, must_exist=must_exist)
                _make_directory(database.path.parent)
            except OSError as error:
                raise cannot_keep_data(database.path.parent, error) from None
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_for_command(
    settings: RelaySettings, *, on_created: Callable[[Path], None] | None = None
) -> AsyncIterator[Database]:
    """
    The database of `settings`, ready for this Relay.

    An older schema stays as it is: a server of that age may be running on it.

    Args:
        on_created: allows to make a database where there is none, and is told the file
            if it is one. Without it that is an error: most likely the command was given
            in another directory than the server's.

    Raises:
        SettingsError: the URL or its directory cannot be used, there is no database, or
            its schema is older than this Relay.
        SchemaTooNewError: a newer Relay has migrated it.
        StoreUnavailableError: it does not answer.
    """
    async with open_database(settings, must_exist=on_created is None) as database:
        state = await inspect_schema(database)
        match state:
            case SchemaState.EMPTY:
                if on_created is None:
                    raise SettingsError(
                        "the database is empty; start the server on it, or run"
                        " `relay migrate`"
                    )
                await migrate(database)
                if database.path is not None:
                    on_created(database.path)
            case SchemaState.BEHIND:
                raise SettingsError(
                    "the schema of the database is older than this Relay;"
                    " run `relay migrate`"
                )
            case SchemaState.USABLE:
                pass
            case _:
                assert_never(state)
        yield database


@asynccontextmanager
async def open_migrated(settings: RelaySettings) -> AsyncIterator[Database]:
    """
    The database of `settings`, brought up to date at once.

    Raises:
        SettingsError: the URL or its directory cannot be used.
        SchemaTooNewError: a newer Relay has migrated it.
        StoreUnavailableError: it does not answer.
    """
    async with open_database(settings) as database:
        await migrate(database)
        yield database


async def migrate_when_there(database: Database, clock: Clock) -> None:
    """
    Migrate, and wait for a database that is away as long as it takes.

    Raises:
        SchemaTooNewError: a newer Relay has migrated it.
    """
    for pause in growing_pauses():
        try:
            await migrate(database)
        except StoreUnavailableError as error:
            logger.warning(
                "database_unavailable",
                reason=error.reason,
                next_try_in_secs=pause.total_seconds(),
            )
        else:
            return
        await clock.sleep(pause)


def cannot_keep_data(directory: Path, error: OSError) -> SettingsError:
    """What to say about a directory that the SQLite file cannot be in."""
    return SettingsError(f"cannot keep data in {directory}: {error.strerror}")


def _check_file(path: Path, *, must_exist: bool) -> None:
    # SQLite would call these "unable to open", as it does what passes by itself.
    if not path.exists():
        if must_exist:
            raise SettingsError(
                f"there is no database at {path.absolute()}; run this where the server"
                " runs, or give --data-dir or --database-url"
            )
    elif not path.is_file():
        raise SettingsError(f"{path} is no file")
    elif not os.access(path, os.R_OK | os.W_OK):
        raise SettingsError(f"{path} must be readable and writable, and is not")


def _make_directory(directory: Path) -> None:
    # The audit log and the hashes of keys are nobody else's business.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
