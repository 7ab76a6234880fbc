"""Figures are shown and kept as they were measured."""

import json
from pathlib import Path

import pytest

from bench.report import Figure, quantile, render_table, write_results


def make_figure(value: float, bound: float | None, *, is_least: bool = False) -> Figure:
    return Figure(name="n", value=value, unit="ms", bound=bound, is_least=is_least)


@pytest.mark.parametrize(
    ("figure", "is_kept"),
    [
        (make_figure(9, 10), True),
        (make_figure(10, 10), True),
        (make_figure(11, 10), False),
        (make_figure(9, 10, is_least=True), False),
        (make_figure(10, 10, is_least=True), True),
        (make_figure(9, None), None),
    ],
)
def test_a_bound_is_kept_up_to_the_bound_itself(
    figure: Figure, *, is_kept: bool | None
) -> None:
    """Both ways of being bounded include the bound; without one nothing is said."""
    assert figure.is_kept is is_kept


def test_a_missed_bound_stands_out() -> None:
    """Nobody has to compare two columns to see it."""
    table = render_table([make_figure(11, 10), make_figure(9, 10)])

    assert [line.count("**missed**") for line in table.splitlines()] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1, 100)]
)
def test_a_quantile_is_one_of_the_values(share: float, value: int) -> None:
    """The nearest rank, so that a single slow one of a hundred shows."""
    assert quantile(range(1, 101), share) == value


def test_a_run_is_kept_with_its_floor_and_its_verdict(tmp_path: Path) -> None:
    """What is in the table is in the file."""
    path = tmp_path / "results" / "run.json"
    figure = Figure(
        name="round trips", value=5, unit="/s", floor=9, floor_is="bare", bound=6
    )

    write_results(path, machine={"cores": 2}, parameters={}, figures=[figure])

    kept = json.loads(path.read_text())
    assert kept["machine"] == {"cores": 2}
    assert kept["figures"][0]["floor"] == 9
    assert kept["figures"][0]["is_kept"] is True
