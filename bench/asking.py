"""
The process that asks executors as fast as it can, through Relay's own dispatch and hub.

Relay as a whole runs in it. Once `argv[2]` executors are on line, each has `argv[3]`
questions out all the time, and the number of replies in each second goes to standard
output.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import cast

import uvicorn

from bench.floors.listening import announce, raise_descriptor_limit
from bench.subject import APPLICATION
from relay.dispatch import Peer
from relay.ids import AppName, AppVersion, ExecutorId
from relay.launch import Application, bind, configure
from relay.protocol.messages import ExistPendingWorkflowsRequest
from relay.registry import LOCAL_ORGANIZATION
from relay.server import Server
from relay.settings import LogFormat, LogLevel, RelaySettings
from relay.tasks import TaskSet
from relay.telemetry import configure_logging
from relay_api.app import create_app

QUESTION = ExistPendingWorkflowsRequest(ExecutorId("e1"), AppVersion("v1"))
PATIENCE = timedelta(seconds=30)


class Asker:
    """Keeps questions out on every executor, and counts the replies."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.replies = 0

    async def find_peers(self, count: int) -> list[Peer]:
        """All executors, once there are that many."""
        while True:
            async with self._server.store.read() as work:
                record = await work.applications.find(
                    LOCAL_ORGANIZATION, AppName(APPLICATION)
                )
            if record is not None:
                peers = list(self._server.hub.list_peers(record.ref.id))
                if len(peers) >= count:
                    return [cast(Peer, peer) for peer in peers]
            await self._server.clock.sleep(timedelta(milliseconds=100))

    async def ask(self, peer: Peer) -> None:
        """Ask one executor again and again, until cancelled."""
        while True:
            await peer.ask(QUESTION, PATIENCE)
            self.replies += 1


async def _serve(directory: Path, count: int, at_once: int) -> None:
    raise_descriptor_limit()
    configure_logging(LogFormat.JSON, LogLevel.WARNING)
    settings = RelaySettings(data_dir=directory)
    listeners = bind("127.0.0.1", 0)
    web = uvicorn.Server(configure(cast(Application, create_app(settings))))
    async with TaskSet("asking") as tasks:
        tasks.spawn(web.serve(listeners), name="uvicorn")
        announce(listeners[0])
        while not web.started:
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        server: Server = web.lifespan.state["server"]
        asker = Asker(server)
        for peer in await asker.find_peers(count):
            for number in range(at_once):
                tasks.spawn(asker.ask(peer), name=f"{peer.ref.executor_id} {number}")
        while True:
            before = asker.replies
            await server.clock.sleep(timedelta(seconds=1))
            print(asker.replies - before, flush=True)  # noqa: T201 - read by the parent


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
