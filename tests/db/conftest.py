"""A database with that table."""

import pytest

from relay.db import Database
from tests.db.samples import sample


@pytest.fixture
async def samples(database: Database) -> Database:
    """A database with the table `sample`."""
    async with database.transaction(write=True) as transaction:
        await transaction.run_sync(sample.metadata.create_all)
    return database
