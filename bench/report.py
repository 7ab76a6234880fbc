"""Figures, their floors and bounds, as a table and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """
    One measured number.

    Attributes:
        floor: the same measured of the bare thing that `floor_is` names, in the same
            unit and run.
        bound: what Relay wants to keep to, for the number of executors that it was
            stated for; `None` where nothing is promised.
        is_least: whether the bound is the least that is wanted, not the most.
        note: what one has to know to read it.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_is: str | None = None
    bound: float | None = None
    is_least: bool = False
    note: str = ""

    @property
    def is_kept(self) -> bool | None:
        """Whether the bound is kept; `None` without one."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.is_least else self.value <= self.bound


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of `values` do not exceed (the nearest rank)."""
    in_order = sorted(values)
    return in_order[min(len(in_order) - 1, int(share * len(in_order)))]


def render_table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = [("Figure", "Measured", "Floor", "Wanted")]
    for figure in figures:
        floor = "" if figure.floor is None else f"{_show(figure.floor)} {figure.unit}"
        if figure.floor_is:
            floor += f" ({figure.floor_is})"
        wanted = ""
        if figure.bound is not None:
            relation = "≥" if figure.is_least else "≤"
            verdict = "" if figure.is_kept else " **missed**"
            wanted = f"{relation} {_show(figure.bound)} {figure.unit}{verdict}"
        measured = f"{_show(figure.value)} {figure.unit}"
        rows.append((figure.name, measured, floor, wanted))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def write_results(
    path: Path,
    *,
    machine: dict[str, object],
    parameters: dict[str, object],
    figures: Sequence[Figure],
) -> None:
    """Keep a run as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine,
        "parameters": parameters,
        "figures": [{**asdict(each), "is_kept": each.is_kept} for each in figures],
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _show(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
