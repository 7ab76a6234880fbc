"""`make bench`: measure, print a table, keep the run as JSON."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from bench.cases.cut import measure_cut
from bench.cases.deaths import measure_deaths
from bench.cases.idle import measure_idle
from bench.cases.rest import measure_rest
from bench.cases.restart import measure_restart
from bench.cases.round_trips import measure_round_trips
from bench.children import CLOCK
from bench.floors.listening import raise_descriptor_limit
from bench.machine import describe_machine
from bench.report import Figure, render_table, write_results

RESULTS = Path(__file__).parent / "results"

Case = Callable[[Path, int], Awaitable[list[Figure]]]


async def _rest(directory: Path, count: int) -> list[Figure]:
    del count
    return await measure_rest(directory)


async def _round_trips(directory: Path, count: int) -> list[Figure]:
    del count
    return await measure_round_trips(directory)


CASES: Mapping[str, Case] = {
    "rest": _rest,
    "round-trips": _round_trips,
    "idle": measure_idle,
    "restart": measure_restart,
    "cut": measure_cut,
    "deaths": measure_deaths,
}


def main(
    executors: Annotated[
        int, typer.Option(min=400, max=18_000, help="executors in the large cases")
    ] = 10_000,
    only: Annotated[
        list[str] | None, typer.Option(help=f"one of: {', '.join(CASES)}; repeatable")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="where to keep the run; default: bench/results")
    ] = None,
) -> None:
    """Measure Relay beside its floors; ten to fifteen minutes for everything."""
    unknown = set(only or ()) - CASES.keys()
    if unknown:
        raise typer.BadParameter(f"no such case: {', '.join(sorted(unknown))}")
    raise_descriptor_limit()
    machine = describe_machine()
    chosen = [name for name in CASES if not only or name in only]
    figures = asyncio.run(_measure(chosen, executors))
    typer.echo("\n" + render_table(figures))
    for figure in figures:
        if figure.note:
            typer.echo(f"  {figure.name}: {figure.note}")
    stamp = str(machine["measured_at"]).replace(":", "").partition("+")[0]
    path = out or RESULTS / f"{stamp}.json"
    write_results(
        path,
        machine=machine,
        parameters={"executors": executors, "cases": chosen},
        figures=figures,
    )
    typer.echo(f"\nkept in {path}")


async def _measure(names: list[str], executors: int) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as directory:
        for name in names:
            typer.echo(f"measuring {name} …")
            began = CLOCK.monotonic()
            figures += await CASES[name](Path(directory), executors)
            typer.echo(f"  {CLOCK.monotonic() - began:.0f} s")
    return figures


if __name__ == "__main__":
    typer.run(main)
