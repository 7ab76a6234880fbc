"""
Executors of several SDKs at once, for stories that take too long to be told for each.

Each SDK has an application and a system database of its own, and so they may start
together: two that start on one fresh database race in the SDK's migration.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from tests.acceptance.environments import Sdk, skip_without
from tests.acceptance.processes import ExecutorProcess, RelayProcess, until
from tests.acceptance.proxy import Proxy
from tests.acceptance.stage import Stage, SystemDatabase, Workflow
from tests.acceptance.uuid_extension import uuid_extension
from tests.postgres import PostgresServer

Members: TypeAlias = Mapping[str, ExecutorProcess]
"""One executor of each application, by the application's name."""


class Company:
    """
    One application for each SDK, called like it, with any number of executors.

    Its workflows are called like the application, too. Use `open_company`.

    Args:
        databases: where the executors of each SDK work.
    """

    def __init__(self, stage: Stage, databases: Mapping[Sdk, str]) -> None:
        self.sdks = {application_of(sdk): sdk for sdk in databases}
        """By the name of the application."""
        self._stage = stage
        self._databases = {
            application_of(sdk): SystemDatabase(url) for sdk, url in databases.items()
        }

    async def enter(
        self,
        role: str,
        relay: RelayProcess,
        *,
        through: Proxy | None = None,
        version: str = "v1",
    ) -> Members:
        """Start one executor of each, at once; all are HEALTHY then."""
        async with asyncio.TaskGroup() as tasks:
            starting = {
                name: tasks.create_task(
                    self._stage.executor(
                        sdk,
                        f"{name}-{role}",
                        relay=relay,
                        through=through,
                        application=name,
                        version=version,
                        database=self._databases[name].url,
                    )
                )
                for name, sdk in self.sdks.items()
            }
        return {name: started.result() for name, started in starting.items()}

    async def configure(self, relay: RelayProcess, **settings: object) -> None:
        """Set the same for every application."""
        for name in self.sdks:
            await relay.configure(name, **settings)

    async def begin(self, members: Members, *, steps: int, seconds: float) -> None:
        """Start one workflow on each of them."""
        for name, executor in members.items():
            await executor.begin(name, steps=steps, seconds=seconds)

    async def reached(self, step: int, *, within: float) -> None:
        """Wait until every workflow is in that step."""
        for name in self.sdks:
            await self._stage.steps.reached(name, step, within=within)

    async def all_are(
        self,
        relay: RelayProcess,
        members: Members,
        status: str | None,
        *,
        within: float,
    ) -> None:
        """Wait until each is seen in that status; `None`: no record any more."""
        for name, executor in members.items():
            await relay.status_is(name, executor.executor_id, status, within=within)

    async def workflows(self, name: str) -> Mapping[str, Workflow]:
        """All workflows of one application by their id."""
        return await self._databases[name].workflows()

    async def workflow(self, name: str) -> Workflow:
        """The workflow that is called like its application."""
        return await self._databases[name].workflow(name)

    async def succeeded(self, *, within: float) -> None:
        """Wait until every workflow is SUCCESS."""
        for name in self.sdks:

            async def look(name: str = name) -> bool:
                return (await self.workflow(name)).status == "SUCCESS"

            await until(f"{name} succeeded", look, within=within)


def application_of(sdk: Sdk) -> str:
    """What the application of that SDK is called."""
    return str(sdk).replace(".", "-")


@contextmanager
def open_company(
    stage: Stage, server: PostgresServer, sdks: Sequence[Sdk]
) -> Iterator[Company]:
    """A company whose databases are on `server`; nobody has entered yet."""
    for sdk in sdks:
        skip_without(sdk)
    with ExitStack() as databases:
        urls: dict[Sdk, str] = {}
        for sdk in sdks:
            database = server.create_database()
            databases.callback(server.drop_database, database.name)
            databases.enter_context(uuid_extension(database.url))
            urls[sdk] = database.url
        yield Company(stage, urls)
