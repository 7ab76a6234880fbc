"""Executors that are replaced when they die, as a supervisor does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from relay.tasks import TaskSet
from tests.acceptance.environments import Sdk
from tests.acceptance.processes import CLOCK, POLL, ExecutorProcess, RelayProcess
from tests.acceptance.stage import Stage


class Crew:
    """
    `size` executors of one application; each one that ends is replaced by a new one.

    Replacements have new ids, as with every start of an SDK. Use `open_crew`.
    """

    def __init__(self, stage: Stage, relay: RelayProcess, sdk: Sdk, size: int) -> None:
        self.hired: list[ExecutorProcess] = []
        """All there ever were, the latest last."""
        self._stage = stage
        self._relay = relay
        self._sdk = sdk
        self._size = size
        self._numbers = count(1)

    @property
    def living(self) -> list[ExecutorProcess]:
        """Those that run now."""
        return [executor for executor in self.hired if executor.is_running]

    async def is_complete(self) -> bool:
        """Whether as many run as should, and Relay sees them all as HEALTHY."""
        living = self.living
        shown = await self._relay.executors("loop")
        return len(living) == self._size and all(
            shown.get(executor.executor_id) == "HEALTHY" for executor in living
        )

    async def fill(self) -> None:
        """Start executors until there are enough."""
        while len(self.living) < self._size:
            self.hired.append(
                await self._stage.executor(
                    self._sdk, f"hand-{next(self._numbers)}", relay=self._relay
                )
            )

    async def supervise(self) -> None:
        """Replace whoever dies, until cancelled."""
        while True:
            await self.fill()
            await CLOCK.sleep(POLL)


@asynccontextmanager
async def open_crew(
    stage: Stage, relay: RelayProcess, sdk: Sdk, *, size: int
) -> AsyncIterator[Crew]:
    """A crew that is complete, and kept so until the block ends."""
    crew = Crew(stage, relay, sdk, size)
    await crew.fill()
    async with TaskSet("crew") as tasks:
        tasks.spawn(crew.supervise(), name="supervise")
        yield crew
