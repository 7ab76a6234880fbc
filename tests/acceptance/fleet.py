"""Many fake executors over real sockets, which come back like real ones."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta

from websockets.exceptions import InvalidHandshake

from relay.tasks import TaskSet
from relay.testing.executor import FakeExecutor
from relay.testing.work import FakeWork
from tests.acceptance.processes import CLOCK, RelayProcess, until


class Fleet:
    """
    `size` executors that redial a random moment after each loss.

    `work` is what they all see in their system database. Use `open_fleet`.

    Args:
        redial: the shortest and the longest pause before an executor dials again, in
            seconds; the pauses are drawn with `seed`.
        names: how their ids begin.
    """

    def __init__(
        self,
        url: str,
        size: int,
        *,
        application: str,
        key: str,
        redial: tuple[float, float],
        seed: int,
        names: str,
    ) -> None:
        self.work = FakeWork()
        self.dialled: Counter[str] = Counter()
        """How many sockets each executor has had, by its id."""
        self.live: dict[str, FakeExecutor] = {}
        """Those whose socket is open now."""
        self._url = url
        self._application = application
        self._key = key
        self._redial = redial
        self._random = random.Random(seed)  # noqa: S311 - spreads load, hides nothing
        self.ids = [f"{names}-{number:03}" for number in range(size)]

    def hang_up(self, executor_ids: Collection[str]) -> None:
        """Reset the sockets of some, who dial again after the usual pause."""
        for executor_id in executor_ids:
            self.live[executor_id].abort()

    async def is_missed(
        self, relay: RelayProcess, executor_ids: Collection[str], *, within: float
    ) -> None:
        """Wait until Relay sees all of these as DISCONNECTED at once."""

        async def look() -> bool:
            shown = await relay.executors(self._application)
            return all(shown[one] == "DISCONNECTED" for one in executor_ids)

        await until("those who hung up are DISCONNECTED", look, within=within)

    async def is_healthy(self, relay: RelayProcess, *, within: float) -> None:
        """Wait until Relay sees every one of them as HEALTHY."""

        async def look() -> bool:
            shown = await relay.executors(self._application)
            return all(shown.get(one) == "HEALTHY" for one in self.ids)

        await until("the fleet is HEALTHY", look, within=within)

    async def is_dialled(self, *, within: float) -> None:
        """Wait until each has an open socket."""

        async def look() -> bool:
            return len(self.live) == len(self.ids)

        await until("the whole fleet is connected", look, within=within)

    async def is_back(
        self, relay: RelayProcess, *, dialled: int, within: float
    ) -> None:
        """Wait until each has had that many sockets, and all are HEALTHY."""

        async def look() -> bool:
            return all(self.dialled[one] >= dialled for one in self.ids)

        await until(f"each has dialled {dialled} times", look, within=within)
        await self.is_healthy(relay, within=within)

    async def run(self, executor_id: str) -> None:
        """Keep one executor on line."""
        while True:
            try:
                executor = await FakeExecutor.connect(
                    self._url,
                    self._application,
                    self._key,
                    executor_id=executor_id,
                    work=self.work,
                )
            except (OSError, InvalidHandshake, TimeoutError, EOFError):
                pass
            else:
                self.dialled[executor_id] += 1
                self.live[executor_id] = executor
                try:
                    async with executor:
                        await executor.closed.wait()
                finally:
                    del self.live[executor_id]
            await CLOCK.sleep(timedelta(seconds=self._random.uniform(*self._redial)))


@asynccontextmanager
async def open_fleet(
    url: str,
    size: int,
    *,
    application: str = "fleet",
    key: str = "fleet-key",
    redial: tuple[float, float] = (1.0, 1.1),
    seed: int = 1,
    names: str = "fake",
) -> AsyncIterator[Fleet]:
    """A fleet that dials, and is gone when the block ends."""
    fleet = Fleet(
        url,
        size,
        application=application,
        key=key,
        redial=redial,
        seed=seed,
        names=names,
    )
    async with TaskSet("fleet") as tasks:
        for executor_id in fleet.ids:
            tasks.spawn(fleet.run(executor_id), name=executor_id)
        yield fleet
