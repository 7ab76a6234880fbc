"""Where commands find or make their data."""

import sqlite3
from pathlib import Path

import pytest

from tests.cli.command import Ran, Run


@pytest.mark.parametrize(
    "words",
    [
        ("key", "list"),
        ("key", "revoke", "k"),
        ("audit",),
        ("census",),
        ("recoveries", "list"),
        ("recoveries", "show", "some-id"),
        ("recoveries", "retry", "some-id"),
        ("recoveries", "abandon", "some-id", "--reason", "r"),
    ],
)
def test_commands_in_another_directory_make_no_database(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """An empty answer would be a wrong one; the message says where they looked."""
    assert run(*words) == Ran(
        1,
        "",
        f"relay: there is no database at {tmp_path}/.relay/relay.db; run this where the"
        " server runs, or give --data-dir or --database-url\n",
    )
    assert not Path(".relay").exists()


def test_migrate_makes_the_database(run: Run) -> None:
    """Where there was none, and again without harm."""
    first, second = run("migrate"), run("migrate")

    assert (first.status, second.status) == (0, 0)
    with sqlite3.connect(Path(".relay/relay.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    connection.close()
    assert ("application",) in tables


def test_the_data_directory_is_for_us_alone(run: Run) -> None:
    """Hashes of keys and the audit log are nobody else's business."""
    run("migrate", "--data-dir", "deep/data")

    assert Path("deep/data").stat().st_mode & 0o077 == 0


def test_a_directory_that_cannot_be_made_is_told(run: Run) -> None:
    """A file in the way is an error of the settings."""
    Path("taken").write_text("")

    ran = run("migrate", "--data-dir", "taken/data")

    assert ran.status == 1
    assert "cannot keep data in taken/data" in ran.err
