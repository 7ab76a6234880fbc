"""
Processes of the acceptance tests: Relay itself and real executors.

Every process writes its output to a file of the test's directory, is ended by its own
id when the test ends, and every wait is bounded and says what it waited for.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from relay.clock import SystemClock
from tests.acceptance.environments import Sdk, command_of
from tests.ports import ReservedPort

CLOCK = SystemClock()
T = TypeVar("T")

POLL = timedelta(seconds=0.1)


async def until(
    what: str, look: Callable[[], Awaitable[T | None]], *, within: float
) -> T:
    """
    The first answer of `look` that is neither `None` nor `False`.

    Args:
        within: seconds after which the wait fails with `what` in its message.
    """
    deadline = CLOCK.monotonic() + within
    while True:
        answer = await look()
        if answer is not None and answer is not False:
            return answer
        if CLOCK.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        await CLOCK.sleep(POLL)


class Process:
    """A child process whose output goes to `log`."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        await self._signal(signal.SIGKILL)

    async def terminate(self) -> None:
        """SIGTERM, and wait until it is gone."""
        await self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: it stands still, and its sockets stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def close(self) -> None:
        """End the process if it runs, and free what we hold for it."""
        await self.kill()

    async def _spawn(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        with_pipes: bool = False,
    ) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env={**_clean_environment(), **environment},
                cwd=self.log.parent,
                stderr=log,
                stdin=PIPE if with_pipes else DEVNULL,
                stdout=PIPE if with_pipes else log,
            )
        return self._process

    async def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._process.send_signal(number)
        async with CLOCK.timeout(timedelta(seconds=30)):
            await self._process.wait()


class RelayProcess(Process):
    """`relay serve` on a port of its own, and a client for its REST interface."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        super().__init__("relay", directory / "relay.log")
        self.directory = directory
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self._settings = {"RELAY_DATA_DIR": str(directory / "data"), **environment}
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", timeout=10, trust_env=False
        )

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def start(self) -> Self:
        await self._spawn(
            [sys.executable, "-m", "relay", "serve", "--port", str(self.port)],
            self._settings,
        )

        async def is_ready() -> bool:
            assert self.is_running, f"relay ended with status {self.exit_code}"
            try:
                return (await self.http.get("/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await until("relay answers /readyz", is_ready, within=30)
        return self

    async def close(self) -> None:
        await super().close()
        await self.http.aclose()
        self._reserved.close()

    async def command(self, *words: str) -> str:
        """What `relay …` prints on standard output, beside the running server."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "relay", *words),
            env={**_clean_environment(), **self._settings},
            cwd=self.directory,
            stdout=PIPE,
            stderr=PIPE,
        )
        async with CLOCK.timeout(timedelta(seconds=30)):
            answer, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        return answer.decode()

    async def configure(self, application: str, **settings: object) -> None:
        """Register `application` if it is unknown, and set what is given."""
        path = f"/v2/orgs/local/apps/{application}"
        put = await self.http.put(path, json={})
        assert put.status_code < 300 or put.status_code == 409, put.text
        changed = await self.http.patch(path, json=settings)
        assert changed.status_code < 300, changed.text

    async def executors(self, application: str) -> dict[str, str]:
        """The status of each executor by its id, as REST shows it."""
        shown = await self.http.get(f"/v2/orgs/local/apps/{application}/executors")
        if shown.status_code == 404:
            return {}
        assert shown.status_code == 200, shown.text
        return {row["executorId"]: row["status"] for row in shown.json()}

    async def recoveries(self, application: str) -> list[dict[str, Any]]:
        """The recoveries of `application`, newest first."""
        shown = await self.http.get(
            f"/relay/v1/orgs/local/apps/{application}/recoveries"
        )
        assert shown.status_code == 200, shown.text
        rows: list[dict[str, Any]] = shown.json()
        return rows

    async def audit(self, **filters: str) -> list[dict[str, Any]]:
        """Audit entries, newest first."""
        shown = await self.http.get("/v2/orgs/local/audit-logs", params=filters)
        assert shown.status_code == 200, shown.text
        entries: list[dict[str, Any]] = shown.json()
        return entries

    async def count_of(self, operation: str) -> int:
        """How many audit entries of one kind there are, up to 1,000."""
        return len(await self.audit(operation=operation, limit="1000"))

    async def wait_for(self, operation: str, *, within: float) -> dict[str, Any]:
        """Wait for an audit entry of one kind; the first of them."""

        async def look() -> dict[str, Any] | None:
            entries = await self.audit(operation=operation)
            return entries[-1] if entries else None

        return await until(f"the audit log tells of {operation}", look, within=within)

    async def status_is(
        self, application: str, executor: str, status: str | None, *, within: float
    ) -> None:
        """Wait until REST shows `status` for `executor`; `None`: no record any more."""

        async def look() -> bool:
            return (await self.executors(application)).get(executor) == status

        await until(f"executor {executor} is {status}", look, within=within)


class ExecutorProcess(Process):
    """A real executor: the test application on one SDK."""

    def __init__(self, sdk: Sdk, directory: Path, name: str) -> None:
        super().__init__(name, directory / f"{name}.log")
        self.sdk = sdk
        self.executor_id = ""
        self._facts: asyncio.StreamReader | None = None

    async def start(
        self,
        *,
        relay: str,
        key: str,
        database: str,
        application: str,
        version: str,
        steps: Path,
        executor_id: str | None = None,
    ) -> Self:
        """
        Start it, and return when the SDK has been launched.

        Args:
            relay: the address to dial.
            steps: where the steps write down that they run.
            executor_id: an id of our choice instead of the SDK's; Python only.
        """
        process = await self._spawn(
            command_of(self.sdk),
            {
                "APP_NAME": application,
                "APP_VERSION": version,
                "SYSTEM_DATABASE_URL": database,
                "CONDUCTOR_URL": relay,
                "CONDUCTOR_KEY": key,
                "STEP_LOG": str(steps),
                "EXECUTOR_ID": executor_id or "",
                "NO_COLOR": "1",
            },
            with_pipes=True,
        )
        self._facts = process.stdout
        self.executor_id = await self._read_fact("ready", within=60)
        return self

    async def poison(self, workflow: str, *, seconds: float) -> None:
        """Start a workflow that kills whichever process runs it, after `seconds`."""
        await self._command(f"poison {workflow} {seconds}")
        assert await self._read_fact("started", within=30) == workflow

    async def cancel(self, workflow: str) -> None:
        """Cancel `workflow`, whoever runs it."""
        await self._command(f"cancel {workflow}")
        assert await self._read_fact("cancelled", within=30) == workflow

    async def begin(self, workflow: str, *, steps: int, seconds: float) -> None:
        """Start a workflow of `steps` steps that take `seconds` each."""
        await self._command(f"start {workflow} {steps} {seconds}")
        assert await self._read_fact("started", within=30) == workflow

    async def enqueue(self, workflow: str, *, seconds: float, delay: float = 0) -> None:
        """
        Put a workflow of one step that takes `seconds` into the queue `jobs`.

        Args:
            delay: in seconds; it enters the queue after that. Call `perform` first.
        """
        await self._command(f"enqueue {workflow} {seconds} {delay}")
        assert await self._read_fact("started", within=30) == workflow

    async def begin_family(self, workflow: str, *, steps: int, seconds: float) -> None:
        """
        Start a workflow that awaits a child, called like it and `-child`.

        The child has `steps` steps that take `seconds` each. Python and TypeScript.
        """
        await self._command(f"family {workflow} {steps} {seconds}")
        assert await self._read_fact("started", within=30) == workflow

    async def begin_pair(self, workflow: str, *, seconds: float) -> None:
        """
        Start a workflow that takes two steps at once, and one after both.

        The first takes `seconds`, the others no time. Python and TypeScript.
        """
        await self._command(f"pair {workflow} {seconds}")
        assert await self._read_fact("started", within=30) == workflow

    async def send(self, workflow: str, text: str) -> None:
        """Send `workflow` a message. Python and TypeScript."""
        await self._command(f"send {workflow} {text}")
        assert await self._read_fact("sent", within=30) == workflow

    async def perform(self) -> None:
        """Have one of everything: workflows, queues, schedules, events, messages."""
        await self._command("perform")
        await self._read_fact("performed", within=60)

    async def finish(self, workflow: str, *, within: float) -> None:
        """Wait until `workflow` has ended, whoever ran it."""
        await self._command(f"wait {workflow}")
        assert await self._read_fact("finished", within=within) == workflow

    async def close(self) -> None:
        await super().close()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _command(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def _read_fact(self, word: str, *, within: float) -> str:
        assert self._facts is not None
        async with CLOCK.timeout(timedelta(seconds=within)):
            while line := (await self._facts.readline()).decode():
                with self.log.open("a") as log:
                    log.write(line)
                first, _, rest = line.strip().partition(" ")
                if first == word:
                    return rest
        raise AssertionError(f"{self.name} ended before it said {word!r}")


@asynccontextmanager
async def ended_in_reverse(processes: list[Process]) -> AsyncIterator[None]:
    """End `processes` when the block ends, the latest first."""
    try:
        yield
    finally:
        for process in reversed(processes):
            await process.close()


def _clean_environment() -> dict[str, str]:
    """The environment of the test run without anything that configures us or an SDK."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RELAY_", "DBOS_", "PYTEST_", "COV_"))
    }
