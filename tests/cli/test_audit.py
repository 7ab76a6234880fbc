"""The audit log in a terminal."""

import asyncio
import json
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone

from relay.records import AuditTarget
from relay.registry import SHELL_ACTOR
from relay.server import open_offline
from relay.settings import load_settings
from tests.cli.command import Run


def test_the_audit_log_is_printed_with_the_newest_last(run: Run) -> None:
    """Filters restrict it, `--limit` keeps the newest."""
    for name in ("a1", "b2", "c3"):
        run("key", "create", name)

    lines = run("audit").out.splitlines()
    assert [line.split("token=")[1].split()[0] for line in lines] == ["a1", "b2", "c3"]
    assert "token.create" in lines[0]
    assert run("audit", "--operation", "executor.dead").out == ""
    assert run("audit", "--since", "2999-01-01").out == ""
    (entry,) = run("audit", "--json", "--target", "b2").objects
    assert entry["target"] == {"type": "token", "id": "b2"}
    assert entry["subject"] == {"type": "user", "id": "local", "display": "local"}
    (newest,) = run("audit", "--json", "--limit", "1", "--subject", "local").objects
    assert newest["target"] == {"type": "token", "id": "c3"}


def test_the_audit_log_can_be_followed(run: Run) -> None:
    """What another process does appears as it happens, filters and all, once."""
    run("key", "create", "before")
    command = [sys.executable, "-m", "relay", "audit", "--follow", "--json"]
    with subprocess.Popen(
        [*command, "--operation", "token.create"], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        first = json.loads(following.stdout.readline())
        run("key", "revoke", "before")
        run("key", "create", "after")
        second = json.loads(following.stdout.readline())
        following.send_signal(signal.SIGINT)
        rest = following.stdout.read()

    assert [first["target"]["id"], second["target"]["id"]] == ["before", "after"]
    assert rest == ""
    assert following.returncode == 0


def test_audit_since_heeds_the_offset(run: Run) -> None:
    """An instant without one is in UTC, as all output is."""
    run("key", "create", "worker")
    [entry] = run("audit", "--json").objects
    emitted = datetime.fromisoformat(str(entry["emitTime"]))
    east = timezone(timedelta(hours=14))
    shift = timedelta(minutes=1)

    after = (emitted + shift).astimezone(east).isoformat()
    before = (emitted - shift).astimezone(east).isoformat()

    assert run("audit", "--json", "--since", after).objects == []
    assert run("audit", "--json", "--since", before).objects == [entry]
    naive = (emitted + shift).replace(tzinfo=None).isoformat()
    assert run("audit", "--json", "--since", naive).objects == []


def test_text_of_strangers_does_not_reach_the_terminal_raw(
    run: Run, database: None
) -> None:
    """A name in a refused request may hold what moves the cursor or begins a line."""

    async def refuse() -> None:
        async with open_offline(load_settings()) as offline:
            await offline.registry.record_failure(
                SHELL_ACTOR,
                "token.revoke",
                AuditTarget(kind="token", id="a\x1b[2J\nb"),
                {"error": "line\nanother", "list": ["\x9b"], "\x1bkey": 1, "no": []},
            )

    asyncio.run(refuse())

    shown = run("audit").out

    assert shown.endswith("no=-\n")
    assert len(shown.splitlines()) == 1
    assert not {"\x1b", "\x9b"} & set(shown)
    assert r"a\x1b[2J\nb" in shown
