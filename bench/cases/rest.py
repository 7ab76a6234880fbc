"""REST while executors are connected: the two calls that operators' tools repeat."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count as count_up
from pathlib import Path

import httpx

from bench.children import CLOCK, running_fleet, running_floor
from bench.report import Figure, quantile
from bench.subject import APPLICATION, running_relay
from relay.tasks import TaskSet

EXECUTORS = 100
CALLERS = 4
SECONDS = timedelta(seconds=8)
LIMIT = timedelta(minutes=1)

PATH = f"/v2/orgs/local/apps/{APPLICATION}"


async def measure_rest(directory: Path) -> list[Figure]:
    """`GET executors` and `PATCH` of the application, by a few callers at once."""
    async with running_relay(directory / "rest") as relay, running_fleet() as fleet:
        await fleet.ask(
            "start", url=relay.url, count=EXECUTORS, application=APPLICATION
        )
        await relay.wait_healthy(EXECUTORS, within=LIMIT)
        content = (await relay.http.get(f"{PATH}/executors")).json()
        get_rate, get_p99 = await _observe(
            relay.port, lambda client: client.get(f"{PATH}/executors")
        )
        timeouts = count_up(60)
        patch_rate, patch_p99 = await _observe(
            relay.port,
            lambda client: client.patch(
                PATH, json={"executorTimeoutSecs": 60 + next(timeouts) % 60}
            ),
        )
    sample = directory / "executors.json"
    sample.write_text(json.dumps(content))
    async with running_floor("bare_route", str(sample)) as bare:
        floor_rate, floor_p99 = await _observe(
            bare.port, lambda client: client.get("/bare")
        )
    return [
        Figure(
            name=f"GET executors ({EXECUTORS}), {CALLERS} callers",
            value=get_rate,
            unit="/s",
            floor=floor_rate,
            floor_is="bare FastAPI route, same body",
        ),
        Figure(
            name="GET executors, p99",
            value=get_p99,
            unit="ms",
            floor=floor_p99,
            floor_is="bare FastAPI route",
        ),
        Figure(
            name=f"PATCH application (audited), {CALLERS} callers",
            value=patch_rate,
            unit="/s",
            floor=floor_rate,
            floor_is="bare FastAPI route, a GET",
        ),
        Figure(
            name="PATCH application, p99",
            value=patch_p99,
            unit="ms",
            floor=floor_p99,
            floor_is="bare FastAPI route, a GET",
        ),
    ]


async def _observe(
    port: int, call: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
) -> tuple[float, float]:
    """Calls a second, and the 99th of a hundred in milliseconds."""
    spans: list[float] = []
    began = CLOCK.monotonic()
    ends_at = began + SECONDS.total_seconds()

    async def keep_calling() -> None:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30
        ) as client:
            while (before := CLOCK.monotonic()) < ends_at:
                (await call(client)).raise_for_status()
                spans.append((CLOCK.monotonic() - before) * 1000)

    async with TaskSet("callers") as tasks:
        callers = [
            tasks.spawn(keep_calling(), name=f"{number}") for number in range(CALLERS)
        ]
        for caller in callers:
            await caller
    seconds = CLOCK.monotonic() - began
    return len(spans) / seconds, quantile(spans, 0.99)
