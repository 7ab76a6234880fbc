"""A hub behind a real uvicorn on a loopback port, in the loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from relay.clock import Clock, SystemClock
from relay.hub.events import Arrival, Departure
from relay.hub.handshake import Admission, Knock, Refusal
from relay.hub.hub import Hub
from relay.hub.socket import RelayWebSocketProtocol
from relay.hub.web import RelayHttpProtocol
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    ExecutorId,
    ExecutorRef,
    KeyId,
    KeyName,
    OrgName,
)
from relay.launch import WebServer
from relay.settings import RelaySettings
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor

ORDERS = ApplicationRef(ApplicationId("app-1"), OrgName("local"), AppName("orders"))
ADMITTED = Admission(ORDERS, KeyId("key-1"), KeyName("main"))
PATIENCE = timedelta(seconds=10)


def executor_ref(executor_id: str = "executor-1") -> ExecutorRef:
    """An executor of the application `orders`."""
    return ExecutorRef(ORDERS, ExecutorId(executor_id))


async def eventually(condition: Callable[[], Any]) -> None:
    """Let the loop turn, for `PATIENCE` of real time at most, until it holds."""
    clock = SystemClock()
    async with clock.timeout(PATIENCE):
        while not condition():
            await clock.sleep(timedelta(milliseconds=1))


@dataclass
class RecordingGatekeeper:
    """Admits the application `orders` with any key, and remembers who knocked."""

    knocks: list[Knock] = field(default_factory=list)
    verdict: Admission | Refusal = ADMITTED
    held: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None

    def __post_init__(self) -> None:
        self.held.set()

    async def admit(self, knock: Knock) -> Admission | Refusal:
        self.knocks.append(knock)
        await self.held.wait()
        if self.failure is not None:
            raise self.failure
        return self.verdict


@dataclass
class RecordingListener:
    """Remembers arrivals and departures in the order of their telling."""

    events: list[Arrival | Departure] = field(default_factory=list)

    def connected(self, arrival: Arrival) -> None:
        self.events.append(arrival)

    def lost(self, departure: Departure) -> None:
        self.events.append(departure)

    @property
    def arrivals(self) -> list[Arrival]:
        return [event for event in self.events if isinstance(event, Arrival)]

    @property
    def departures(self) -> list[Departure]:
        return [event for event in self.events if isinstance(event, Departure)]


@dataclass
class Bench:
    """A running hub, how to reach it, and what it told."""

    hub: Hub
    url: str
    port: int
    server: WebServer
    gatekeeper: RecordingGatekeeper
    listener: RecordingListener
    metrics: Metrics

    async def connect(self, **options: Any) -> FakeExecutor:
        """A connected executor, past its handshake."""
        told = len(self.listener.arrivals)
        executor = await FakeExecutor.connect(self.url, **options)
        await eventually(lambda: len(self.listener.arrivals) > told)
        return executor

    def sample(self, name: str, **labels: str) -> float:
        """The value of a metric; zero when it was never touched."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


async def _echo(request: Request) -> JSONResponse:
    return JSONResponse(
        {"method": request.method, "body": (await request.body()).decode()}
    )


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP response, read until the server closed the connection."""

    status: int
    headers: dict[str, str]
    body: bytes


UPGRADE = {
    "Host": "localhost",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
}


async def knock(
    bench: Bench, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> HttpAnswer:
    """Send an upgrade request by hand and read what refuses it."""
    fields = UPGRADE if headers is None else headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        async with SystemClock().timeout(PATIENCE):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    status, *rest = head.decode().split("\r\n")
    return HttpAnswer(
        int(status.split()[1]),
        {name.lower(): value for name, value in (row.split(": ", 1) for row in rest)},
        body,
    )


@asynccontextmanager
async def open_bench(
    *,
    clock: Clock,
    http: str | type[asyncio.Protocol] = RelayHttpProtocol,
    is_watching: bool = True,
    routes: Sequence[Route] = (),
    **settings: Any,
) -> AsyncIterator[Bench]:
    """
    Serve a hub and a plain HTTP route on one free port.

    Args:
        http: uvicorn's name of a parser, or the protocol of HTTP connections.
        is_watching: whether `Hub.run` runs.
        routes: more of the HTTP application.
        settings: fields of `RelaySettings`.
    """
    metrics = Metrics()
    hub = Hub(settings=RelaySettings(**settings), clock=clock, metrics=metrics)
    gatekeeper, listener = RecordingGatekeeper(), RecordingListener()
    hub.attach(gatekeeper, listener)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        yield {"hub": hub}

    app = Starlette(
        routes=[Route("/echo", _echo, methods=["GET", "POST"]), *routes],
        lifespan=lifespan,
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = WebServer(
            uvicorn.Config(
                app,
                http=http,
                ws=RelayWebSocketProtocol,
                lifespan="on",
                log_config=None,
                access_log=True,
                timeout_graceful_shutdown=10,
            )
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve([listening]))
            watching = tasks.create_task(hub.run()) if is_watching else None
            await eventually(lambda: server.started)
            try:
                yield Bench(
                    hub,
                    f"ws://127.0.0.1:{port}",
                    port,
                    server,
                    gatekeeper,
                    listener,
                    metrics,
                )
            finally:
                gatekeeper.held.set()
                server.should_exit = True
                await serving
                if watching is not None:
                    watching.cancel()
                await hub.switchboard.tasks.close()
                hub.switchboard.reader.shutdown(cancel_futures=True)


@pytest.fixture
async def bench(clock: FakeClock) -> AsyncIterator[Bench]:
    """A hub whose time stands still unless the test moves it."""
    async with open_bench(clock=clock) as opened:
        yield opened
