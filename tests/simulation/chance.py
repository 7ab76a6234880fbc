"""Where chance comes from: from seeds, and from nothing else."""

from random import Random


def chance(seed: float) -> Random:
    """Randomness that the same seed repeats."""
    return Random(seed)  # noqa: S311 - repeats itself on purpose, guards nothing
