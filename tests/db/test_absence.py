"""What is absence and what is an error."""

import asyncio
import shutil
import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from relay.db import Database
from relay.errors import SettingsError, StoreUnavailableError
from tests.db.samples import keep

PASSWORD = "marker-secret"


async def test_a_broken_rule_is_no_absence(samples: Database) -> None:
    """Integrity and programming errors are ours to see."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)

    with pytest.raises(IntegrityError):
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1)
    with pytest.raises(DBAPIError):
        async with samples.transaction(write=True) as transaction:
            await transaction.execute(text("SELECT nothing FROM nowhere"))


async def test_an_error_of_the_block_is_not_taken_for_absence(
    database: Database,
) -> None:
    """A time-out or a socket error of the caller passes as it is."""
    for error in (TimeoutError("mine"), OSError("mine")):
        with pytest.raises(type(error), match="mine"):
            async with database.transaction(write=False):
                raise error


async def test_parameters_are_not_in_errors(samples: Database) -> None:
    """A value that broke a rule may be a secret."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1)

    with pytest.raises(IntegrityError) as caught:
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1, data=PASSWORD)

    assert PASSWORD not in str(caught.value)


async def test_sqlite_that_another_process_keeps_locked_is_absent(
    migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer gives up after the busy time-out, and works when the lock is gone."""
    monkeypatch.setattr("relay.db.database._SQLITE_BUSY_TIMEOUT", timedelta(0))
    path = tmp_path / "locked.db"
    shutil.copyfile(migrated_file, path)
    other = sqlite3.connect(path, isolation_level=None)
    database = Database.open(f"sqlite:///{path}")
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailableError, match="locked"):
        async with database.transaction(write=True):
            pass
    async with database.transaction(write=False) as transaction:
        await transaction.execute(select(1))

    other.execute("ROLLBACK")
    async with database.transaction(write=True):
        pass
    other.close()
    await database.close()


async def test_sqlite_that_may_not_be_written_is_an_error(
    migrated_file: Path, tmp_path: Path
) -> None:
    """It does not pass by itself; reading goes on."""
    path = tmp_path / "closed.db"
    shutil.copyfile(migrated_file, path)
    database = Database.open(f"sqlite:///file:{path}?mode=ro&uri=true")

    with pytest.raises(SettingsError, match=r"closed\.db cannot be used .*readonly"):
        async with database.transaction(write=True) as transaction:
            await transaction.execute(text("DELETE FROM application"))
    async with database.transaction(write=False) as transaction:
        await transaction.execute(select(1))

    await database.close()


@pytest.mark.parametrize("write", [True, False])
async def test_a_file_that_is_no_database_is_an_error(
    tmp_path: Path, write: bool
) -> None:
    """And not absence, neither at the first connection nor at the first statement."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear database, " * 100)
    database = Database.open(f"sqlite:///{path}")

    with pytest.raises(SettingsError, match=rf"{path} cannot be used .*not a database"):
        async with database.transaction(write=write) as transaction:
            await transaction.execute(text("SELECT * FROM sqlite_master"))

    await database.close()


async def test_sqlite_in_a_missing_directory_is_absent(tmp_path: Path) -> None:
    """A file that cannot be opened is told as that."""
    database = Database.open(f"sqlite:///{tmp_path / 'missing' / 'relay.db'}")

    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailableError, match="unable to open"):
        async with database.transaction(write=False):
            pass

    await database.close()
    # The driver does not wait for the thread of a connection that never opened, and
    # that thread still has something to tell the event loop.
    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join)
