"""
Where real executors come from: one environment an SDK version, made on first use.

The environment of Relay's own tests already holds the newest Python SDK that has a
Conductor client. Every other one lives under `.cache/`, is built from pinned and hashed
locks, and is rebuilt when its lock changes.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
HERE = Path(__file__).parent
GO_SOURCE = HERE / "executors" / "go"
JAVA_SOURCE = HERE / "executors" / "java"

PYTHON_SDKS = ("3.2.0", "2.31.1")
TYPESCRIPT_SDKS = ("5.2.11", "4.27.6")
GO_SDKS = ("1.2.0",)
JAVA_SDKS = ("1.1.0-m6",)


_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java as it starts soonest; several of them run on one machine."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """A DBOS SDK that executors are started with."""

    language: str
    version: str

    def __str__(self) -> str:
        return f"{self.language}-{self.version}"


PYTHON = [Sdk("python", version) for version in PYTHON_SDKS]
TYPESCRIPT = [Sdk("typescript", version) for version in TYPESCRIPT_SDKS]
GO = [Sdk("go", version) for version in GO_SDKS]
JAVA = [Sdk("java", version) for version in JAVA_SDKS]
SDKS = [*PYTHON, *TYPESCRIPT, *GO, *JAVA]


def command_of(sdk: Sdk) -> list[str]:
    """The command that runs the test application on `sdk`; builds what it needs."""
    if sdk.language == "typescript":
        return [_node(), str(_typescript(sdk.version) / "app.mjs")]
    if sdk.language == "go":
        return [str(_go(sdk.version))]
    if sdk.language == "java":
        return [*_JAVA, "-cp", _java(sdk.version), "relay.Executor"]
    interpreter = sys.executable if sdk == PYTHON[0] else str(_python(sdk.version))
    return [interpreter, "-u", str(HERE / "executors" / "app.py")]


def skip_without(sdk: Sdk) -> None:
    """Skip the test, loudly, where the machine cannot run `sdk`."""
    if sdk.language == "typescript" and not _has_node():
        pytest.skip(f"{sdk} was NOT tested: it needs Node 20 or newer with npm")
    if sdk.language == "go" and not _has_go():
        needed = ".".join(map(str, _go_needed()))
        pytest.skip(f"{sdk} was NOT tested: it needs Go {needed} or newer")
    if sdk.language == "java" and not _has_java():
        needed = f"a JDK {_java_needed()} or newer and Maven 3.6.3 or newer"
        pytest.skip(f"{sdk} was NOT tested: it needs {needed}")


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


def _has_go() -> bool:
    if shutil.which("go") is None:
        return False
    found = re.match(
        r"go(\d+)\.(\d+)", _run(["go", "env", "GOVERSION"], GOTOOLCHAIN="local")
    )
    return found is not None and (int(found[1]), int(found[2])) >= _go_needed()


def _go_needed() -> tuple[int, int]:
    """The version that the module of the test application asks for."""
    found = re.search(r"^go (\d+)\.(\d+)", (GO_SOURCE / "go.mod").read_text(), re.M)
    assert found is not None
    return int(found[1]), int(found[2])


def _go(version: str) -> Path:
    home = CACHE / f"executor-go-{version}"
    program = home / "executor"
    sources = (GO_SOURCE / name for name in ("go.mod", "go.sum", "main.go"))

    def build() -> None:
        home.mkdir(parents=True)
        build = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false"]
        # Never another toolchain than the machine's: no test downloads one.
        _run([*build, "-o", str(program), "."], cwd=GO_SOURCE, GOTOOLCHAIN="local")

    _make_once(home, b"".join(path.read_bytes() for path in sources), build)
    return program


@cache
def _has_java() -> bool:
    if any(shutil.which(name) is None for name in ("java", "javac", "mvn")):
        return False
    compiler = re.match(r"javac (\d+)", _run(["javac", "-version"]))
    maven = re.search(r"Apache Maven (\d+)\.(\d+)\.(\d+)", _run(["mvn", "--version"]))
    return (
        compiler is not None
        and int(compiler[1]) >= _java_needed()
        and maven is not None
        and tuple(map(int, maven.groups())) >= (3, 6, 3)
    )


def _java_needed() -> int:
    """The release that the test application is compiled for."""
    pom = (JAVA_SOURCE / "pom.xml").read_text()
    found = re.search(r"<maven\.compiler\.release>(\d+)<", pom)
    assert found is not None
    return int(found[1])


def _java(version: str) -> str:
    """The class path of the test application."""
    home = CACHE / f"executor-java-{version}"
    sources = sorted(path for path in JAVA_SOURCE.rglob("*") if path.is_file())

    def build() -> None:
        shutil.copytree(JAVA_SOURCE, home)
        maven = ["mvn", "--batch-mode", "--quiet", "--strict-checksums"]
        _run([*maven, "process-classes"], cwd=home)

    _make_once(home, b"".join(path.read_bytes() for path in sources), build)
    return f"{home / 'target' / 'classes'}:{home / 'target' / 'dependency' / '*'}"


def generator() -> Path:
    """The environment of a program that makes clients of OpenAPI documents."""
    return _environment("generated-client")


def _python(version: str) -> Path:
    return _environment(f"executor-python-{version}") / "bin" / "python"


def _environment(name: str) -> Path:
    lock = ROOT / "requirements" / f"{name}.txt"
    home = CACHE / name

    def build() -> None:
        _run([sys.executable, "-m", "venv", str(home)])
        _run(
            [
                *(str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"),
                *("--require-hashes", "--requirement", str(lock)),
            ]
        )

    _make_once(home, lock.read_bytes(), build)
    return home


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


def _run(command: list[str], cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
