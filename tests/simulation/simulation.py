"""One simulation from beginning to end, by its seed."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.simulation.adversary import Adversary
from tests.simulation.chance import chance
from tests.simulation.kinds import GO, JAVA, OLD_PYTHON, PYTHON, TYPESCRIPT, Kind
from tests.simulation.script import Broken
from tests.simulation.world import World, open_world

EPISODE: Final = 5_000
"""Steps after which the adversary lets go, and everything has to come right."""

COMES_RIGHT_WITHIN: Final = 1200.0
"""
Seconds from then on.

The longest chain: a grace of 60 s for whoever dies last, an order of 60 s to somebody
who does not answer, a backoff of a minute, five minutes of spacing by the brake or
until the census looks.
"""

APPS: Final[dict[str, tuple[Kind, ...]]] = {
    "python": (PYTHON,),
    "typescript": (TYPESCRIPT,),
    "golang": (GO,),
    "java": (JAVA,),
    "old-python": (OLD_PYTHON,),
    "mixed": (PYTHON, OLD_PYTHON),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    How a simulation ended.

    `seen` counts what happened in it, `digest` stands for its whole story, of which
    `story` has the end.
    """

    seed: int
    steps: int
    broken: Broken | None
    digest: str
    seen: Counter[str]
    story: str


def simulate(seed: int, steps: int, *, told_lines: int = 150) -> Outcome:
    """Run so many steps of the simulation that a seed stands for; fewer if it fails."""
    return asyncio.run(_simulate(seed, steps, told_lines))


async def _simulate(seed: int, steps: int, told_lines: int) -> Outcome:
    names = chance(seed).sample(list(APPS), 3)
    broken = None
    with open_world(seed, {name: APPS[name] for name in names}) as world:
        adversary = Adversary(world)
        world.start_relay()
        try:
            await world.settle()
            while world.steps < steps:
                end = min(steps, world.steps + EPISODE)
                while world.steps < end:
                    await adversary.act()
                await _come_right(world, adversary)
        except Broken as error:
            broken = error
        if world.run is not None:
            await world.run.kill(says_so=True)
        return Outcome(
            seed,
            world.steps,
            broken,
            world.script.digest,
            world.script.seen,
            world.script.tell(told_lines),
        )


async def _come_right(world: World, adversary: Adversary) -> None:
    """
    With the faults over and executors there, all work is recovered (law 3).

    Raises:
        Broken: it is not, or another law does not hold meanwhile.
    """
    await adversary.let_go()
    latest = world.clock.elapsed + COMES_RIGHT_WITHIN
    while missing := world.laws.find_unfinished():
        if world.clock.elapsed > latest:
            raise Broken("3", "; ".join(missing))
        await world.pass_time(1.0)
    world.note("world", "is as it should be")
