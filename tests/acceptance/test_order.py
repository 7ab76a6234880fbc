"""Long tests are begun first, by as many workers as there are."""

import pytest

from tests.acceptance.order import dealt, seconds_told

TESTS = {"a": "About 20 s.", "b": "Hm. About 90 s: it waits.", "c": None, "d": "Short."}


@pytest.mark.parametrize(
    ("workers", "order"), [("1", "bacd"), ("2", "bcad"), ("4", "bacd")]
)
def test_the_longest_come_first_in_each_hand(
    monkeypatch: pytest.MonkeyPatch, workers: str, order: str
) -> None:
    """Whatever does not say how long it takes keeps its place among its like."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", workers)

    assert "".join(dealt("abcd", TESTS.get)) == order


def test_only_seconds_are_seconds() -> None:
    """Other numbers are not mistaken for them."""
    assert seconds_told("About 30 steps. About 7 s.") == 7
