"""
The schema's version: bringing it up to date, and knowing when not to touch it.

The chain of migrations is Alembic's, one for both engines. Besides it, the table
`relay_schema` holds the oldest Relay that may still work on the schema. A migration
that breaks older binaries raises it, every other leaves it alone, so during a rolling
update an older instance that meets a newer schema either works or says why it stops.
"""

from enum import StrEnum
from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, func, inspect, select, text, update

import relay
from relay.db import Database
from relay.errors import SchemaTooNewError
from relay.store.tables import relay_schema

logger = structlog.get_logger(__name__)

_ADVISORY_LOCK = 0x52454C4159  # "RELAY"; any number that nobody else takes would do


async def migrate(database: Database) -> None:
    """
    Bring the schema up to the newest version this Relay knows.

    Everything happens in one transaction, or nothing does. Of several that start at the
    same time one migrates and the others find nothing left to do.

    Raises:
        StoreUnavailableError: the database does not answer, or another migration takes
            long; try again later.
        SchemaTooNewError: the schema excludes this Relay; nothing was changed.
    """
    async with database.transaction(write=True) as transaction:
        if database.dialect == "postgresql":
            # Bounded by the statement timeout, unlike what follows: waiting for another
            # instance to migrate is fine, waiting for a lock on a busy table would make
            # everybody else queue behind us.
            await transaction.execute(
                select(func.pg_advisory_xact_lock(_ADVISORY_LOCK))
            )
            await transaction.execute(text("SET LOCAL lock_timeout = '5s'"))
        before, after = await transaction.run_sync(_upgrade)
    if before != after:
        logger.info("schema_migrated", before=before, after=after)


class SchemaState(StrEnum):
    """What this Relay can do with a schema as it is."""

    EMPTY = "empty"
    BEHIND = "behind"
    USABLE = "usable"


async def inspect_schema(database: Database) -> SchemaState:
    """
    What this Relay can do with the schema; nothing is changed.

    Raises:
        StoreUnavailableError: the database does not answer; try again later.
        SchemaTooNewError: the schema excludes this Relay.
    """
    async with database.transaction(write=False) as transaction:
        return await transaction.run_sync(_inspect)


async def downgrade(database: Database, revision: str) -> None:
    """
    Undo migrations down to `revision`; `base` undoes all of them, data included.

    Raises:
        StoreUnavailableError: the database does not answer; try again later.
    """

    def undo(connection: Connection) -> None:
        command.downgrade(_configure(connection), revision)

    async with database.transaction(write=True) as transaction:
        await transaction.run_sync(undo)


def _upgrade(connection: Connection) -> tuple[str | None, str | None]:
    before = _read_revision(connection)
    if _inspect(connection) is SchemaState.USABLE:
        return before, before
    command.upgrade(_configure(connection), "head")
    connection.execute(update(relay_schema).values(migrated_by=relay.__version__))
    return before, _read_revision(connection)


def _inspect(connection: Connection) -> SchemaState:
    _refuse_newer_schema(connection)
    revision = _read_revision(connection)
    if revision is None:
        return SchemaState.EMPTY
    chain = ScriptDirectory.from_config(_configure(connection))
    older = {script.revision for script in chain.walk_revisions()}
    older.discard(chain.get_current_head() or "")
    # One that is unknown here: a newer Relay was there, and it says that this one may
    # work with the result.
    return SchemaState.BEHIND if revision in older else SchemaState.USABLE


def _read_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_newer_schema(connection: Connection) -> None:
    if not inspect(connection).has_table(relay_schema.name):
        return
    required = connection.execute(select(relay_schema.c.min_compatible)).scalar_one()
    if _order_of(required) > _order_of(relay.__version__):
        raise SchemaTooNewError(required=required, running=relay.__version__)


def _order_of(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: `1.2.0.dev3` is as new as `1.2`."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _configure(connection: Connection) -> Config:
    config = Config()
    config.set_main_option(
        # Alembic expands percent signs in options.
        "script_location",
        str(_find_migrations()).replace("%", "%%"),
    )
    config.attributes["connection"] = connection
    return config


def _find_migrations() -> Path:
    package = Path(relay.__file__).parent
    # Inside the package in an installed wheel, beside it in a source tree.
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"
