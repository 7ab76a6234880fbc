"""The page about metrics lists every metric, and nothing else."""

import re
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from relay.telemetry import Metrics

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*) \| (.*) \|$", re.MULTILINE)


def describe(metric: MetricWrapperBase) -> tuple[str, str, str, str]:
    """A row of the table: name, kind, labels and meaning."""
    (family,) = metric.collect()
    suffix = "_total" if family.type == "counter" else ""
    labels = ", ".join(f"`{name}`" for name in metric._labelnames)
    return (family.name + suffix, family.type, labels or "—", family.documentation)


def test_the_table_is_the_metrics() -> None:
    """Name, kind, labels and meaning, in the order of the code."""
    metrics = [m for m in vars(Metrics()).values() if isinstance(m, MetricWrapperBase)]

    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))

    assert rows == [describe(metric) for metric in metrics]
    assert len(rows) > 10
