"""Relay as it is measured: `relay serve` on SQLite, and what can be read of it."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.children import CLOCK, START_LIMIT, end

APPLICATION = "bench"


@dataclass(frozen=True, slots=True)
class Happening:
    """One entry of the audit log: when, in seconds since 1970, and its details."""

    at: float
    details: Mapping[str, Any]


class Subject:
    """One Relay, whose process can be replaced by a new one on the same data."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._process: Process | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.stop()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("Relay does not run")
        return self._process.pid

    async def start(self) -> None:
        """Start a process and wait until it serves."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RELAY_", "DBOS_"))
        }
        with (self._directory / "relay.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "relay",
                "serve",
                "--port",
                str(self.port),
                "--data-dir",
                str(self._directory),
                "--log-format",
                "json",
                stdout=log,
                stderr=log,
                env=environment,
            )
        async with CLOCK.timeout(START_LIMIT):
            while not await self._is_ready():
                await CLOCK.sleep(timedelta(milliseconds=20))

    async def stop(self, with_signal: int = signal.SIGTERM) -> None:
        """End the process; its data stay."""
        if self._process is not None:
            await end(self._process, with_signal)

    async def set_timeout(self, span: timedelta) -> None:
        """How long an executor of the application may be away."""
        reply = await self.http.patch(
            f"/v2/orgs/local/apps/{APPLICATION}",
            json={"executorTimeoutSecs": int(span.total_seconds())},
        )
        reply.raise_for_status()

    async def read_metric(self, name: str) -> float:
        """One of its own figures, without labels."""
        text = (await self.http.get("/metrics")).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and not sample.labels:
                    return sample.value
        raise KeyError(name)

    def count_healthy(self) -> int:
        """How many executors are HEALTHY in the database."""
        [(number,)] = self._query(
            "SELECT count(*) FROM executor WHERE status = 'HEALTHY'"
        )
        return int(number)

    async def wait_healthy(self, count: int, *, within: timedelta) -> None:
        """
        Return when that many executors are HEALTHY.

        Raises:
            TimeoutError: it took longer than `within`.
        """
        async with CLOCK.timeout(within):
            while self.count_healthy() < count:
                await CLOCK.sleep(timedelta(milliseconds=100))

    def list_happenings(self, operation: str, *, since: float) -> list[Happening]:
        """Audit entries of one operation, oldest first, since an instant."""
        rows = self._query(
            "SELECT emitted_at, details FROM audit_entry"
            " WHERE operation = ? AND emitted_at >= ? ORDER BY id",
            operation,
            int(since * 1_000_000),
        )
        return [Happening(at / 1_000_000, json.loads(details)) for at, details in rows]

    def _query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        path = self._directory / "relay.db"
        with closing(
            sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        ) as connection:
            return connection.execute(statement, parameters).fetchall()

    async def _is_ready(self) -> bool:
        try:
            return (await self.http.get("/readyz")).is_success
        except httpx.TransportError:
            return False


@asynccontextmanager
async def running_relay(directory: Path) -> AsyncIterator[Subject]:
    """A Relay with the application registered, ended with the block."""
    async with Subject(directory) as relay:
        reply = await relay.http.put(f"/v2/orgs/local/apps/{APPLICATION}", json={})
        reply.raise_for_status()
        yield relay
