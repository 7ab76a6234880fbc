"""
The world around Relay, and its time.

Two kinds of things happen: those of Relay's process, which wake from the clock, and
those outside it, which stand on the agenda. `pass_time` lets them happen one after
another in the order of their moments, each until nothing is left to do, and looks after
each whether a law is broken.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from relay.settings import RelaySettings
from tests.simulation.chance import chance
from tests.simulation.clock import Agenda, SimClock
from tests.simulation.evidence import Name
from tests.simulation.executors import Identity, Process
from tests.simulation.kinds import Kind
from tests.simulation.laws import Laws
from tests.simulation.listening import (
    deterministic_ids,
    no_traceback,
    simulated_sockets,
)
from tests.simulation.rows import Rows
from tests.simulation.run import Run, keep_tasks_apart
from tests.simulation.script import Script
from tests.simulation.store import SimStore
from tests.simulation.work import Status, SystemDatabase, Workflow

ORDER_TIMEOUT_SECS: Final = 60.0


class World:
    """
    Applications with their executors, one server, its database, and the witness.

    Attributes:
        random: The only source of chance.
        databases: The system database of each application, by its name.
        processes: The living ones, oldest first.
        run: The life of the server that is under way; `None` before the first.
        steps: How many events have been delivered: acts of the adversary, arrivals on
            the network, and timers of living executors. What Relay's own timers do is
            not counted.
    """

    def __init__(self, seed: int, apps: dict[str, tuple[Kind, ...]]) -> None:
        self.random = chance(seed)
        self.clock = SimClock()
        self.agenda = Agenda(self.clock)
        self.script = Script()
        self.settings = RelaySettings(order_timeout_secs=ORDER_TIMEOUT_SECS)
        self.store = SimStore(self.clock, chance(self.random.random()))
        self.laws = Laws(self, Rows(self.store.rows))
        self.store.committed = self.laws.committed
        self.store.befell = lambda fault: self.note(
            "database", f"fails once: {fault.name}", counts_as=f"trouble: {fault.name}"
        )
        self.apps = apps
        self.databases = {app: SystemDatabase() for app in apps}
        self.versions = dict.fromkeys(apps, 1)
        self.processes: list[Process] = []
        self.run: Run | None = None
        self.steps = 0
        self.on_loss: Callable[[str, str, float], None] = lambda app, name, left: None
        self.on_death: Callable[[str, str], None] = lambda app, name: None
        self.on_deletion: Callable[[str, str], None] = lambda app, name: None
        self.on_order: Callable[[Process, list[Name]], None] = lambda to, names: None
        self._launched = 0

    def note(self, actor: str, text: str, *, counts_as: str | None = None) -> None:
        """Add a line to the script, and to what has been seen."""
        self.script.add(self.clock.elapsed, actor, text)
        if counts_as is not None:
            self.script.seen[counts_as] += 1

    # --- executors -------------------------------------------------------------------

    def launch(
        self, app: str, *, version: str | None = None, like: Process | None = None
    ) -> Process:
        """
        Start a process of an application.

        Args:
            version: of the application; default: the current one.
            like: whose identity it has.
        """
        if like is None:
            self._launched += 1
            kind = self.random.choice(self.apps[app])
            name = f"{app[:2]}{self._launched}"
            identity = Identity(app, name, version or f"v{self.versions[app]}")
        else:
            kind, identity = like.kind, like.identity
        process = Process(self, identity, kind, self.databases[app], self._launched)
        self.processes.append(process)
        self.note(process.name, f"starts: {kind}, {identity.version}")
        if like is not None:
            process.restart_own_work()
        for workflow in process.database.list_enqueued(identity.version):
            self.offer(workflow, process.database)
        return process

    def list_alive(self, app: str, executor_id: str | None = None) -> list[Process]:
        """The living processes of an application, or those with one id."""
        return [
            process
            for process in self.processes
            if process.identity.app == app
            and executor_id in {None, process.identity.executor_id}
        ]

    def offer(self, workflow: Workflow, database: SystemDatabase) -> None:
        """Some executor of its version will find the workflow on the queue soon."""

        def take() -> None:
            if workflow.status is not Status.ENQUEUED:
                return
            takers = [
                process
                for process in self.processes
                if process.database is database
                and process.identity.version == workflow.version
                and not process.is_frozen
            ]
            if takers:
                self.random.choice(takers).take_from_queue(workflow)

        self.agenda.after(self.random.uniform(0.2, 2.0), take)

    # --- the server ------------------------------------------------------------------

    def start_relay(self) -> None:
        """Start a server where none runs."""
        assert self.run is None or self.run.is_gone
        self.note("Relay", "starts")
        self.run = Run(self)

    def start_relay_if_gone(self) -> None:
        """Start a server unless there is one."""
        if self.run is None or self.run.is_gone:
            self.start_relay()

    @property
    def is_relay_up(self) -> bool:
        """Whether a server runs and has not been told to stop."""
        return self.run is not None and self.run.is_listening

    def draw_latency(self, process: Process) -> float:
        """How long something takes between a process and Relay, in seconds."""
        return process.random.uniform(0.0005, 0.01) + process.random.random() * (
            process.lag
        )

    # --- time ------------------------------------------------------------------------

    async def pass_time(self, seconds: float) -> None:
        """
        Let everything happen that happens in this time.

        Raises:
            Broken: a law did not hold.
        """
        end = self.clock.elapsed + seconds
        while (moment := min(self.agenda.next_at, self._relay_at())) <= end:
            self.clock.move_to(moment)
            run = self.run
            if run is not None and run.is_stalled and moment >= run.stalled_until:
                run.end_stall(timers_first=self.random.random() < 0.5)
            elif self.agenda.next_at <= moment:
                self.agenda.happen()
            else:
                self.clock.ring()
            await self.settle()
        self.clock.move_to(end)

    async def settle(self) -> None:
        """Let Relay do what it can do now; raise if that breaks a law."""
        if not await self.clock.settle():
            self.laws.breach("rest", "Relay works on and on, and no time passes")
        if self.laws.broken is not None:
            raise self.laws.broken

    def _relay_at(self) -> float:
        """When Relay's process goes on by itself."""
        run = self.run
        if run is None or run.is_gone:
            return float("inf")
        return run.stalled_until if run.is_stalled else self.clock.next_at


@contextmanager
def open_world(seed: int, apps: dict[str, tuple[Kind, ...]]) -> Iterator[World]:
    """A world in which the same seed brings the same story."""
    loop = asyncio.get_running_loop()
    world = World(seed, apps)
    state = random.getstate()
    # The recovery engine takes its jitter from here.
    random.seed(seed)
    keep_tasks_apart(loop)
    try:
        with deterministic_ids(seed), simulated_sockets(), no_traceback(world.laws):
            yield world
    finally:
        loop.set_task_factory(None)
        random.setstate(state)
        world.store.close()
