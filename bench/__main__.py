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
from bench.cases.large import measure_large
from bench.cases.relayed import measure_relayed
from bench.cases.rest import measure_rest
from bench.cases.restart import measure_restart
from bench.cases.round_trips import measure_round_trips
from bench.cases.slow import measure_slow
from bench.children import CLOCK
from bench.floors.listening import raise_descriptor_limit
from bench.machine import describe_machine
from bench.report import Figure, render_table, write_results

RESULTS = Path(__file__).parent / "results"

Case = Callable[[Path, int], Awaitable[list[Figure]]]


def _of_any_size(measure: Callable[[Path], Awaitable[list[Figure]]]) -> Case:
    """A case that the number of executors in the large ones does not bear on."""

    async def case(directory: Path, count: int) -> list[Figure]:
        del count
        return await measure(directory)

    return case


CASES: Mapping[str, Case] = {
    "rest": _of_any_size(measure_rest),
    "relayed": _of_any_size(measure_relayed),
    "slow": _of_any_size(measure_slow),
    "large": _of_any_size(measure_large),
    "round-trips": _of_any_size(measure_round_trips),
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
    """Measure Relay beside its floors; a quarter of an hour for everything."""
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
