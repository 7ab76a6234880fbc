"""A Relay that knows one migration more than this one."""

import shutil
from pathlib import Path

import pytest

from relay.store import schema

NEWEST = "9999"
_MIGRATION = f"""
revision = "{NEWEST}"
down_revision = "%s"


def upgrade() -> None:
    pass
"""


def extend_migrations(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Use the chain of migrations with one more, `NEWEST`; it is put in `directory`."""
    ours = schema._find_migrations()
    shutil.copytree(ours, directory)
    newest = max(path.name.split("_")[0] for path in ours.glob("versions/0*.py"))
    (directory / "versions" / f"{NEWEST}_newest.py").write_text(_MIGRATION % newest)
    monkeypatch.setattr(schema, "_find_migrations", lambda: directory)
