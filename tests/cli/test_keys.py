"""Keys from the shell."""

import subprocess
import sys
from pathlib import Path

from tests.cli.command import Run


def test_a_key_is_printed_once_and_stored_as_a_hash(run: Run) -> None:
    """Standard output is the key alone; neither list, log nor database has it."""
    created = run("key", "create", "worker")
    key = created.out.strip()

    assert created.status == 0
    assert created.err.endswith(
        "the key is on standard output; keep it, it is not shown again\n"
    )
    assert key.startswith("dbos_")
    assert len(key) >= len("dbos_") + 43
    assert run("key", "list", "--json").objects == [
        {
            "name": "worker",
            "createdAt": run("key", "list", "--json").objects[0]["createdAt"],
            "lastUsedAt": None,
            "permissions": ["websocket.connect"],
            "applications": None,
        }
    ]
    assert key not in run("audit").out + run("key", "list").out + created.err
    for file in Path(".relay").iterdir():
        assert key.encode() not in file.read_bytes()


def test_an_admin_key_holds_everything(run: Run) -> None:
    """`--admin` is the one way to `token.write`, and needs no name."""
    run("key", "create", "--admin")

    (key,) = run("key", "list", "--json").objects
    assert key["name"] == "admin"
    assert "token.write" in str(key["permissions"])


def test_the_first_key_may_come_before_the_first_start(
    run: Run, tmp_path: Path
) -> None:
    """What was made for it is told, beside the key and once."""
    first, second = run("key", "create", "a"), run("key", "create", "b")

    notice = f"made a new database: {tmp_path}/.relay/relay.db\n"
    assert first.err.startswith(notice)
    assert len(first.out.splitlines()) == 1
    assert notice not in second.err


def test_a_key_that_cannot_be_shown_is_not_made(database: None, run: Run) -> None:
    """Nobody would ever know it."""
    ended = subprocess.run(  # noqa: S602 - only a shell can close it
        f"{sys.executable} -m relay key create worker >&-",
        shell=True,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr == "relay: standard output is closed; no key was made\n"
    assert run("key", "list", "--json").objects == []


def test_a_key_may_be_limited_to_applications(run: Run, recovery_id: str) -> None:
    """`--app` and `--permission` may be repeated."""
    del recovery_id  # its fixture registers the application
    run("key", "create", "k", "--app", "loop", "--permission", "application.read")

    (key,) = run("key", "list", "--json").objects
    assert key["applications"] == ["loop"]
    assert key["permissions"] == ["application.read"]
    assert "loop" in run("key", "list").out


def test_a_revoked_key_is_gone(run: Run) -> None:
    """It leaves the list, its name is free, and the log tells of it."""
    run("key", "create", "k")

    assert run("key", "revoke", "k").status == 0

    assert run("key", "list", "--json").objects == []
    assert run("key", "create", "k").status == 0
    operations = [entry["operation"] for entry in run("audit", "--json").objects]
    assert operations == ["token.create", "token.revoke", "token.create"]
