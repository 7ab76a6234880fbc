"""The comparison with a reference finds what differs, and nothing else."""

import json
import runpy
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from relay_api.contract import load_contract

SCRIPT = Path(__file__).parents[3] / ".ci" / "compare_contract.py"
compare = runpy.run_path(str(SCRIPT))["compare"]

DOCUMENT: dict[str, Any] = {
    "info": {"title": "ours", "version": "1"},
    "paths": {
        "/a/{b}": {
            "get": {
                "operationId": "getA",
                "description": "Words.",
                "tags": ["A"],
                "parameters": [
                    {"name": "b", "in": "path", "schema": {"maxLength": 9}},
                    {"name": "c", "in": "query", "schema": {}},
                ],
            }
        }
    },
    "components": {
        "schemas": {
            "A": {
                "description": "Words.",
                "required": ["title", "x"],
                "properties": {"title": {"type": "string"}, "x": {}},
            }
        }
    },
}


def test_prose_and_order_do_not_count() -> None:
    """Other words, and the same facts in another order, are no difference."""
    reference = deepcopy(DOCUMENT)
    reference["info"]["title"] = "theirs"
    operation = reference["paths"]["/a/{b}"]["get"]
    del operation["description"], operation["tags"]
    operation["parameters"].reverse()
    schema = reference["components"]["schemas"]["A"]
    schema["required"].reverse()
    schema["properties"]["x"]["description"] = "Other words."

    assert list(compare(DOCUMENT, reference, [])) == []


def test_every_other_difference_is_told() -> None:
    """A changed, a missing and an additional fact are each named by their place."""
    reference = deepcopy(DOCUMENT)
    reference["info"]["version"] = "2"
    del reference["components"]["schemas"]["A"]["properties"]["title"]
    reference["paths"]["/a/{b}"]["get"]["deprecated"] = True

    findings = list(compare(DOCUMENT, reference, []))

    assert findings == [
        '/components/schemas/A/properties/title/type: ours "string", reference absent',
        '/info/version: ours "1", reference "2"',
        "/paths/~1a~1{b}/get/deprecated: ours absent, reference true",
    ]


@pytest.mark.parametrize(
    "place", ["/paths/*/*/parameters/b/schema/maxLength", "/paths/~1a~1{b}"]
)
def test_named_deviation_is_allowed(place: str) -> None:
    """A difference is allowed at the place that a deviation names, and below it."""
    reference = deepcopy(DOCUMENT)
    parameters = reference["paths"]["/a/{b}"]["get"]["parameters"]
    parameters[0]["schema"]["maxLength"] = 3
    deviation = {"name": "longer", "at": [place]}

    assert list(compare(DOCUMENT, reference, [deviation])) == []


def test_deviation_that_no_longer_deviates_is_told() -> None:
    """A deviation whose place is equal in both must be taken off the list."""
    deviation = {"name": "gone", "at": ["/info/version"]}

    findings = list(compare(DOCUMENT, DOCUMENT, [deviation]))

    assert findings == ["/info/version: deviation gone is named, but nothing differs"]


def test_script_fails_when_the_documents_disagree(tmp_path: Path) -> None:
    """The exit code tells a build, and the output tells a person where to look."""
    reference = load_contract()
    del reference["paths"]["/v2/users"]
    file = tmp_path / "reference.json"
    file.write_text(json.dumps(reference), encoding="utf-8")

    run = subprocess.run(
        [sys.executable, SCRIPT, file], capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert '/paths/~1v2~1users/post/operationId: ours "registerUser"' in run.stdout


def test_script_says_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    """Without a reference the script succeeds and says why."""
    run = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "none.json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0
    assert "not compared" in run.stdout
