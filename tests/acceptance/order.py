"""In which order acceptance tests are run: so that no long one is left for the end."""

import os
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")

_ABOUT = re.compile(r"About (\d+) s\b")
USUAL_SECONDS = 15
"""How long a test takes whose docstring does not say."""


def dealt(
    items: Sequence[ItemT], docstring_of: Callable[[ItemT], str | None]
) -> list[ItemT]:
    """
    The longest first, dealt out to the workers like cards.

    Each worker of pytest-xdist begins with one stretch of the tests and takes others
    from the end of somebody else's when it has none left.

    Args:
        docstring_of: finds the text of which one sentence is such as "About 90 s".
    """
    hands = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ordered = sorted(
        items, key=lambda item: seconds_told(docstring_of(item)), reverse=True
    )
    return [item for hand in range(hands) for item in ordered[hand::hands]]


def seconds_told(docstring: str | None) -> int:
    """How many seconds a test takes, as it says itself."""
    told = _ABOUT.search(docstring or "")
    return int(told[1]) if told else USUAL_SECONDS
