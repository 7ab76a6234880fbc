"""What all simulations of one session have seen, wherever they run."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.simulation import Outcome


class Sightings:
    """
    Counts what has happened in the simulations, across the workers of pytest-xdist.

    Each outcome is a file: workers share nothing else.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, outcome: Outcome) -> None:
        """Note how one simulation went."""
        path = self._directory / f"{outcome.seed}.json"
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(
            json.dumps({"steps": outcome.steps, "seen": dict(outcome.seen)})
        )
        unfinished.rename(path)

    def count_seeds(self) -> int:
        """How many simulations have been noted."""
        return len(list(self._directory.glob("*.json")))

    def total(self) -> tuple[int, Counter[str]]:
        """The steps of all, and what was seen in them."""
        steps, seen = 0, Counter[str]()
        for path in self._directory.glob("*.json"):
            outcome = json.loads(path.read_text())
            steps += outcome["steps"]
            seen.update(outcome["seen"])
        return steps, seen


@pytest.fixture(scope="session")
def sightings(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Sightings:
    """The same for the whole session."""
    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "sightings"
    directory.mkdir(exist_ok=True)
    return Sightings(directory)
