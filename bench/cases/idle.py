"""What an idle executor costs: memory, and processor time for the pings both ways."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from bench.children import (
    CLOCK,
    FleetProcess,
    read_cpu_seconds,
    read_rss_bytes,
    running_fleet,
    running_floor,
)
from bench.probe import probing, stall_figures
from bench.report import Figure
from bench.subject import APPLICATION, running_relay

FIRST = 200
"""Executors before the first look: what Relay loads for them is not theirs alone."""

CONNECT_LIMIT = timedelta(minutes=3)
SETTLE = timedelta(seconds=25)
WINDOW = timedelta(seconds=60)
"""Three intervals of pings."""


async def measure_idle(directory: Path, count: int) -> list[Figure]:
    """Memory and processor time of `count` connected executors that do nothing."""
    async with running_relay(directory / "idle") as relay:
        async with probing(relay.port) as probe:
            kib, percent = await _observe(
                relay.pid,
                relay.url,
                count,
                lambda number: relay.wait_healthy(number, within=CONNECT_LIMIT),
            )
        stall = await relay.read_metric("relay_loop_stall_seconds_max")
        pause = await relay.read_metric("relay_gc_pause_seconds_max")
    async with running_floor("raw_socket") as raw:
        raw_kib, raw_percent = await _observe(raw.process.pid, raw.url, count, _at_once)
    async with running_floor("bare_websockets") as bare:
        bare_kib, bare_percent = await _observe(
            bare.process.pid, bare.url, count, _at_once
        )
    return [
        Figure(
            name="memory per idle executor",
            value=kib,
            unit="KiB",
            floor=raw_kib,
            floor_is=f"raw sans-I/O; websockets server {bare_kib:.3g}",
            bound=12,
        ),
        Figure(
            name=f"CPU, {count:,} idle executors, pings both ways",
            value=percent,
            unit="% of a core",
            floor=raw_percent,
            floor_is=f"raw, answers only; websockets server {bare_percent:.3g}",
            bound=20,
        ),
        *stall_figures(probe, stall, "while they connect and idle"),
        Figure(
            name="longest GC pause while they connect and idle",
            value=pause * 1000,
            unit="ms",
        ),
    ]


async def _observe(
    pid: int, url: str, count: int, wait: Callable[[int], Awaitable[None]]
) -> tuple[float, float]:
    """KiB for each socket, and the share of a core in percent."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_fleet())
        await _connect(first, url, FIRST, wait)
        before = read_rss_bytes(pid)
        await first.ask("grow", count=count)
        await first.wait_connected(count, within=CONNECT_LIMIT)
        await wait(count)
        await CLOCK.sleep(SETTLE)
        kib = (read_rss_bytes(pid) - before) / (count - FIRST) / 1024
        began, used = CLOCK.monotonic(), read_cpu_seconds(pid)
        await CLOCK.sleep(WINDOW)
        seconds = CLOCK.monotonic() - began
        return kib, 100 * (read_cpu_seconds(pid) - used) / seconds


async def _connect(
    fleet: FleetProcess, url: str, count: int, wait: Callable[[int], Awaitable[None]]
) -> None:
    await fleet.ask("start", url=url, count=count, application=APPLICATION)
    await fleet.wait_connected(count, within=CONNECT_LIMIT)
    await wait(count)


async def _at_once(count: int) -> None:
    del count
