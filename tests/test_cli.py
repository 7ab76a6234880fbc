"""The commands: what they print, what they change, how they refuse."""

import asyncio
import json
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import structlog
import yaml

from relay import __version__
from relay.cli import main
from relay.ids import AppVersion, ExecutorId, RecoveryId
from relay.records import AuditTarget
from relay.registry import SHELL_ACTOR
from relay.server import Offline, open_offline
from relay.settings import RelaySettings, environment_names, load_settings


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A directory and an environment of our own; the logging is put back."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("RELAY_", "DBOS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `relay` with these words."""

    def run(*words: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["relay", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        status = ended.value.code or 0
        assert isinstance(status, int)
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def recovery_id(database: None) -> RecoveryId:
    """An open recovery of an executor that nobody ever saw."""
    return asyncio.run(order_recovery("gone"))


@pytest.fixture
def database(run: Run) -> None:
    """A database, as the first start of a server leaves it."""
    assert run("migrate").status == 0


async def order_recovery(executor: str) -> RecoveryId:
    async with open_offline(load_settings()) as offline:
        await register(offline, "loop")
        view = await offline.registry.applications.get("loop")
        record = await offline.ledger.order(
            view.record.ref,
            ExecutorId(executor),
            AppVersion("v1"),
            by=SHELL_ACTOR.subject,
        )
    return record.id


async def register(offline: Offline, name: str) -> None:
    await offline.registry.applications.put(SHELL_ACTOR, name, private_mode=None)


def test_version_is_printed(run: Run) -> None:
    """The version of the distribution."""
    assert run("version") == Ran(0, f"relay {__version__}\n", "")


def test_help_of_serve_explains_every_setting(run: Run) -> None:
    """Each setting has its flag, its description and its variables."""
    # Without blanks: lines are broken anywhere.
    text = "".join(run("serve", "--help").out.split())

    for name, field in RelaySettings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in text
        assert "".join(str(field.description).split()) in text
        assert environment_names(name)[0] in text


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--port", "abc"),
        ("serve", "--auth", "none"),
        ("serve", "--nonsense"),
        ("key", "create"),
        ("recoveries", "abandon", "some-id"),
        ("nonsense",),
    ],
)
def test_wrong_use_ends_with_status_2(run: Run, words: tuple[str, ...]) -> None:
    """Usage errors say what is wrong on standard error."""
    ran = run(*words)

    assert (ran.status, ran.out) == (2, "")
    assert "Error" in ran.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("serve", "--host", "::"), "RELAY_AUTH=keys"),
        (("serve", "--ping-wait-secs", "1"), "must be greater"),
        (("key", "list", "--config", "missing.toml"), "does not exist"),
        (("key", "list", "--database-url", "mysql://u:hunter2@h/d"), "sqlite://"),
        (("key", "revoke", "nobody"), "'nobody' does not exist"),
        (("key", "list", "--data-dir", "elsewhere"), "no database at /"),
        (("key", "create", "relay"), "reserved"),
        (("key", "create", "k", "--permission", "everything"), "unknown permission"),
        (("key", "create", "k", "--app", "missing"), "no application has that name"),
        (("key", "create", "k", "--permission", "token.write"), "--admin"),
        (("recoveries", "show", "nothing"), "'nothing' does not exist"),
        (("recoveries", "retry", "nothing"), "'nothing' does not exist"),
        (("recoveries", "list", "--app", "missing"), "'missing' does not exist"),
    ],
)
def test_refusals_end_with_status_1_and_one_message(
    run: Run, database: None, words: tuple[str, ...], complaint: str
) -> None:
    """No traceback, no secret: what is wrong, on standard error."""
    ran = run(*words)

    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("relay: ")
    assert complaint in ran.err
    assert len(ran.err.splitlines()) == 1
    assert "hunter2" not in ran.err


def test_a_port_that_is_taken_is_told_before_the_database_is_touched(
    run: Run,
) -> None:
    """The message names the address, and nothing was made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", "--port", str(port))

    assert ran.status == 1
    assert f"relay: cannot listen on 127.0.0.1:{port}: " in ran.err
    assert not Path(".relay").exists()


def test_a_key_is_printed_once_and_stored_as_a_hash(run: Run) -> None:
    """Standard output is the key alone; neither list, log nor database has it."""
    created = run("key", "create", "worker")
    key = created.out.strip()

    assert created.status == 0
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


@pytest.mark.parametrize(
    "words",
    [
        ("key", "list"),
        ("key", "revoke", "k"),
        ("audit",),
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


def test_without_the_server_extra_the_command_says_what_it_needs() -> None:
    """The base of the distribution brings the command, but not what it is made of."""
    start = (
        "import sys; sys.modules['typer'] = None; sys.argv = ['relay', 'version'];"
        "from relay.__main__ import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", start], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "relay: this command needs the server extra:"
        " pip install 'relay-control-plane[server]'\n"
    )


def test_a_fault_of_ours_is_not_taken_for_a_missing_extra() -> None:
    """A module of Relay that is missing is a broken installation."""
    start = (
        "import sys; sys.modules['relay.cli.serve'] = None;"
        "from relay.__main__ import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", start], capture_output=True, text=True, check=False
    )

    assert "relay.cli.serve" in ended.stderr
    assert "extra" not in ended.stderr


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


def test_recoveries_are_listed_and_shown(run: Run, recovery_id: str) -> None:
    """A table for people, objects for programs, and the story of one."""
    (listed,) = run("recoveries", "list", "--json").objects

    assert listed["id"] == recovery_id
    assert (listed["state"], listed["executorId"]) == ("READY", "gone")
    assert recovery_id in run("recoveries", "list", "--app", "loop", "--open").out
    assert recovery_id not in run("recoveries", "list", "--state", "DONE").out
    shown = run("recoveries", "show", recovery_id).out
    assert "recovery.request" in shown
    assert shown.count("loop") == 2  # as a fact, and as the target of the entry
    (told,) = run("recoveries", "show", recovery_id, "--json").objects
    assert str(told["story"]).count("recovery.request") == 1


def test_a_held_recovery_says_why_and_until_when(
    run: Run, recovery_id: RecoveryId
) -> None:
    """Right after a start nothing is wrong, and the operator reads so."""
    reason = "no orders yet: Relay has just started"
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        connection.execute(
            "UPDATE recovery SET reason = ?, next_attempt_at = 4102444800000000",
            [reason],
        )
        connection.commit()

    for words in (("list",), ("show", recovery_id)):
        out = run("recoveries", *words).out
        assert reason in out
        assert "2100-01-01T00:00:00Z" in out


def test_facts_of_a_recovery_are_told_in_words(
    run: Run, recovery_id: RecoveryId
) -> None:
    """No values of Python: lists with commas, yes and no, a dash for nothing."""
    before = run("recoveries", "show", recovery_id).out
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        connection.execute(
            'UPDATE recovery SET is_verified = 0, pending_ids = \'["w-1","w-2"]\','
            " pending_count = 101"
        )
        connection.commit()
    after = run("recoveries", "show", recovery_id).out

    def facts(text: str) -> dict[str, str]:
        lines = text.split("\n\n")[0].splitlines()
        return {line[:20].strip(): line[21:] for line in lines}

    names = ("verified", "their ids", "pending workflows", "last order to")
    assert [facts(before)[name] for name in names] == ["-"] * 4
    assert [facts(after)[name] for name in names] == [
        "no",
        "w-1, w-2",
        "more than 100",
        "-",
    ]
    assert "more than 100" in run("recoveries", "list").out


def test_a_recovery_may_be_named_by_the_beginning_of_its_id(
    run: Run, recovery_id: RecoveryId
) -> None:
    """As long as it means one; otherwise the ids that it could mean are told."""
    other = asyncio.run(order_recovery("other"))
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        for start, identity in (("aaaa1", recovery_id), ("aaaa2", other)):
            connection.execute(
                "UPDATE recovery SET id = ? || substr(id, 6) WHERE id = ?",
                [start, identity],
            )
        connection.commit()
    first, second = f"aaaa1{recovery_id[5:]}", f"aaaa2{other[5:]}"

    (shown,) = run("recoveries", "show", "aaaa1", "--json").objects
    retried = run("recoveries", "retry", "aaaa2")
    abandoned = run("recoveries", "abandon", "aaaa1", "--reason", "test is over")
    ambiguous = run("recoveries", "show", "aaaa")

    assert shown["id"] == first
    assert retried.out == f"recovery {second} is READY\n"
    assert abandoned.out == f"recovery {first} is ABANDONED\n"
    assert ambiguous == Ran(
        1, "", f"relay: 'aaaa': several ids begin like this: {first}, {second}\n"
    )


def test_recoveries_are_retried_and_abandoned(run: Run, recovery_id: str) -> None:
    """Both are audited; an abandoned one is closed for good."""
    retried = run("recoveries", "retry", recovery_id)
    abandoned = run("recoveries", "abandon", recovery_id, "--reason", "test is over")
    again = run("recoveries", "retry", recovery_id)

    assert (retried.status, retried.out) == (0, f"recovery {recovery_id} is READY\n")
    assert abandoned.out == f"recovery {recovery_id} is ABANDONED\n"
    assert again.status == 1
    assert "ABANDONED already" in again.err
    assert run("recoveries", "list", "--open", "--json").objects == []
    operations = [entry["operation"] for entry in run("audit", "--json").objects]
    assert operations[-2:] == ["recovery.release", "recovery.abandon"]


def test_the_contract_is_printed_in_each_form(run: Run) -> None:
    """OpenAPI 3.1 and 3.0, JSON and YAML, from the file that is served."""
    newest = json.loads(run("openapi").out)
    older = yaml.safe_load(run("openapi", "--spec-version", "3.0", "--yaml").out)

    assert newest["openapi"].startswith("3.1")
    assert older["openapi"].startswith("3.0")
    assert newest["paths"].keys() == older["paths"].keys()


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


def test_an_empty_name_is_no_name(run: Run, database: None) -> None:
    """A script whose variable is empty does not mint the administrator's key."""
    ended = run("key", "create", "")

    assert ended.status == 1
    assert "1 to 100 printable characters" in ended.err
    assert run("key", "list", "--json").objects == []


@pytest.mark.parametrize(
    "words",
    [
        ("key", "revoke", "\udcff"),
        ("key", "create", "worker", "--app", "\udcff"),
        ("audit", "--subject", "\udcff"),
        ("recoveries", "show", "\udcff"),
    ],
)
def test_words_that_are_not_utf8_are_used_wrongly(
    run: Run, words: tuple[str, ...]
) -> None:
    """No database can hold them, so none is asked."""
    ended = run(*words)

    assert ended.status == 2
    assert "UTF-8" in ended.err
    assert "Traceback" not in ended.err


def test_messages_name_the_value_and_not_the_place_in_a_request(
    run: Run, database: None
) -> None:
    """Whoever types a command knows nothing of paths and bodies."""
    ended = run("key", "create", "worker", "--app", "shop")

    assert ended.status == 1
    assert ended.err == "relay: 'shop': no application has that name\n"


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


def test_output_that_cannot_be_written_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is a message and status 1."""
    monkeypatch.setattr("typer.echo", _refuse_to_print)

    ended = run("openapi")

    assert ended.status == 1
    assert "relay: No space left on device" in ended.err


def _refuse_to_print(message: object = None, **kwargs: object) -> None:
    if kwargs.get("err"):
        sys.stderr.write(f"{message}\n")
        return
    raise OSError(28, "No space left on device")
