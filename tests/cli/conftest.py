"""A directory, a database and a way to run commands."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from relay.cli import main
from relay.ids import RecoveryId
from tests.cli.command import Ran, Run, order_recovery


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
