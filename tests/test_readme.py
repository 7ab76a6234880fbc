"""What the README says about settings, commands and files is true."""

import re
import shlex
from enum import Enum
from pathlib import Path

import pytest
import typer

from relay.cli import app
from relay.settings import RelaySettings, environment_names

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

_COMMAND = re.compile(r"(?:^|[`(])relay ([a-z][^`\n#|)]*)", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_SETTING_ROW = re.compile(r"^\| `(RELAY_\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)


def show_default(name: str) -> str:
    """The default of a setting as the table writes it."""
    default = RelaySettings.model_fields[name].default
    if default in (None, "", ()):
        return "—"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"`{default.value if isinstance(default, Enum) else default}`"


def test_the_table_of_settings_is_the_settings() -> None:
    """Every setting in order, with its default and the words of its help."""
    assert _SETTING_ROW.findall(README) == [
        (environment_names(name)[0], show_default(name), str(field.description))
        for name, field in RelaySettings.model_fields.items()
    ]


def test_other_names_of_settings_are_told() -> None:
    """An upstream installation's variables are found by searching for them."""
    for name in RelaySettings.model_fields:
        for alias in environment_names(name):
            assert f"`{alias}`" in README


def commands() -> list[list[str]]:
    """Each `relay …` of the README, in words."""
    return [shlex.split(words) for words in _COMMAND.findall(README)]


def test_commands_are_found() -> None:
    """The pattern that finds them has not gone blind."""
    found = {tuple(words[:2]) for words in commands()}

    assert {("serve",), ("key", "create"), ("recoveries", "abandon")} <= found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_exists_with_its_options(words: list[str]) -> None:
    """Whoever copies a line is not told that there is no such thing."""
    command = typer.main.get_command(app)
    while children := getattr(command, "commands", None):
        assert words, "a group is no command"
        assert words[0] in children
        command, words = children[words[0]], words[1:]

    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("target", sorted(set(_LINK.findall(README))))
def test_every_relative_link_leads_somewhere(target: str) -> None:
    """To a file or a directory of the repository."""
    assert (ROOT / target).exists()
