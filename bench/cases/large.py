"""Large replies of an executor on their way to a caller: memory, and who waits."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.children import (
    forget_peak,
    read_peak_bytes,
    read_rss_bytes,
    running_fleet,
)
from bench.probe import probing, stall_figures
from bench.report import Figure
from bench.subject import APPLICATION, Subject, running_relay

ROWS = 5_000
EXPORT_MIB = 64
LIMIT = timedelta(minutes=1)
PATH = f"/v2/orgs/local/apps/{APPLICATION}/workflows"
MIB = 2**20


async def measure_large(directory: Path) -> list[Figure]:
    """A long list of workflows, and an export."""
    figures: list[Figure] = []
    async with running_relay(directory / "large") as relay, running_fleet() as fleet:
        await fleet.ask("start", url=relay.url, count=1, application=APPLICATION)
        await relay.wait_healthy(1, within=LIMIT)
        async with probing(relay.port) as probe:
            figures.append(
                await _measure(
                    relay,
                    f"a list of {ROWS:,} workflows",
                    "POST",
                    f"{PATH}/search",
                    {"limit": ROWS},
                )
            )
            figures.append(
                await _measure(
                    relay,
                    f"an export of {EXPORT_MIB} MiB",
                    "GET",
                    f"{PATH}/big-{EXPORT_MIB}/export",
                )
            )
        stall = await relay.read_metric("relay_loop_stall_seconds_max")
    return [*figures, *stall_figures(probe, stall, "while large replies pass")]


async def _measure(
    relay: Subject,
    what: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
) -> Figure:
    """What the process held at most, beyond what it held before, by size of reply."""
    before = read_rss_bytes(relay.pid)
    forget_peak(relay.pid)
    size = 0
    async with relay.http.stream(method, path, json=body) as answer:
        answer.raise_for_status()
        async for piece in answer.aiter_raw():
            size += len(piece)
    grown = read_peak_bytes(relay.pid) - before
    return Figure(
        name=f"memory for {what}, at most",
        value=grown / size,
        unit="MiB per MiB",
        note=f"{size / MIB:.1f} MiB of answer, {grown / MIB:.0f} MiB of memory",
    )
