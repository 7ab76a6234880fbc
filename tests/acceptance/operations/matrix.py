"""The table of operations and SDKs: made by a run, kept in `docs/compatibility.md`."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.acceptance.environments import ROOT, Sdk
from tests.acceptance.operations.api import Api, Unsupported
from tests.acceptance.operations.repertoire import CHECKS

TABLE = ROOT / "docs" / "compatibility.md"
WORKS, UNSUPPORTED, BROKEN = "works", "not supported by the SDK", "BROKEN"

HEAD = """\
# Which operations work with which SDK

Written by `make compatibility`, which has real executors of each SDK answer every
operation. A test run fails when a cell gets worse.

"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one check said of one SDK."""

    verdict: str
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.remark}" if self.remark else self.verdict


async def judge(api: Api) -> Mapping[str, Cell]:
    """Run every check; a broken one does not keep the others from running."""
    return {name: await _judge(check, api) for name, check in CHECKS.items()}


def compare(sdk: Sdk, cells: Mapping[str, Cell]) -> None:
    """
    Demand that no cell differs from the table, or write them into it.

    Raises:
        AssertionError: a cell is not as it stands there.
    """
    if os.environ.get("WRITE_COMPATIBILITY"):
        broken = {name: str(c) for name, c in cells.items() if c.verdict == BROKEN}
        _write(sdk, cells)
        assert not broken, broken
        return
    known = _read().get(str(sdk), {})
    found = {name: str(cell) for name, cell in cells.items()}
    assert found == known, "not as in docs/compatibility.md; see `make compatibility`"


async def _judge(check: Any, api: Api) -> Cell:
    try:
        remark = await check(api)
    except Unsupported:
        return Cell(UNSUPPORTED)
    except Exception as error:
        return Cell(BROKEN, " ".join(f"{type(error).__name__} {error}".split())[:300])
    return Cell(WORKS, remark or "")


def _read() -> dict[str, dict[str, str]]:
    """SDK to operation to cell."""
    if not TABLE.exists():
        return {}
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in TABLE.read_text().splitlines()
        if line.startswith("|") and not re.fullmatch(r"[|\s-]+", line)
    ]
    [head, *body] = rows
    return {
        sdk: {row[0]: row[place] for row in body}
        for place, sdk in enumerate(head)
        if place
    }


def _write(sdk: Sdk, cells: Mapping[str, Cell]) -> None:
    table = _read() | {str(sdk): {name: str(cell) for name, cell in cells.items()}}
    sdks = sorted(table)
    rows = [["operation", *sdks]] + [
        [name, *(table[each].get(name, "") for each in sdks)] for name in CHECKS
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    lines = [
        "| "
        + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        + " |"
        for row in rows
    ]
    TABLE.write_text(HEAD + "\n".join(lines) + "\n")
