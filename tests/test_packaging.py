"""What `pip install "relay-control-plane[server]"` brings: a wheel that works alone."""

import asyncio
import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from relay import __version__
from tests.ports import ReservedPort
from tests.serving import CLOCK

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    directory = tmp_path_factory.mktemp("wheel")
    _run(
        *(sys.executable, "-m", "build", "--no-isolation", "--wheel"),
        *("--outdir", str(directory), str(ROOT)),
    )
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    The directory of programs of an environment that has the wheel.

    Its dependencies are those of this test run, put at the end of its path, so that
    nothing has to be fetched; Relay itself is the wheel's.
    """
    home = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
        *("--no-index", "--target", str(packages), str(wheel)),
    )
    borrowed = sysconfig.get_path("purelib")
    # As plain text: a `.pth` found through this line would not be followed, and so the
    # editable install of this source tree is not seen.
    (packages / "borrowed.pth").write_text(borrowed + "\n")
    return home / "bin"


def test_the_wheel_holds_everything_that_runs(wheel: Path) -> None:
    """Both packages, the migrations, the contract and the type markers."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    for name in (
        "relay/py.typed",
        "relay_api/py.typed",
        "relay/migrations/env.py",
        "relay_api/data/conductor.json",
        "relay/testing/executor.py",
    ):
        assert name in names
    assert any(n.startswith("relay/migrations/versions/0001") for n in names)
    assert not [name for name in names if name.startswith(("tests/", "demo/"))]


def test_the_wheel_needs_little_without_the_server(wheel: Path) -> None:
    """The base is SQLAlchemy; everything of the server is an extra."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("METADATA"))
        lines = archive.read(name).decode().splitlines()

    needed = [line for line in lines if line.startswith("Requires-Dist: ")]
    base = [line for line in needed if "extra ==" not in line]
    assert [line.split()[1].split("[")[0] for line in base] == ["sqlalchemy"]
    assert "Provides-Extra: server" in lines


def test_commands_of_an_installed_wheel_work(installed: Path, tmp_path: Path) -> None:
    """The version and the contract come from the wheel, not from this source tree."""
    origin = _run(
        *(str(installed / "python"), "-c", "import relay; print(relay.__file__)"),
        cwd=tmp_path,
    )
    assert str(installed.parent) in origin

    python = [str(installed / "python"), "-m", "relay"]
    assert _run(*python, "version", cwd=tmp_path) == f"relay {__version__}\n"
    assert "paths" in json.loads(_run(*python, "openapi", cwd=tmp_path))


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody takes from a server that is about to listen on it."""
    with ReservedPort() as port:
        yield port.number


async def test_a_server_of_an_installed_wheel_answers(
    installed: Path, tmp_path: Path, port: int
) -> None:
    """`relay serve` migrates, listens and is ready."""
    process = await asyncio.create_subprocess_exec(
        *(str(installed / "python"), "-m", "relay", "serve", "--port", str(port)),
        cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        base = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as http:
            async with CLOCK.timeout(timedelta(seconds=30)):
                while not await _answers(http, "/readyz"):
                    assert process.returncode is None
                    await CLOCK.sleep(timedelta(milliseconds=100))
            for path in ("/healthz", "/docs", "/openapi.json", "/metrics"):
                assert await _answers(http, path), path
        assert (tmp_path / ".relay" / "relay.db").is_file()
        process.terminate()
        async with CLOCK.timeout(timedelta(seconds=20)):
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0


async def _answers(http: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await http.get(path)).status_code == 200
    except httpx.TransportError:
        return False


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
