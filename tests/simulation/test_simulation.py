"""
The laws hold, whatever happens.

`SIM_STEPS` sets how many steps are run in all, at 10,000 a seed and rounded up to whole
seeds; `SIM_SEED` sets which seed comes first. With `SIM_SEED` alone only that seed is
run, which repeats its story.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.conftest import Sightings
from tests.simulation.seen import EVERYTHING
from tests.simulation.simulation import Outcome, simulate

ROOT: Final = Path(__file__).parents[2]

STEPS: Final = 100_000
STEPS_OF_A_SEED: Final = 10_000


def _choose_seeds() -> list[int]:
    first = int(os.environ.get("SIM_SEED", "0"))
    default = STEPS_OF_A_SEED if "SIM_SEED" in os.environ else STEPS
    steps = int(os.environ.get("SIM_STEPS", default))
    return list(range(first, first + -(-steps // STEPS_OF_A_SEED)))


SEEDS: Final = _choose_seeds()

_REPLAY: Final = """
from tests.simulation.simulation import simulate
print(simulate(1, 2_000).digest, end="")
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_simulation_keeps_every_law(seed: int, sightings: Sightings) -> None:
    outcome = simulate(seed, STEPS_OF_A_SEED)

    assert outcome.broken is None, _tell(outcome)
    assert outcome.steps >= STEPS_OF_A_SEED
    sightings.add(outcome)
    if sightings.count_seeds() == len(SEEDS) >= STEPS // STEPS_OF_A_SEED:
        # Whichever ends last, on whichever worker, speaks for all.
        _check_that_it_meant_something(sightings)


def test_simulation_repeats_its_story_in_another_process() -> None:
    """The same events lead to the same state (law 6), and a seed can be replayed."""
    again = subprocess.run(
        [sys.executable, "-c", _REPLAY],
        cwd=ROOT,
        # Sets of strings are walked in another order there.
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert again.stdout == simulate(1, 2_000).digest


def test_simulation_tells_another_story_for_another_seed() -> None:
    assert simulate(1, 500).digest != simulate(2, 500).digest


def _check_that_it_meant_something(sightings: Sightings) -> None:
    steps, seen = sightings.total()
    print(f"{steps} steps: {dict(sorted(seen.items()))}")  # noqa: T201 - for `-rP`
    assert steps >= len(SEEDS) * STEPS_OF_A_SEED
    assert EVERYTHING - seen.keys() == set(), "nobody has ever seen these"


def _tell(outcome: Outcome) -> str:
    return (
        f"seed {outcome.seed}, step {outcome.steps}: {outcome.broken}\n\n"
        f"{outcome.story}\n\n"
        f"again: SIM_SEED={outcome.seed} make test TESTS=tests/simulation"
    )
