"""Opening the database: for a server, for a command beside one, for a migration."""

from collections.abc import AsyncIterator
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
async def open_database(settings: RelaySettings) -> AsyncIterator[Database]:
    """
    The database of `settings` as it is; nothing is connected yet.

    Raises:
        SettingsError: the URL or its directory cannot be used.
    """
    database = Database.open(settings.store_url)
    try:
        if database.path is not None:
            try:
                _make_directory(database.path.parent)
            except OSError as error:
                raise cannot_keep_data(database.path.parent, error) from None
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_for_command(settings: RelaySettings) -> AsyncIterator[Database]:
    """
    The database of `settings`, ready for this Relay; an empty one gets its schema.

    An older schema stays as it is: a server of that age may be running on it.

    Raises:
        SettingsError: the URL or its directory cannot be used, or the schema is older
            than this Relay.
        SchemaTooNewError: a newer Relay has migrated it.
        StoreUnavailableError: it does not answer.
    """
    async with open_database(settings) as database:
        state = await inspect_schema(database)
        match state:
            case SchemaState.EMPTY:
                await migrate(database)
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


def _make_directory(directory: Path) -> None:
    # The audit log and the hashes of keys are nobody else's business.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
