"""The whole server inside the test's own process and loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import httpx

from relay.clock import SystemClock
from relay.launch import Application, WebServer, bind, configure
from relay.server import Server
from relay.settings import RelaySettings
from relay.tasks import TaskSet
from relay_api.app import create_app

CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens, and a client of it."""

    server: Server
    port: int
    http: httpx.AsyncClient

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(settings: RelaySettings) -> AsyncIterator[Serving]:
    """Relay on a free port, as `relay serve` runs it but for the signals."""
    listeners = bind("127.0.0.1", 0)
    port = listeners[0].getsockname()[1]
    web = WebServer(configure(cast(Application, create_app(settings))))
    async with TaskSet("serving") as tasks:
        running = tasks.spawn(web.serve(listeners), name="uvicorn")
        async with CLOCK.timeout(timedelta(seconds=20)):
            while not web.started:
                assert not running.done(), "the server did not start"
                await CLOCK.sleep(timedelta(milliseconds=10))
        base = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as http:
            yield Serving(web.lifespan.state["server"], port, http)
        web.should_exit = True
        await running
