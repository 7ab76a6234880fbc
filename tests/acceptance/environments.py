"""
Where real executors come from: one environment an SDK version, made on first use.

The environment of Relay's own tests already holds the newest Python SDK that has a
Conductor client. Every other one lives under `.cache/`, is built from pinned and hashed
locks, and is rebuilt when its lock changes.
"""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
HERE = Path(__file__).parent

PYTHON_SDKS = ("3.2.0", "2.31.1")
TYPESCRIPT_SDKS = ("5.2.11", "4.27.6")


@dataclass(frozen=True, slots=True)
class Sdk:
    """A DBOS SDK that executors are started with."""

    language: str
    version: str

    def __str__(self) -> str:
        return f"{self.language}-{self.version}"


PYTHON = [Sdk("python", version) for version in PYTHON_SDKS]
TYPESCRIPT = [Sdk("typescript", version) for version in TYPESCRIPT_SDKS]
SDKS = [*PYTHON, *TYPESCRIPT]


def command_of(sdk: Sdk) -> list[str]:
    """The command that runs the test application on `sdk`; builds what it needs."""
    if sdk.language == "typescript":
        return [_node(), str(_typescript(sdk.version) / "app.mjs")]
    interpreter = sys.executable if sdk == PYTHON[0] else str(_python(sdk.version))
    return [interpreter, "-u", str(HERE / "executors" / "app.py")]


def skip_without(sdk: Sdk) -> None:
    """Skip the test, loudly, where the machine cannot run `sdk`."""
    if sdk.language == "typescript" and not _has_node():
        pytest.skip(f"{sdk} was NOT tested: it needs Node 20 or newer with npm")


def _has_node() -> bool:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return False
    shown = subprocess.run(
        [_node(), "--version"], capture_output=True, text=True, check=False
    )
    major = shown.stdout.strip().removeprefix("v").split(".")[0]
    return major.isdigit() and int(major) >= 20


def _node() -> str:
    return shutil.which("node") or "node"


def _python(version: str) -> Path:
    lock = ROOT / "requirements" / f"executor-python-{version}.txt"
    home = CACHE / f"executor-python-{version}"
    interpreter = home / "bin" / "python"

    def build() -> None:
        _run([sys.executable, "-m", "venv", str(home)])
        _run(
            [
                *(str(interpreter), "-m", "pip", "install", "--quiet"),
                *("--require-hashes", "--requirement", str(lock)),
            ]
        )

    _make_once(home, lock.read_bytes(), build)
    return interpreter


def _typescript(version: str) -> Path:
    source = HERE / f"typescript-{version}"
    program = HERE / "executors" / "app.mjs"
    home = CACHE / f"executor-typescript-{version}"
    lock = source / "package-lock.json"

    def build() -> None:
        home.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(source / name, home / name)
        _run(["npm", "ci", "--ignore-scripts", "--no-progress"], cwd=home)

    _make_once(home, lock.read_bytes(), build)
    with _locked(home):
        # Beside its modules, where Node looks for them.
        shutil.copy(program, home / ".app.mjs")
        (home / ".app.mjs").replace(home / "app.mjs")
    return home


def _make_once(home: Path, lock: bytes, build: Callable[[], None]) -> None:
    stamp = home / "relay-environment.json"
    wanted = json.dumps({"lock": hashlib.sha256(lock).hexdigest()})
    with _locked(home):
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        shutil.rmtree(home, ignore_errors=True)
        build()
        stamp.write_text(wanted)


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One builder at a time, over all workers of the test run."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{home.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
