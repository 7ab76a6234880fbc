"""Fixtures of the HTTP edge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.house import House, open_house


@pytest.fixture
async def house(migrated_file: Path, tmp_path: Path) -> AsyncIterator[House]:
    """A house in local mode."""
    async with open_house(migrated_file, tmp_path) as opened:
        yield opened


@pytest.fixture
async def keyed(migrated_file: Path, tmp_path: Path) -> AsyncIterator[House]:
    """A house that asks for keys."""
    async with open_house(migrated_file, tmp_path, auth="keys") as opened:
        yield opened
