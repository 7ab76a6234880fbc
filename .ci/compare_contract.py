"""
Compare the contract with the reference it must agree with.

    compare_contract.py REFERENCE

Prose is ours and is passed over: titles, summaries, descriptions, tags. Everything else
must be equal, except where an entry of `x-relay-deviations` names the place. An entry
that names a place where nothing differs is an error too, so that the list stays true.

Exits with 1 when the documents disagree. Without a reference there is nothing to
compare: one line says so, and the exit code is 0.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).resolve().parent.parent / "openapi" / "conductor.json"
PROSE = {"title": str, "summary": str, "description": str, "tags": list}
DEVIATIONS = "x-relay-deviations"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: compare_contract.py REFERENCE\n")
        return 2
    reference = Path(arguments[0])
    if not reference.is_file():
        sys.stdout.write(f"contract not compared: there is no {reference}\n")
        return 0
    ours = json.loads(CONTRACT.read_text(encoding="utf-8"))
    deviations = ours.pop(DEVIATIONS)
    theirs = json.loads(reference.read_text(encoding="utf-8"))
    findings = list(compare(ours, theirs, deviations))
    for finding in findings:
        sys.stdout.write(finding + "\n")
    if not findings:
        names = ", ".join(entry["name"] for entry in deviations)
        sys.stdout.write(f"contract agrees with {reference}; deviations: {names}\n")
    return 1 if findings else 0


def compare(
    ours: dict[str, Any], theirs: dict[str, Any], deviations: list[dict[str, Any]]
) -> Iterator[str]:
    """One line for each difference nobody named, and each name without difference."""
    left, right = dict(flatten(ours)), dict(flatten(theirs))
    differing = [
        pointer
        for pointer in sorted(left.keys() | right.keys())
        if left.get(pointer) != right.get(pointer)
    ]
    claims = {place: entry["name"] for entry in deviations for place in entry["at"]}
    for pointer in differing:
        if not any(is_within(pointer, place) for place in claims):
            yield (
                f"{pointer}: ours {left.get(pointer, 'absent')},"
                f" reference {right.get(pointer, 'absent')}"
            )
    for place, name in claims.items():
        if not any(is_within(pointer, place) for pointer in differing):
            yield f"{place}: deviation {name} is named, but nothing differs"


def flatten(node: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """
    Every fact as (JSON pointer, JSON text).

    Parameters are found by name and sets are sorted: their order says nothing. A
    property that happens to be called `title` is an object, hence no prose.
    """
    if isinstance(node, list) and pointer.endswith("/parameters"):
        node = {entry["name"]: entry for entry in node}
    if isinstance(node, dict):
        facts = {
            key: value
            for key, value in node.items()
            if not isinstance(value, PROSE.get(key, ()))
        }
        for key, value in facts.items():
            step = key.replace("~", "~0").replace("/", "~1")
            yield from flatten(value, f"{pointer}/{step}")
        if not facts:
            yield pointer, "{}"
    elif isinstance(node, list):
        yield pointer, json.dumps(sorted(node, key=json.dumps))
    else:
        yield pointer, json.dumps(node)


def is_within(pointer: str, place: str) -> bool:
    """Whether a pointer is at a place or below it; `*` stands for any one step."""
    steps, wanted = pointer.split("/"), place.split("/")
    return len(steps) >= len(wanted) and all(
        want in ("*", step) for step, want in zip(steps, wanted, strict=False)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
