"""
Executors as processes: they run workflows, dial Relay and do what it asks, or do not.

They live outside Relay and know nothing of it but what comes through their cable.
"""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from websockets.frames import Opcode

from tests.simulation.answers import Desk, Mood
from tests.simulation.chance import chance
from tests.simulation.kinds import Kind
from tests.simulation.network import Cable, Way
from tests.simulation.wire import Answer, End, Frame, Item, pack, upgrade_request
from tests.simulation.work import Status, SystemDatabase, Workflow

if TYPE_CHECKING:
    from tests.simulation.world import World

PING_INTERVAL: Final = 20.0
DIAL_PATIENCE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Which application a process belongs to, and who it is there."""

    app: str
    executor_id: str
    version: str


class Process:
    """
    One executor process.

    Attributes:
        running: What it runs in truth, whatever the rows say.
        blocked: Directions in which nothing gets through to or from it.
        is_frozen: It was stopped by a signal and takes no part in anything; the last
            time at `frozen_at`.
        is_alive: It has not ended yet.
        is_powered: Its machine answers for it when it has ended.
        impaired_at: The last moment at which it was itself to blame for not being on
            line, as far as that is over.
    """

    def __init__(
        self,
        world: "World",
        identity: Identity,
        kind: Kind,
        database: SystemDatabase,
        number: int,
    ) -> None:
        self.world = world
        self.identity = identity
        self.kind = kind
        self.database = database
        self.random = chance(world.random.random())
        self.address = f"10.0.{number // 250}.{number % 250 + 1}"
        self.name = f"{identity.executor_id}"
        self.running: dict[str, Workflow] = {}
        self.blocked: frozenset[Way] = frozenset()
        self.lag = 0.0
        self.desk = Desk(self)
        self.is_frozen = False
        self.frozen_at = float("-inf")
        self.is_alive = True
        self.is_powered = True
        self.impaired_at = world.clock.elapsed
        self.cable: Cable | None = None
        self._cables: list[Cable] = []
        self._is_upgraded = False
        self._dials_when_free = False
        self._failures = 0
        self._ponged_at = 0.0
        self._postponed: deque[Callable[[], None]] = deque()
        self.later(self.random.uniform(0.0, 0.5), self._dial)

    @property
    def is_cut_off(self) -> bool:
        """Whether it is its own trouble that Relay does not hear of it."""
        return bool(self.blocked) or self.is_frozen or not self.is_alive

    @property
    def is_impaired(self) -> bool:
        """Whether it may be off line for a reason of its own."""
        cable = self.cable
        is_behind = cable is not None and not cable.is_open_here and cable.was_cut_off
        return self.is_cut_off or is_behind or self._dials_when_free

    # --- what happens to it ----------------------------------------------------------

    def die(self, *, says_so: bool) -> None:
        """End without a word; its kernel, if still there, closes its connection."""
        self.is_alive = False
        self.world.processes.remove(self)
        self.is_powered = says_so
        self.running.clear()
        self._postponed.clear()
        if self.cable is not None:
            cable = self._leave()
            if says_so and cable is not None:
                cable.carry(Way.IN, self.random.choice(list(End)))

    def leave(self) -> None:
        """End in an orderly way, its pending work left as it is."""
        self._say_goodbye()
        self.die(says_so=True)

    def hang_up(self) -> None:
        """Close its connection as if it were to end, and dial again."""
        if self.cable is not None:
            self._say_goodbye()
            self._lost("hung up")

    def change_sockets(self, ends_after: float) -> None:
        """Dial again at once; what lies between holds the end of the old one back."""
        cable = self._leave()
        if cable is not None:
            end = self.random.choice(list(End))
            self.world.agenda.after(ends_after, lambda: cable.carry(Way.IN, end))
            self._dial_again()

    def freeze(self) -> None:
        """Stop taking part."""
        self.is_frozen = True
        self.frozen_at = self.world.clock.elapsed

    def thaw(self) -> None:
        """Go on where it was."""
        self.is_frozen = False
        self.impaired_at = self.world.clock.elapsed
        while self._postponed and self.is_alive and not self.is_frozen:
            self._postponed.popleft()()

    def cut_off(self, *ways: Way) -> None:
        """Nothing gets through any more, in these directions."""
        self.blocked = frozenset(ways)

    def reconnect(self) -> None:
        """The network is back."""
        self.blocked = frozenset()
        self.impaired_at = self.world.clock.elapsed
        for cable in self._cables:
            cable.release()

    def calm_down(self) -> None:
        """Nothing is wrong with it any more."""
        self.desk.mood = Mood.WILLING
        self.lag = 0.0
        if self.blocked:
            self.reconnect()
        if self.is_frozen:
            self.thaw()

    # --- its work --------------------------------------------------------------------

    def start_work(self, *, is_poison: bool = False) -> Workflow:
        """Begin a workflow of its own."""
        identity = self.identity
        workflow = self.database.add(
            identity.executor_id,
            identity.version,
            self.world.clock.elapsed,
            is_poison=is_poison,
        )
        self.run(workflow)
        return workflow

    def restart_own_work(self) -> None:
        """What a process does first that has the id of its predecessor."""
        identity = self.identity
        for workflow in self.database.list_pending(
            [identity.executor_id], [identity.version]
        ):
            self.database.claim(
                workflow, identity.executor_id, self.world.clock.elapsed
            )
            self.run(workflow)

    def finish_work(self, workflow: Workflow) -> None:
        """End a workflow, unless it is another's by now."""
        del self.running[workflow.id]
        if (
            workflow.status is Status.PENDING
            and workflow.owner == self.identity.executor_id
        ):
            self.database.finish(workflow)

    def take_from_queue(self, workflow: Workflow) -> None:
        """Claim a workflow that waits for its version."""
        self.database.claim(
            workflow, self.identity.executor_id, self.world.clock.elapsed
        )
        self.run(workflow)

    def run(self, workflow: Workflow) -> None:
        self.running[workflow.id] = workflow
        if workflow.is_poison:
            self.later(self.random.uniform(0.5, 5.0), lambda: self._suffer(workflow))

    def _suffer(self, workflow: Workflow) -> None:
        if workflow.is_poison and workflow.id in self.running:
            self.world.note(
                self.name,
                f"is killed by its workflow {workflow.id}",
                counts_as="poisoned",
            )
            self.die(says_so=True)

    # --- its connection --------------------------------------------------------------

    def kernel_receives(self, cable: Cable, item: Item) -> None:
        """Something has arrived at its machine."""
        if not cable.is_open_there:
            if self.is_powered and item is not End.RST:
                cable.carry(Way.IN, End.RST)
        elif self.is_frozen:
            self._postponed.append(lambda: self._receive(cable, item))
        else:
            self._receive(cable, item)

    def _dial(self) -> None:
        if self.cable is not None:
            return
        run = self.world.run
        if self.blocked or run is None or run.is_unreachable:
            self.later(DIAL_PATIENCE, self._failed)
        elif not run.is_listening:
            self._failed()
        else:
            cable = self.cable = Cable(self.world, self, run)
            run.cables.append(cable)
            self._cables = [each for each in self._cables if each.is_open_here]
            self._cables.append(cable)
            self._is_upgraded = False
            cable.carry(Way.IN, upgrade_request(self.identity.app))
            self.later(DIAL_PATIENCE, lambda: self._give_up(cable))

    def _give_up(self, cable: Cable) -> None:
        if self.cable is cable and not self._is_upgraded:
            cable.carry(Way.IN, End.RST)
            self._leave()
            self._failed()

    def _failed(self) -> None:
        self._failures += 1
        wait = 1.0
        if self.kind.backs_off:
            wait = min(30.0, 2.0 ** (self._failures - 1))
            wait *= self.random.uniform(0.5, 1.5)
        self.later(wait, self._dial)

    def _lost(self, how: str) -> None:
        """The connection is over; dial again."""
        cable = self._leave()
        if cable is None:
            return
        if cable.was_cut_off:
            self.impaired_at = self.world.clock.elapsed
        self.world.note(self.name, f"lost its connection: {how}")
        if self.desk.is_busy:
            # The thread that would dial is the one that works.
            self._dials_when_free = True
        else:
            self._dial_again()

    def dial_if_free(self) -> None:
        """Dial, if that had to wait for the end of a request."""
        if self._dials_when_free:
            self._dials_when_free = False
            self.impaired_at = self.world.clock.elapsed
            self._dial_again()

    def _dial_again(self) -> None:
        pause = 0.0 if self.kind.backs_off else self.random.uniform(1.0, 1.08)
        self.later(pause, self._dial)

    def _leave(self) -> Cable | None:
        cable, self.cable = self.cable, None
        if cable is not None:
            cable.is_open_there = False
            self.desk.forget(cable)
        return cable

    def _say_goodbye(self) -> None:
        if self.cable is not None and self._is_upgraded:
            self.cable.carry(Way.IN, pack(Opcode.CLOSE, (1000).to_bytes(2, "big")))
            self.cable.carry(Way.IN, End.FIN)

    def _receive(self, cable: Cable, item: Item) -> None:
        if cable is not self.cable:
            return
        match item:
            case Answer(status=101):
                self._is_upgraded = True
                self._failures = 0
                self._ponged_at = self.world.clock.elapsed
                self.later(PING_INTERVAL, lambda: self._ping(cable))
            case Answer():
                self._leave()
                cable.carry(Way.IN, End.FIN)
                self._failed()
            case Frame(opcode=Opcode.TEXT):
                self.desk.take(cable, json.loads(item.payload))
            case Frame(opcode=Opcode.PING):
                cable.carry(Way.IN, pack(Opcode.PONG, item.payload))
            case Frame(opcode=Opcode.PONG):
                self._ponged_at = self.world.clock.elapsed
            case Frame(opcode=Opcode.CLOSE):
                cable.carry(Way.IN, pack(Opcode.CLOSE, item.payload[:2]))
                cable.carry(Way.IN, End.FIN)
                self._lost("closed by Relay")
            case End():
                self._lost("reset")
            case _:
                raise TypeError(f"Relay does not send {item!r}")

    def _ping(self, cable: Cable) -> None:
        if cable is not self.cable:
            return
        cable.carry(Way.IN, pack(Opcode.PING))
        self.later(PING_INTERVAL, lambda: self._ping(cable))
        self.later(self.kind.pong_wait, lambda: self._check_pong(cable))

    def _check_pong(self, cable: Cable) -> None:
        silent_for = self.world.clock.elapsed - self._ponged_at
        if cable is self.cable and silent_for > self.kind.pong_wait:
            cable.carry(Way.IN, End.RST)
            self._lost("no pong came")

    def later(self, seconds: float, happen: Callable[[], None]) -> None:
        """As its own timer: ends with the process, and waits while that is frozen."""

        def fire() -> None:
            if not self.is_alive:
                return
            if self.is_frozen:
                self._postponed.append(fire)
            else:
                self.world.steps += 1
                happen()

        self.world.agenda.after(seconds, fire)
