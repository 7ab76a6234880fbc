"""What an acceptance test stands on: Relay, executors, their database, their steps."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.acceptance.environments import Sdk
from tests.acceptance.processes import ExecutorProcess, Process, RelayProcess, until
from tests.acceptance.proxy import Proxy

QUICK = {
    "RELAY_START_HOLD_SECS": "0",
    "RELAY_FAULT_GRACE_SECS": "8",
    "RELAY_LOG_LEVEL": "debug",
    "RELAY_LOG_FORMAT": "json",
}
"""Relay with spans that a test can wait for."""

SHARP = {"RELAY_PING_INTERVAL_SECS": "1", "RELAY_PING_WAIT_SECS": "3"}
"""Silence is noticed within seconds."""

MARKER_KEY = "marker-key-that-must-not-be-written"
"""The key of an executor in local mode, where any will do."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow as the system database of the application shows it."""

    status: str
    executor_id: str
    recorded_steps: int
    """Steps whose result is stored: they must never run again."""


class SystemDatabase:
    """The database that the executors of a test share; read only."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def workflows(self) -> Mapping[str, Workflow]:
        """All workflows by their id."""
        statement = """
            SELECT w.workflow_uuid, w.status, w.executor_id, count(o.function_id)
            FROM dbos.workflow_status w
            LEFT JOIN dbos.operation_outputs o USING (workflow_uuid)
            GROUP BY w.workflow_uuid, w.status, w.executor_id
        """
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            cursor = await connection.execute(statement)
            return {
                row[0]: Workflow(row[1], row[2], row[3])
                for row in await cursor.fetchall()
            }

    async def workflow(self, workflow: str) -> Workflow:
        return (await self.workflows())[workflow]


class StepLog:
    """Which executor began and ended which step, as the steps themselves wrote it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def executors_of(self, event: str, workflow: str) -> Mapping[int, list[str]]:
        """By step, the executors that noted `event` (`begin`, `end`), in order."""
        found: dict[int, list[str]] = {}
        for line in self.path.read_text().splitlines():
            noted, name, step, executor = line.split()
            if (noted, name) == (event, workflow):
                found.setdefault(int(step), []).append(executor)
        return found

    def count_begun(self, workflow: str) -> Mapping[int, int]:
        """How many times each step was begun."""
        begun = self.executors_of("begin", workflow)
        return Counter({step: len(executors) for step, executors in begun.items()})

    async def reached(self, workflow: str, step: int, *, within: float) -> None:
        """Wait until `step` of `workflow` is being executed."""

        async def look() -> bool:
            return step in self.executors_of("begin", workflow)

        await until(f"{workflow} is in step {step}", look, within=within)

    async def turned(self, workflow: str, *, within: float) -> None:
        """Wait until `workflow` begins another step: it stays in that for a while."""
        before = sum(self.count_begun(workflow).values())

        async def look() -> bool:
            return sum(self.count_begun(workflow).values()) > before

        await until(f"{workflow} begins another step", look, within=within)

    async def ran_on(
        self, workflow: str, executor: str, *, steps: int = 1, within: float
    ) -> None:
        """Wait until `executor` has begun so many steps of `workflow`."""

        async def look() -> bool:
            begun = self.executors_of("begin", workflow).values()
            return sum(executor in executors for executors in begun) >= steps

        await until(f"{executor} works on {workflow}", look, within=within)


class Stage:
    """Starts the processes of one test; `conftest.stage` ends them."""

    def __init__(self, directory: Path, database_url: str) -> None:
        self.directory = directory
        self.database = SystemDatabase(database_url)
        self.steps = StepLog(directory / "steps.log")
        self.processes: list[Process] = []

    async def relay(self, **environment: str) -> RelayProcess:
        """A running Relay, on SQLite unless `environment` says otherwise."""
        relay = RelayProcess(self.directory, {**QUICK, **environment})
        self.processes.append(relay)
        return await relay.start()

    async def executor(
        self,
        sdk: Sdk,
        name: str,
        *,
        relay: RelayProcess | str,
        through: Proxy | None = None,
        application: str = "loop",
        version: str = "v1",
        key: str = MARKER_KEY,
        database: str | None = None,
        executor_id: str | None = None,
    ) -> ExecutorProcess:
        """
        A running executor that Relay sees as HEALTHY.

        Two at once on a fresh system database race in the SDK's own migration, so
        they are started one after the other.

        Args:
            relay: whom to connect to; a mere address is not asked for the status.
            through: what to dial instead of `relay` itself.
            database: the system database, unless it is that of the stage.
            executor_id: its id, unless the SDK is to choose one.
        """
        executor = ExecutorProcess(sdk, self.directory, name)
        self.processes.append(executor)
        url = relay if isinstance(relay, str) else relay.url
        await executor.start(
            relay=url if through is None else through.url,
            key=key,
            database=database or self.database.url,
            application=application,
            version=version,
            steps=self.steps.path,
            executor_id=executor_id,
        )
        if isinstance(relay, RelayProcess):
            await relay.status_is(
                application, executor.executor_id, "HEALTHY", within=15
            )
        return executor

    async def succeeded(self, *workflows: str, within: float) -> None:
        """Wait until all of `workflows` are SUCCESS."""

        async def look() -> bool:
            known = await self.database.workflows()
            return all(
                name in known and known[name].status == "SUCCESS" for name in workflows
            )

        await until(f"{', '.join(workflows)} succeeded", look, within=within)
