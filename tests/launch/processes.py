"""`relay serve` as a process of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from tests.serving import CLOCK

PATIENCE = timedelta(seconds=20)


@asynccontextmanager
async def relay_serve(
    directory: Path,
    *flags: str,
    descriptors: int | None = None,
    patience: timedelta = PATIENCE,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """
    `relay serve` as a process that does not outlive the test.

    Args:
        descriptors: the hard limit of its open files.
        patience: for the whole block.
    """
    command = [sys.executable, "-m", "relay", "serve", "--port", "0", *flags]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with CLOCK.timeout(patience):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def read_until(stream: asyncio.StreamReader | None, text: str) -> str:
    """The first line that holds `text`."""
    assert stream is not None
    while line := (await stream.readline()).decode():
        if text in line:
            return line
    raise AssertionError(f"ended without saying {text!r}")


async def read_port(process: asyncio.subprocess.Process) -> int:
    """Where it listens; returns when it does."""
    line = await read_until(process.stdout, "listening on http://127.0.0.1:")
    return int(line.rsplit(":", 1)[1])
