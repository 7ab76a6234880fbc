"""Questions that only an executor can answer: what Relay in the middle costs."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from bench.callers import SPAN, Observation, observe, request
from bench.children import FleetProcess, running_fleet, running_floor
from bench.report import Figure
from bench.subject import APPLICATION, Subject, running_relay
from bench.workflows import make_row, read_span

CALLERS = 50
ROWS = 100
PAUSE = timedelta(milliseconds=500)
"""With so many callers about a hundred calls a second."""

ANSWER_MS = (5, 15)
"""What the executor takes while the callers pause."""

AT_ONCE = 8
"""Questions that Relay has out on one socket of a Python executor."""

LIMIT = timedelta(minutes=1)
WARM_UP = 2
SECONDS = 5

PATH = f"/v2/orgs/local/apps/{APPLICATION}/workflows"
GET = request("GET", f"{PATH}/{make_row(1)['WorkflowUUID']}")
SEARCH = request("POST", f"{PATH}/search", json.dumps({"limit": ROWS}).encode())
QUESTIONS: Mapping[str, tuple[bytes, Mapping[str, object]]] = {
    "GET workflow": (GET, {"type": "get_workflow", "workflow_id": "w"}),
    f"POST search ({ROWS} rows)": (
        SEARCH,
        {"type": "list_workflows", "body": {"limit": ROWS}},
    ),
}


async def measure_relayed(directory: Path) -> list[Figure]:
    """`GET workflow` and `POST search` through one executor."""
    figures: list[Figure] = []
    async with running_relay(directory / "relayed") as relay, running_fleet() as fleet:
        await fleet.ask("start", url=relay.url, count=1, application=APPLICATION)
        await relay.wait_healthy(1, within=LIMIT)
        for name, (asked, message) in QUESTIONS.items():
            sample = _keep(directory, await _read_sample(relay, asked))
            seen = await observe(relay.port, asked, callers=CALLERS)
            bare = await _observe_bare(sample)
            own_ms, own_rate = await _observe_executor(message)
            figures += _tell(name, seen, bare, own_ms, own_rate)
        figures.append(await _measure_addition(relay, fleet, directory))
    return figures


def _tell(
    name: str, seen: Observation, bare: Observation, own_ms: float, own_rate: float
) -> list[Figure]:
    executor = f"the executor alone: {own_rate:,.0f}/s, p50 {own_ms:.2f} ms"
    return [
        Figure(
            name=f"{name}, {CALLERS} callers",
            value=seen.rate,
            unit="/s",
            floor=bare.rate,
            floor_is="bare FastAPI route, same bytes",
            bound=bare.rate / 2 if name.startswith("GET") else None,
            is_least=True,
            note=f"{executor} with {AT_ONCE} questions out",
        ),
        Figure(
            name=f"{name}, p50",
            value=seen.p50_ms,
            unit="ms",
            floor=bare.p50_ms,
            floor_is="bare FastAPI route",
        ),
        Figure(
            name=f"{name}, p99",
            value=seen.p99_ms,
            unit="ms",
            floor=bare.p99_ms,
            floor_is="bare FastAPI route",
        ),
    ]


async def _measure_addition(
    relay: Subject, fleet: FleetProcess, directory: Path
) -> Figure:
    """What Relay adds to an executor's own time when nothing is overloaded."""
    shortest_ms, longest_ms = ANSWER_MS
    await fleet.ask("answer_after", shortest_ms=shortest_ms, longest_ms=longest_ms)
    seen = await observe(
        relay.port, GET, callers=CALLERS, pause=PAUSE, span=2 * SPAN, less=read_span
    )
    sample = _keep(directory, await _read_sample(relay, GET))
    bare = await _observe_bare(sample, pause=PAUSE)
    return Figure(
        name=f"added to the executor's answer, {CALLERS} callers that pause, p50",
        value=seen.p50_ms,
        unit="ms",
        floor=bare.p50_ms,
        floor_is="bare FastAPI route, all of its answer",
        bound=2,
        note=(
            f"GET workflow, {seen.rate:.0f} calls a second, answered after"
            f" {shortest_ms} to {longest_ms} ms; p99 {seen.p99_ms:.1f} ms"
        ),
    )


def _keep(directory: Path, sample: str) -> Path:
    path = directory / "sample.json"
    path.write_text(sample)
    return path


async def _read_sample(relay: Subject, asked: bytes) -> str:
    head, _, body = asked.partition(b"\r\n\r\n")
    method, path, _ = head.decode().split(" ", 2)
    answer = await relay.http.request(
        method, path, content=body, headers={"Content-Type": "application/json"}
    )
    return answer.raise_for_status().text


async def _observe_bare(
    sample: Path, *, pause: timedelta = timedelta(0)
) -> Observation:
    async with running_floor("bare_route", str(sample)) as bare:
        return await observe(
            bare.port,
            request("GET", "/bytes"),
            callers=CALLERS,
            pause=pause,
        )


async def _observe_executor(message: Mapping[str, object]) -> tuple[float, float]:
    """The median of its answers in milliseconds, and how many a second."""
    async with (
        running_floor("bare_asking", f"{AT_ONCE}", json.dumps(message)) as asker,
        running_fleet() as fleet,
    ):
        await fleet.ask("start", url=asker.url, count=1, application=APPLICATION)
        lines = [await asker.read_line() for _ in range(WARM_UP + SECONDS)]
    seconds = [[float(word) for word in line.split()] for line in lines[WARM_UP:]]
    middles, counts = zip(*seconds, strict=True)
    return sum(middles) / SECONDS, sum(counts) / SECONDS
