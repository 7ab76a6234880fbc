"""How many inputs are tried, and which."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

TestT = TypeVar("TestT", bound=Callable[..., Any])

WANTED = os.environ.get("FUZZ_EXAMPLES")

unhurried = pytest.mark.timeout(0 if WANTED else 300)
"""Marks a test that runs for as long as it takes when `FUZZ_EXAMPLES` is given."""


def tries(examples: int) -> Callable[[TestT], TestT]:
    """Try that many inputs, or others: see `effort`."""

    def limit(test: TestT) -> TestT:
        limited: TestT = unhurried(effort(examples)(test))
        return limited

    return limit


def effort(examples: int, **others: Any) -> settings:
    """
    Settings that try `examples` inputs, the same in every run.

    `FUZZ_EXAMPLES` overrides the number, and makes the inputs random. No time limit
    holds for an example: what may not take long is measured where it happens, in
    processor time.

    Args:
        others: further settings of Hypothesis.
    """
    return settings(
        max_examples=int(WANTED) if WANTED else examples,
        derandomize=WANTED is None,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        **others,
    )
