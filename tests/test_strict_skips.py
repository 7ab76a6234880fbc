"""In continuous integration a skipped test is a failed one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_skipped():
    pytest.skip("no tool here")

@pytest.mark.skip(reason="marked")
def test_marked():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_failure():
    raise RuntimeError

def test_passed():
    pass
"""
MODULE = """
import pytest

pytest.skip("no module here", allow_module_level=True)
"""


def run_tests(directory: Path, content: str, **environment: str) -> str:
    """What pytest says about a file of that content."""
    (directory / "test_sample.py").write_text(content)
    root = Path(__file__).parent.parent
    variables = {
        name: value
        for name, value in os.environ.items()
        if name != "CI" and not name.startswith("PYTEST")
    }
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.strict_skips"),
            *("-p", "no:randomly", "-p", "no:cacheprovider", "-rA"),
            str(directory),
        ],
        cwd=directory,
        env=variables | {"PYTHONPATH": str(root)} | environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_skips_fail_in_continuous_integration(tmp_path: Path) -> None:
    """The reason is told; expected failures and passed tests are left alone."""
    said = run_tests(tmp_path, TESTS, CI="true")

    assert "1 failed, 1 passed, 1 xfailed, 1 error" in said
    assert "skipped, which CI=true forbids: Skipped: no tool here" in said


def test_a_skipped_module_fails_in_continuous_integration(tmp_path: Path) -> None:
    """A module that skips itself as a whole is not overlooked."""
    said = run_tests(tmp_path, MODULE, CI="true")

    assert "1 error" in said
    assert "no module here" in said


@pytest.mark.parametrize("environment", [{}, {"CI": "false"}], ids=str)
def test_skips_are_skips_elsewhere(tmp_path: Path, environment: dict[str, str]) -> None:
    """A developer without a tool sees what was not tested, and no failure."""
    said = run_tests(tmp_path, TESTS, **environment)

    assert "1 passed, 2 skipped, 1 xfailed" in said
