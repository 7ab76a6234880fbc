"""Addresses of databases."""

from pathlib import Path

import pytest
from sqlalchemy import select

from relay.db import Database
from relay.errors import SettingsError, StoreUnavailableError
from tests.postgres import PostgresServer

PASSWORD = "marker-secret"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{PASSWORD}@host:port/relay",
        f"//user:{PASSWORD}@host/relay",
        f"mysql://user:{PASSWORD}@host/relay",
        f"postgresql+psycopg://user:{PASSWORD}@host/relay",
        "sqlite://",
        "sqlite:///:memory:",
        "",
    ],
)
def test_an_address_that_relay_cannot_use_is_refused_without_its_password(
    url: str,
) -> None:
    """The error says what is wrong and repeats no secret, in its causes neither."""
    with pytest.raises(SettingsError) as caught:
        Database.open(url)

    told: BaseException | None = caught.value
    while told is not None:
        assert PASSWORD not in str(told)
        told = told.__cause__


async def test_a_wrong_password_is_absence_and_not_told(
    postgres_server: PostgresServer,
) -> None:
    """A server that does not let us in is one that does not answer us."""
    url = postgres_server.create_database().url
    database = Database.open(url.replace(postgres_server.password, PASSWORD))

    with pytest.raises(StoreUnavailableError, match="authentication") as caught:
        async with database.transaction(write=False):
            pass

    assert PASSWORD not in repr(caught.value) + repr(caught.value.__cause__)
    await database.close()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
async def test_the_usual_spellings_of_an_address_work(
    postgres_server: PostgresServer, scheme: str
) -> None:
    """Every name of the driver is accepted, and libpq's `sslmode`."""
    url = postgres_server.create_database().url
    database = Database.open(
        url.replace("postgresql://", f"{scheme}://") + "?sslmode=disable"
    )

    async with database.transaction(write=False) as transaction:
        await transaction.execute(select(1))

    assert database.dialect == "postgresql"
    assert database.path is None
    await database.close()


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
def test_an_sqlite_database_knows_its_file(scheme: str, tmp_path: Path) -> None:
    """The server puts its lock file beside it."""
    database = Database.open(f"{scheme}:///{tmp_path / 'relay.db'}")

    assert database.dialect == "sqlite"
    assert database.path == tmp_path / "relay.db"
