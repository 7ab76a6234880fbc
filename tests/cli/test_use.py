"""How commands are used, what they print, how they refuse."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from relay import __version__
from relay.settings import RelaySettings, environment_names
from tests.cli.command import Ran, Run


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


def test_the_contract_is_printed_in_each_form(run: Run) -> None:
    """OpenAPI 3.1 and 3.0, JSON and YAML, from the file that is served."""
    newest = json.loads(run("openapi").out)
    older = yaml.safe_load(run("openapi", "--spec-version", "3.0", "--yaml").out)

    assert newest["openapi"].startswith("3.1")
    assert older["openapi"].startswith("3.0")
    assert newest["paths"].keys() == older["paths"].keys()


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
