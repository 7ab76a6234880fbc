"""Executors that take 20 s for an answer, and the application beside them."""

from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from bench.callers import SPAN, Observation, observe, request
from bench.children import running_fleet
from bench.report import Figure, quantile
from bench.subject import APPLICATION, running_relay
from relay.tasks import TaskSet

SLOW_EXECUTORS = 20
SLOW_CALLERS = 160
"""As many as their sockets take at once."""

SLOW_MS = 20_000
FAST_CALLERS = 4
LIMIT = timedelta(minutes=1)
SLOW = "slow"


async def measure_slow(directory: Path) -> list[Figure]:
    """`GET workflow` of one application while all callers of another one wait."""
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(running_relay(directory / "slow"))
        fast = await stack.enter_async_context(running_fleet())
        slow = await stack.enter_async_context(running_fleet())
        await fast.ask("start", url=relay.url, count=1, application=APPLICATION)
        await slow.ask("answer_after", shortest_ms=SLOW_MS, longest_ms=SLOW_MS)
        await slow.ask("start", url=relay.url, count=SLOW_EXECUTORS, application=SLOW)
        await relay.wait_healthy(1 + SLOW_EXECUTORS, within=LIMIT)

        await _observe(relay.port, APPLICATION, FAST_CALLERS)  # warms up
        before = await _observe(relay.port, APPLICATION, FAST_CALLERS)
        tasks = await stack.enter_async_context(TaskSet("slow callers"))
        waiting = tasks.spawn(_observe(relay.port, SLOW, SLOW_CALLERS), name="all")
        beside = await _observe(relay.port, APPLICATION, FAST_CALLERS)
        answered = await waiting
        after = await _observe(relay.port, APPLICATION, FAST_CALLERS)
    alone_ms = quantile([*before.spans_ms, *after.spans_ms], 0.99)
    return [
        Figure(
            name=f"GET workflow beside {SLOW_EXECUTORS} executors that take 20 s, p99",
            value=beside.p99_ms,
            unit="ms",
            floor=alone_ms,
            floor_is="the same without them, before and after",
            bound=1.2 * alone_ms,
            note=(
                f"{FAST_CALLERS} callers, {beside.rate:.0f} calls a second;"
                f" {len(answered.spans_ms)} slow calls were out meanwhile"
            ),
        )
    ]


async def _observe(port: int, application: str, callers: int) -> Observation:
    path = f"/v2/orgs/local/apps/{application}/workflows/w"
    return await observe(
        port,
        request("GET", path),
        callers=callers,
        span=SPAN,
        # Executors that slow are given up before their answer.
        may_fail=application == SLOW,
    )
