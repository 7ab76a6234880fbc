"""Whatever happens to Relay: who is back within its grace of working time lives."""

import asyncio
import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias, assert_never

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.db import Database
from relay.errors import StoreUnavailableError
from relay.liveness.states import ExecutorStatus
from relay.testing.clock import FakeClock
from tests.monitor.scene import FAULT_GRACE, GRACE, SECOND, Scene

EXECUTORS = ("e1", "e2", "e3")
NOTICED = SECOND
"""Stalls up to this are not made up for."""


@dataclass(frozen=True, slots=True)
class Work:
    """Relay runs for so many seconds."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Stall:
    """It stands still for so many seconds; its executors cannot reach it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Jump:
    """The database's clock is set, or the machine is suspended."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Outage:
    """The store is away while Relay runs for so many seconds."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Cut:
    """An executor is cut off, and redials after so many seconds of working time."""

    executor: str
    redials_after: int


Action: TypeAlias = Work | Stall | Jump | Outage | Cut

ACTIONS = st.one_of(
    st.builds(Work, st.integers(1, 15)),
    st.builds(Stall, st.sampled_from([0.5, 1.0, 1.5, 3.0, 4.9, 5.5, 40.0, 200.0])),
    # Not less: small differences are for the clocks' own drift.
    st.builds(Jump, st.sampled_from([10, 60, 3600, 86_400, -10, -60, -3600])),
    st.builds(Outage, st.integers(1, 12)),
    st.builds(
        Cut, st.sampled_from(EXECUTORS), st.integers(1, int(GRACE.total_seconds()))
    ),
)


class Survival:
    """Three executors of a Relay that has no luck."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.connections = 0
        self.online: dict[str, str] = {}
        self.redials_in: dict[str, float] = dict.fromkeys(EXECUTORS, 0)

    async def run(self, action: Action) -> None:
        match action:
            case Work():
                await self.work(action.seconds)
            case Stall():
                await self.scene.stall(action.seconds * SECOND)
                if action.seconds * SECOND <= NOTICED:
                    self.let_redial(action.seconds)
                await self.turn()
            case Jump():
                self.scene.clock.jump(action.seconds * SECOND)
            case Outage():
                self.scene.store.is_down = True
                await self.work(action.seconds)
                self.scene.store.is_down = False
            case Cut():
                if connection := self.online.pop(action.executor, None):
                    self.scene.lose(action.executor, connection)
                    self.redials_in[action.executor] = action.redials_after
            case _:
                assert_never(action)

    async def work(self, seconds: int) -> None:
        for _ in range(seconds):
            self.scene.let_loop_run()
            await self.scene.clock.advance(SECOND)
            self.let_redial(1)
            await self.turn()

    def let_redial(self, seconds: float) -> None:
        for executor in list(self.redials_in):
            self.redials_in[executor] -= seconds
            if self.redials_in[executor] <= 0:
                del self.redials_in[executor]
                self.connections += 1
                self.online[executor] = f"c{self.connections}"
                self.scene.connect(executor, self.online[executor])

    async def turn(self) -> None:
        try:
            while await self.scene.turn() == timedelta(0):
                pass
        except StoreUnavailableError:
            assert self.scene.store.is_down


async def live(database: Database, clock: FakeClock, actions: list[Action]) -> None:
    scene = Scene(database, clock)
    await scene.register()
    await scene.monitor.start()
    survival = Survival(scene)
    await survival.work(1)
    for action in actions:
        await survival.run(action)
    await survival.work(int(GRACE.total_seconds()) + 1)

    assert await scene.recoveries() == []
    for executor in EXECUTORS:
        assert await scene.status(executor) is ExecutorStatus.HEALTHY

    # And nobody lives for ever by it: who stays away is dead in time.
    scene.lose("e1", survival.online["e1"])
    await scene.pass_time(FAULT_GRACE)
    assert await scene.status("e1") is ExecutorStatus.DEAD


@given(actions=st.lists(ACTIONS, max_size=10))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_who_is_back_in_time_lives(
    actions: list[Action], migrated_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No stall, jump or outage, in any order, makes a recovery of its own."""

    async def run() -> None:
        clock = FakeClock()
        path = directory / "relay.db"
        database = Database.open(f"sqlite:///{path}", clock=clock)
        try:
            await live(database, clock, actions)
        finally:
            await database.close()

    directory = tmp_path_factory.mktemp("survival")
    shutil.copyfile(migrated_file, directory / "relay.db")
    asyncio.run(run())
    shutil.rmtree(directory)
