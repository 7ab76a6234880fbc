"""
Turns skipped tests into failed ones where `CI` is set to `true`.

On a developer's machine a test may be skipped for want of a tool. In continuous
integration the same silence would hide that nothing was tested.
"""

import os
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    report = yield
    # An expected failure is reported as a skip as well, but it did run.
    if report.skipped and not hasattr(report, "wasxfail") and _is_strict():
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[
    None, pytest.CollectReport, pytest.CollectReport
]:
    report = yield
    if report.skipped and _is_strict():
        _fail(report)
    return report


def _is_strict() -> bool:
    return os.environ.get("CI", "").lower() == "true"


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    # A skip is told as (file, line, reason).
    reason = (
        report.longrepr[2]
        if isinstance(report.longrepr, tuple)
        else str(report.longrepr)
    )
    report.outcome = "failed"
    report.longrepr = f"skipped, which CI=true forbids: {reason}"
