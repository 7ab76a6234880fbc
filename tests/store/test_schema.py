"""The migrations build what `tables.py` says, once, and refuse what is too new."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, delete, inspect, select, text, update

import relay
from relay.db import Database
from relay.errors import SchemaTooNewError
from relay.store.schema import SchemaState, downgrade, inspect_schema, migrate
from relay.store.tables import metadata, relay_schema
from tests.newer_schema import NEWEST, extend_migrations


@pytest.fixture
async def empty_database(empty_database_url: str) -> AsyncIterator[Database]:
    """A database without a table."""
    database = Database.open(empty_database_url)
    yield database
    await database.close()


def describe(connection: Connection) -> dict[str, Any]:
    """Everything that reflection can say about every table but Alembic's own."""
    inspector = inspect(connection)
    return {
        name: {
            "columns": {
                column["name"]: _plain(dict(column))
                for column in inspector.get_columns(name)
            },
            "primary key": inspector.get_pk_constraint(name),
            "foreign keys": _by_name(inspector.get_foreign_keys(name)),
            "unique": _by_name(inspector.get_unique_constraints(name)),
            "checks": _by_name(inspector.get_check_constraints(name)),
            "indexes": _by_name(inspector.get_indexes(name)),
            "options": inspector.get_table_options(name),
        }
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def _by_name(found: Any) -> dict[str, Any]:
    return {item["name"]: _plain(item) for item in found}


def _plain(value: Any) -> Any:
    """`value` with its SQL expressions as text, which can be compared."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return str(value)


async def test_the_migrated_schema_is_what_tables_says(
    database: Database, empty_database: Database
) -> None:
    """Columns, keys, checks, indexes and their conditions are the same."""

    def differences(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, metadata))

    async with empty_database.transaction(write=True) as transaction:
        await transaction.run_sync(metadata.create_all)
        expected = await transaction.run_sync(describe)
    async with database.transaction(write=False) as transaction:
        assert await transaction.run_sync(differences) == []
        assert await transaction.run_sync(describe) == expected


async def test_migrate_may_be_repeated(empty_database: Database) -> None:
    """A migrated database is left as it is, and knows who migrated it."""
    await migrate(empty_database)
    async with empty_database.transaction(write=False) as transaction:
        before = await transaction.run_sync(describe)

    await migrate(empty_database)

    assert await inspect_schema(empty_database) is SchemaState.USABLE
    async with empty_database.transaction(write=False) as transaction:
        assert await transaction.run_sync(describe) == before
        row = (await transaction.execute(select(relay_schema))).one()
        assert row.migrated_by == relay.__version__


async def test_servers_that_start_at_once_migrate_once(
    empty_database_url: str,
) -> None:
    """Of several processes one migrates, and all of them go on."""
    databases = [Database.open(empty_database_url) for _ in range(4)]

    await asyncio.gather(*(migrate(database) for database in databases))

    for database in databases:
        assert await inspect_schema(database) is SchemaState.USABLE
        await database.close()


async def test_a_migration_that_fails_leaves_nothing(
    empty_database: Database,
) -> None:
    """The whole chain is one transaction."""
    async with empty_database.transaction(write=True) as transaction:
        await transaction.execute(text("CREATE TABLE audit_entry (id INTEGER)"))

    with pytest.raises(Exception, match="already exists"):
        await migrate(empty_database)

    async with empty_database.transaction(write=False) as transaction:
        assert list(await transaction.run_sync(describe)) == ["audit_entry"]


async def test_a_schema_that_excludes_this_relay_is_refused(
    database: Database,
) -> None:
    """Neither inspected nor migrated: the error names both versions."""
    async with database.transaction(write=True) as transaction:
        await transaction.execute(update(relay_schema).values(min_compatible="999.1"))

    for refuse in (inspect_schema, migrate):
        with pytest.raises(SchemaTooNewError) as caught:
            await refuse(database)
        assert caught.value.required == "999.1"
        assert caught.value.running == relay.__version__


async def test_a_newer_schema_that_admits_this_relay_is_left_alone(
    database: Database,
) -> None:
    """During a rolling update the older instance starts and does not migrate."""
    async with database.transaction(write=True) as transaction:
        await transaction.execute(text("UPDATE alembic_version SET version_num='9999'"))
        await transaction.execute(update(relay_schema).values(migrated_by="999.0"))

    assert await inspect_schema(database) is SchemaState.USABLE
    await migrate(database)

    async with database.transaction(write=False) as transaction:
        row = (await transaction.execute(select(relay_schema))).one()
        assert row.migrated_by == "999.0"


@pytest.mark.parametrize(
    ("required", "running", "is_admitted"),
    [
        ("0", "0.0.0", True),
        ("1.2", "1.2.0", True),
        ("1.2.0", "1.2", True),
        ("1.2", "1.2.0.dev3", True),
        ("1.10", "1.9.9", False),
        ("1.2.1", "1.2", False),
        ("1.9", "1.10.0", True),
    ],
)
async def test_versions_are_compared_by_their_numbers(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    required: str,
    running: str,
    is_admitted: bool,
) -> None:
    """1.10 is newer than 1.9, and a development version counts as its release."""
    monkeypatch.setattr(relay, "__version__", running)
    async with database.transaction(write=True) as transaction:
        await transaction.execute(update(relay_schema).values(min_compatible=required))

    try:
        await inspect_schema(database)
    except SchemaTooNewError:
        assert not is_admitted
    else:
        assert is_admitted


async def test_an_empty_database_stays_empty_when_inspected(
    empty_database: Database,
) -> None:
    """Nothing there yet is nothing too new, and looking changes nothing."""
    assert await inspect_schema(empty_database) is SchemaState.EMPTY

    async with empty_database.transaction(write=False) as transaction:
        assert await transaction.run_sync(describe) == {}


async def test_a_schema_without_the_newest_migration_is_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Until it is migrated."""
    extend_migrations(monkeypatch, tmp_path / "migrations")
    assert await inspect_schema(database) is SchemaState.BEHIND

    await migrate(database)

    assert await inspect_schema(database) is SchemaState.USABLE
    async with database.transaction(write=False) as transaction:
        revision = await transaction.execute(text("SELECT * FROM alembic_version"))
        assert revision.scalar_one() == NEWEST


async def test_downgrade_undoes_what_migrate_did(empty_database: Database) -> None:
    """The chain runs down to nothing and up again."""
    await migrate(empty_database)

    await downgrade(empty_database, "base")

    async with empty_database.transaction(write=False) as transaction:
        assert await transaction.run_sync(describe) == {}
    await migrate(empty_database)
    assert await inspect_schema(empty_database) is SchemaState.USABLE


async def test_the_schema_has_one_row_about_itself(database: Database) -> None:
    """A second row could contradict the first."""
    async with database.transaction(write=True) as transaction:
        assert not await transaction.insert_new(
            relay_schema, {"id": 1, "min_compatible": "9", "migrated_by": "9"}
        )
        await transaction.execute(delete(relay_schema))
        with pytest.raises(Exception, match="one_row"):
            await transaction.execute(
                relay_schema.insert().values(id=2, min_compatible="9", migrated_by="9")
            )
