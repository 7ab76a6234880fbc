"""One life of the server process: how it starts, stands still, stops and is killed."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from relay.errors import StoreUnavailableError
from relay.hub.events import Arrival, Departure
from relay.server import Server, open_server_on

if TYPE_CHECKING:
    from relay.hub.events import ConnectionListener
    from tests.simulation.network import Cable
    from tests.simulation.world import World

START_AGAIN: Final = 2.0
"""Seconds after which a supervisor starts a server again that has failed to."""

_CURRENT: ContextVar["Run | None"] = ContextVar("run of Relay", default=None)


class _InOrder(dict[Any, None]):
    """A set that is walked in the order of its making, so that a seed repeats it."""

    def add(self, member: Any) -> None:
        self[member] = None

    def discard(self, member: Any) -> None:
        self.pop(member, None)


class _Tap:
    """Listens to what the hub tells the monitor, and remembers who has departed."""

    def __init__(self, monitor: "ConnectionListener", heard: list[Departure]) -> None:
        self._monitor = monitor
        self._heard = heard

    def connected(self, arrival: Arrival) -> None:
        self._monitor.connected(arrival)

    def lost(self, departure: Departure) -> None:
        self._heard.append(departure)
        self._monitor.lost(departure)


class Run:
    """
    A server as `relay serve` assembles it, on the simulated store, clock and sockets.

    Attributes:
        server: The server, once it is open.
        is_listening: Whether a dialling executor reaches it.
        is_gone: Whether the process has ended.
        is_unreachable: Whether nothing at its address answers, not even with a reset.
        is_stalled: Whether its process stands still, until `stalled_until`.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.server: Server | None = None
        self.database = world.store.open()
        self.config: Any = SimpleNamespace()
        self.state: Any = SimpleNamespace(connections=_InOrder())
        self.app_state: dict[str, Any] = {}
        self.cables: list[Cable] = []
        self.departures: list[Departure] = []
        self.is_listening = False
        self.is_gone = False
        self.is_unreachable = False
        self.is_stalled = False
        self.stalled_until = 0.0
        self._backlog: deque[Callable[[], None]] = deque()
        self._tasks = _InOrder()
        self._stopping = asyncio.Event()
        self.spawn(self._live())

    def stall(self, seconds: float) -> None:
        """Its process stands still: stopped, swapped out, or its loop blocked."""
        self.is_stalled = True
        self.stalled_until = self.world.clock.elapsed + seconds

    def end_stall(self, *, timers_first: bool) -> None:
        """Everything is due at once: the timers and what has arrived meanwhile."""
        self.is_stalled = False
        clock = self.world.clock
        backlog, self._backlog = self._backlog, deque()
        if timers_first:
            clock.ring_all()
        for happen in backlog:
            self._within(happen)
        clock.ring_all()

    def do(self, happen: Callable[[], None]) -> None:
        """Let something arrive at the process; it waits while the process stands."""
        if self.is_gone:
            happen()
        elif self.is_stalled:
            self._backlog.append(happen)
        else:
            self._within(happen)

    def stop(self) -> None:
        """The process is told to end, and takes the time it needs."""
        self._stopping.set()

    async def kill(self, *, says_so: bool) -> None:
        """
        The process ends at once.

        Args:
            says_so: whether its kernel lives on and resets its connections.
        """
        self.is_gone = True
        self.is_listening = False
        self.is_unreachable = not says_so
        self.database.is_cut = True
        for cable in self.cables:
            cable.relay_end.die(says_so=says_so)
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            await self.world.clock.settle()
        self.world.clock.forget_sleepers()
        self.is_stalled = False
        while self._backlog:
            self._backlog.popleft()()

    async def _live(self) -> None:
        world = self.world
        try:
            async with open_server_on(
                self.database,
                world.settings,
                clock=world.clock,
                replaced=asyncio.Event(),
            ) as server:
                self.server = server
                self.app_state["hub"] = server.hub
                server.hub.attach(
                    server.registry, _Tap(server.monitor, self.departures)
                )
                self.is_listening = True
                world.note("Relay", "listens", counts_as="Relay started")
                await self._stopping.wait()
                world.note("Relay", "was told to stop", counts_as="Relay stopped")
                self.is_listening = False
                # What uvicorn does before it ends the application's life.
                for protocol in list(self.state.connections):
                    protocol.shutdown()
        except StoreUnavailableError:
            world.note("Relay", "has no database to start on", counts_as="start failed")
            world.agenda.after(START_AGAIN, world.start_relay_if_gone)
        world.note("Relay", "has ended")
        self.is_gone = True
        self.is_listening = False
        self.database.is_cut = True
        for cable in self.cables:
            cable.relay_end.die(says_so=True)
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start something within the process."""
        before = _CURRENT.set(self)
        try:
            asyncio.get_running_loop().create_task(work, name="Relay")
        finally:
            _CURRENT.reset(before)

    def _within(self, happen: Callable[[], None]) -> None:
        """Whatever it starts belongs to this process."""
        before = _CURRENT.set(self)
        try:
            happen()
        finally:
            _CURRENT.reset(before)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task of this process has begun."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def keep_tasks_apart(loop: asyncio.AbstractEventLoop) -> None:
    """Have every task belong to the run that began it, so that it ends with it."""

    def make(
        loop: asyncio.AbstractEventLoop, work: Any, **options: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        if run := _CURRENT.get():
            run.adopt(task)
        return task

    loop.set_task_factory(make)
