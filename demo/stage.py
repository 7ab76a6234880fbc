"""The processes of the demo, and what can be seen of them from outside."""

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import httpx

from relay.clock import SystemClock

CLOCK = SystemClock()
POLL = timedelta(seconds=0.1)
FIRST_PORT = 8090
T = TypeVar("T")

APPLICATION = "/v2/orgs/local/apps/demo-shop"


class DemoFailedError(Exception):
    """Something did not happen as it should; the message says what."""


@dataclass(slots=True)
class Stage:
    """A directory, a port, and the processes started there."""

    directory: Path
    port: int
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.directory / "shop.sqlite"

    @property
    def steps(self) -> Path:
        return self.directory / "steps.log"

    async def start_relay(self, http: httpx.AsyncClient) -> None:
        """Start `relay serve` and wait until it is ready."""
        relay = await self._spawn(
            "relay",
            ["relay", "serve", "--port", str(self.port)],
            {"RELAY_DATA_DIR": str(self.directory / "relay")},
        )

        async def is_ready() -> bool:
            if relay.returncode is not None:
                raise DemoFailedError(f"Relay ended with status {relay.returncode}")
            try:
                return (await http.get("/readyz")).is_success
            except httpx.TransportError:
                return False

        await until("Relay is ready", is_ready)

    async def start_executor(self, name: str) -> "Executor":
        """
        Start an executor and wait until it runs.

        One after the other: two at once race in the SDK's own migration.
        """
        process = await self._spawn(
            name,
            ["demo.app"],
            {
                "DEMO_NAME": name,
                "DEMO_STEPS": str(self.steps),
                "DEMO_DATABASE": f"sqlite:///{self.database}",
                "DEMO_RELAY": f"ws://127.0.0.1:{self.port}",
            },
            with_pipes=True,
        )
        async with CLOCK.timeout(timedelta(seconds=40)):
            line = await _pipe(process.stdout).readline()
        if not line:
            raise DemoFailedError(f"executor {name} did not start")
        return Executor(name, line.decode().strip(), process)

    def read_steps(self) -> list[tuple[str, str, str]]:
        """What the steps wrote: event (`begin`, `end`), step, name of the executor."""
        if not self.steps.exists():
            return []
        lines = self.steps.read_text().splitlines()
        return [(e, s, n) for e, s, n in (line.split() for line in lines)]

    def read_workflow(self, workflow: str) -> tuple[str, int]:
        """Status and number of recorded steps, from the executors' own database."""
        query = """
            SELECT status, (SELECT count(*) FROM operation_outputs o
                            WHERE o.workflow_uuid = w.workflow_uuid)
            FROM workflow_status w WHERE workflow_uuid = ?
        """
        with closing(sqlite3.connect(self.database, timeout=10)) as connection:
            row = connection.execute(query, (workflow,)).fetchone()
        return (row[0], row[1]) if row else ("unknown", 0)

    async def _spawn(
        self,
        name: str,
        module: list[str],
        environment: Mapping[str, str],
        *,
        with_pipes: bool = False,
    ) -> asyncio.subprocess.Process:
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("RELAY_", "DBOS_"))
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *module),
                env={**inherited, **environment},
                stderr=log,
                stdin=PIPE if with_pipes else DEVNULL,
                stdout=PIPE if with_pipes else log,
            )
        self.running.append(process)
        return process


@dataclass(frozen=True, slots=True)
class Executor:
    """A running executor."""

    name: str
    id: str
    process: asyncio.subprocess.Process

    async def start_workflow(self, workflow: str) -> None:
        """Have it start the order `workflow`."""
        stdin = _pipe(self.process.stdin)
        try:
            stdin.write(f"{workflow}\n".encode())
            await stdin.drain()
        except ConnectionError:
            raise DemoFailedError(f"executor {self.name} has ended") from None

    async def kill(self) -> None:
        """SIGKILL: no farewell, no clean-up."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def open_stage(directory: Path) -> AsyncIterator[Stage]:
    """An empty stage; every process on it is ended when the block ends."""
    stage = Stage(directory, free_port(FIRST_PORT))
    try:
        yield stage
    finally:
        for process in reversed(stage.running):
            if process.returncode is None:
                process.kill()
                await process.wait()


async def until(what: str, look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `look` is true, for 60 s at most."""
    try:
        async with CLOCK.timeout(timedelta(seconds=60)):
            while not await look():
                await CLOCK.sleep(POLL)
    except TimeoutError:
        raise DemoFailedError(f"waited for a minute, in vain: {what}") from None


def free_port(first: int) -> int:
    """The first port from `first` on that nobody uses."""
    for port in range(first, first + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoFailedError(f"no free port from {first} on")


def _pipe(pipe: T | None) -> T:
    if pipe is None:
        raise DemoFailedError("a process was started without its pipes")
    return pipe
