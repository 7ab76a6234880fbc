"""How many questions a second executors answer through Relay."""

import statistics
from pathlib import Path

from bench.children import Floor, running_asker, running_fleet, running_floor
from bench.report import Figure
from bench.subject import APPLICATION

EXECUTORS = 50
AT_ONCE = 4
"""Questions out on each socket; half of what the most careful SDK limit allows."""

WARM_UP = 2
SECONDS = 10


async def measure_round_trips(directory: Path) -> list[Figure]:
    """Round trips a second over `EXECUTORS` sockets."""
    async with running_asker(directory / "asking", EXECUTORS, AT_ONCE) as relay:
        value = await _observe(relay)
    async with running_floor("raw_socket", str(AT_ONCE)) as raw:
        floor = await _observe(raw)
    return [
        Figure(
            name=f"socket round trips, {EXECUTORS} executors, {AT_ONCE} at once",
            value=value,
            unit="/s",
            floor=floor,
            floor_is="raw sans-I/O",
        )
    ]


async def _observe(server: Floor) -> float:
    async with running_fleet() as fleet:
        await fleet.ask(
            "start", url=server.url, count=EXECUTORS, application=APPLICATION
        )
        counts = [int(await server.read_line()) for _ in range(WARM_UP + SECONDS)]
        return statistics.mean(counts[WARM_UP:])
