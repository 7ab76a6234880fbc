"""Processes of the bench: started, asked, measured, and always ended."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from relay.clock import SystemClock

CLOCK: Final = SystemClock()
START_LIMIT = timedelta(seconds=30)
ANSWER_LIMIT = timedelta(seconds=60)
STOP_LIMIT = timedelta(seconds=20)

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def read_rss_bytes(pid: int) -> int:
    """The memory of a process that is in RAM."""
    return _read_memory(pid, "VmRSS:")


def forget_peak(pid: int) -> None:
    """Let `read_peak_bytes` be about the time from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def read_peak_bytes(pid: int) -> int:
    """The most memory of a process that was in RAM at once."""
    return _read_memory(pid, "VmHWM:")


def _read_memory(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def read_cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


async def end(process: Process, with_signal: int = signal.SIGTERM) -> None:
    """End a process that we started; by force when it does not go."""
    if process.returncode is None:
        process.send_signal(with_signal)
    try:
        async with CLOCK.timeout(STOP_LIMIT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class FleetProcess:
    """The fleet, as its parent sees it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def ask(self, command: str, **arguments: object) -> dict[str, Any]:
        """Have the fleet obey one command; what it says."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the fleet was started without pipes")
        line = json.dumps({"command": command, **arguments}) + "\n"
        stdin.write(line.encode())
        async with CLOCK.timeout(ANSWER_LIMIT):
            answer = await stdout.readline()
        if not answer:
            raise RuntimeError("the fleet has ended; its error is above")
        reply: dict[str, Any] = json.loads(answer)
        return reply

    async def kill(self) -> None:
        """End it at once; the system resets all its sockets."""
        await end(self._process, signal.SIGKILL)

    async def wait_connected(self, count: int, *, within: timedelta) -> None:
        """
        Return when that many sockets have been upgraded.

        Raises:
            TimeoutError: it took longer than `within`.
        """
        async with CLOCK.timeout(within):
            while (await self.ask("status"))["connected"] < count:
                await CLOCK.sleep(timedelta(milliseconds=50))


@asynccontextmanager
async def running_fleet() -> AsyncIterator[FleetProcess]:
    """A fleet that waits for commands, and ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.fleet",
        stdin=PIPE,
        stdout=PIPE,
        limit=2**24,
    )
    try:
        yield FleetProcess(process)
    finally:
        await end(process)


class Floor:
    """A bare server: its process, its port, and the lines that it prints."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def read_line(self) -> str:
        """The next line of its output."""
        if self.process.stdout is None:
            raise RuntimeError("the floor was started without a pipe")
        async with CLOCK.timeout(ANSWER_LIMIT):
            return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def running_floor(
    name: str, *arguments: str, port: int = 0
) -> AsyncIterator[Floor]:
    """One of `bench.floors`, listening, and ended with the block."""
    words = (f"bench.floors.{name}", str(port), *arguments)
    async with _running(words) as floor:
        yield floor


@asynccontextmanager
async def running_asker(
    directory: Path, executors: int, at_once: int
) -> AsyncIterator[Floor]:
    """`bench.asking`, listening, and ended with the block."""
    words = ("bench.asking", str(directory), str(executors), str(at_once))
    async with _running(words) as asker:
        yield asker


@asynccontextmanager
async def _running(words: Sequence[str]) -> AsyncIterator[Floor]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, stdout=PIPE
    )
    try:
        floor = Floor(process, 0)
        floor.port = int(await floor.read_line())
        yield floor
    finally:
        await end(process, signal.SIGKILL)
