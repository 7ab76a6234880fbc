"""Who does all of it: one random thing a step, from a seed."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from relay.errors import StoreUnavailableError
from relay.records import VersionPolicy
from relay.registry.actor import SHELL_ACTOR
from relay.registry.changes import ApplicationChange
from relay.server import Server
from tests.simulation.answers import Mood
from tests.simulation.executors import Process
from tests.simulation.exploits import Exploits
from tests.simulation.network import Way
from tests.simulation.store import Fault
from tests.simulation.world import World

MOST_PROCESSES: Final = 5
"""Of one application."""

CHANGES: Final = 0.004
"""How likely a step brings other kinds of trouble than before."""

Span = tuple[float, float]
"""The least and the most seconds that something lasts."""

_Acts = dict[Callable[[], None], float]
"""What may happen, and how likely that is compared with the others."""


class Adversary:
    """
    Chooses what happens next, and how much time passes until then.

    Attributes:
        has_let_go: Nothing bad happens until the next step.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._processes: _Acts = {
            self._launch: 3,
            self._start_work: 60,
            self._finish_work: 45,
            self.kill: 1,
            self._power_off: 0.4,
            self._leave: 0.3,
            self._start_again: 0.5,
            self._collide: 0.2,
            self._poison: 0.6,
            self._roll_out: 0.15,
            self.reset: 2.5,
            self._hang_up: 1.5,
            self._change_sockets: 1.5,
            self._reset_all: 0.2,
            self.cut_off: 4,
            self.freeze: 3,
            self._slow_down: 2,
            self._annoy: 12,
            self._repeat_old_news: 5,
            self._change_settings: 1.5,
        }
        self._database: _Acts = {
            self.disturb_store: 1.5,
            self.take_store_away: 0.4,
            self._delay_store: 1,
            self._jump_database_clock: 0.3,
        }
        self._relay: _Acts = {
            self.strike_relay: 0.3,
            self.stall_relay: 0.6,
            self._jump_wall_clock: 0.5,
        }
        self._acts = self._processes
        self._strikes_relay = False
        self.has_let_go = False
        exploits = Exploits(world, self)
        world.on_loss = exploits.lost
        world.on_death = exploits.died
        world.on_deletion = exploits.deleted
        world.on_order = exploits.ordered

    async def act(self) -> None:
        """One step: something happens, then some time passes."""
        if self.has_let_go or self._random.random() < CHANGES:
            self.has_let_go = False
            self._choose_troubles()
        self._world.steps += 1
        [act] = self._random.choices(list(self._acts), list(self._acts.values()))
        act()
        if self._strikes_relay:
            self._strikes_relay = False
            await self._restart_relay()
        await self._world.pass_time(self._draw_pause())

    async def let_go(self) -> None:
        """Stop it: all faults end, and each version that is needed has an executor."""
        world = self._world
        self._tell("adversary", "lets go")
        self.has_let_go = True
        world.store.weather.calm()
        for process in list(world.processes):
            process.calm_down()
        for database in world.databases.values():
            for workflow in database.workflows.values():
                workflow.is_poison = False
        world.start_relay_if_gone()
        for app, database in world.databases.items():
            needed = {w.version for w in database.workflows.values()}
            needed |= {f"v{world.versions[app]}"}
            there = {p.identity.version for p in world.list_alive(app)}
            for version in sorted(needed - there):
                world.launch(app, version=version)

    def _tell(self, actor: str, text: str, kind: str | None = None) -> None:
        self._world.note(actor, text, counts_as=kind)

    def _choose_troubles(self) -> None:
        """
        Who is in trouble from now on, besides the executors.

        Relay believes nobody to be dead for a while after it or its database was in
        trouble. If one of them always is, little else can be seen.
        """
        self._acts = dict(self._processes)
        if self._random.random() < 0.3:
            self._acts |= self._database
        else:
            self._world.store.weather.calm()
        if self._random.random() < 0.3:
            self._acts |= self._relay

    # --- processes -------------------------------------------------------------------

    def _launch(self) -> None:
        app = self._random.choice(list(self._world.apps))
        if len(self._world.list_alive(app)) < MOST_PROCESSES:
            self._world.launch(app)

    def _start_work(self) -> None:
        if (process := self._choose()) and not process.is_frozen:
            process.start_work()

    def _finish_work(self) -> None:
        process = self._choose()
        if process and process.running and not process.is_frozen:
            process.finish_work(self._random.choice(list(process.running.values())))

    def _poison(self) -> None:
        if (process := self._choose()) and not process.is_frozen:
            workflow = process.start_work(is_poison=True)
            self._tell(
                process.name,
                f"starts {workflow.id}, which will kill it",
                "poison",
            )

    def kill(self, process: Process | None = None) -> None:
        """A process is killed; default: any."""
        if process := process or self._choose():
            self._tell(process.name, "is killed", "kill")
            process.die(says_so=True)

    def _power_off(self) -> None:
        if process := self._choose():
            self._tell(process.name, "loses its power", "power off")
            process.die(says_so=False)

    def _leave(self) -> None:
        if process := self._choose():
            self._tell(process.name, "ends in an orderly way", "orderly end")
            process.leave()

    def _start_again(self) -> None:
        process = self._choose()
        if process is None or not process.kind.keeps_its_id:
            return
        self._tell(process.name, "is killed and started again", "start again")
        process.die(says_so=self._random.random() < 0.7)
        self._world.agenda.after(
            self._draw_span(0.1, 120), lambda: self._start_like(process)
        )

    def _start_like(self, process: Process) -> None:
        identity = process.identity
        if not self._world.list_alive(identity.app, identity.executor_id):
            self._world.launch(identity.app, like=process)

    def _collide(self) -> None:
        process = self._choose()
        if process and process.kind.keeps_its_id:
            self._tell(process.name, "gets a twin with its id", "twin")
            self._world.launch(process.identity.app, like=process)

    def _roll_out(self) -> None:
        app = self._random.choice(list(self._world.apps))
        self._world.versions[app] += 1
        self._tell(app, f"is now deployed as v{self._world.versions[app]}", "rollout")
        for process in self._world.list_alive(app):
            if self._random.random() < 0.7:
                self._tell(process.name, "is replaced")
                process.leave()
        self._world.launch(app)

    # --- the network -----------------------------------------------------------------

    def reset(self, process: Process | None = None) -> None:
        """The connection of a process is reset on the way; default: any."""
        process = process or self._choose()
        if process and process.cable:
            self._tell(process.name, "has its connection reset on the way", "reset")
            process.cable.reset()

    def _reset_all(self) -> None:
        self._tell("network", "resets every connection", "mass reset")
        for process in self._world.processes:
            if process.cable:
                process.cable.reset()

    def _hang_up(self) -> None:
        if (process := self._choose()) and not process.is_frozen:
            self._tell(process.name, "closes its connection", "hang-up")
            process.hang_up()

    def _change_sockets(self) -> None:
        process = self._choose()
        if process is None or process.cable is None or process.is_cut_off:
            return
        span = self._draw_span(0.5, 60)
        self._tell(process.name, f"dials anew, the old socket ends {span:.1f} s later")
        process.change_sockets(span)

    def cut_off(
        self, process: Process | None = None, between: Span = (1.0, 240.0)
    ) -> None:
        """Nothing gets through to a process, or from it; default: any."""
        process = process or self._choose()
        if process is None or process.blocked:
            return
        ways = self._random.choice([[Way.IN], [Way.OUT], list(Way)])
        span = self._draw_span(*between)
        names = " and ".join(way.name for way in ways)
        self._tell(
            process.name,
            f"is cut off for {span:.0f} s: {names}",
            f"partition: {names}",
        )
        process.cut_off(*ways)
        self._world.agenda.after(span, lambda: self._heal(process))

    def _heal(self, process: Process) -> None:
        if process.blocked:
            self._tell(process.name, "is reachable again")
            process.reconnect()

    def freeze(
        self, process: Process | None = None, between: Span = (1.0, 240.0)
    ) -> None:
        """A process is stopped for a while; default: any."""
        process = process or self._choose()
        if process is None or process.is_frozen:
            return
        span = self._draw_span(*between)
        self._tell(process.name, f"is frozen for {span:.0f} s", "freeze")
        process.freeze()
        self._world.agenda.after(span, lambda: self._thaw(process))

    def _thaw(self, process: Process) -> None:
        if process.is_frozen and process.is_alive:
            self._tell(process.name, "goes on")
            process.thaw()

    def _slow_down(self) -> None:
        if process := self._choose():
            process.lag = self._random.choice([0.0, 0.0, 0.3, 1.5])

    def _annoy(self) -> None:
        if process := self._choose():
            mood = self._random.choice([Mood.WILLING, Mood.WILLING, *Mood])
            if process.desk.mood is not mood:
                self._tell(process.name, f"is {mood} from now on", f"mood: {mood}")
                process.desk.mood = mood

    # --- the database ----------------------------------------------------------------

    def disturb_store(self) -> None:
        """A few of the next transactions fail."""
        self._tell("database", "has troubles")
        self._world.store.weather.troubles += self._random.randint(1, 4)

    def take_store_away(self, span: float | None = None) -> None:
        """The database is away for so many seconds; default: any number."""
        weather = self._world.store.weather
        if weather.outage is not None:
            return
        span = self._draw_span(0.5, 150) if span is None else span
        weather.outage = self._random.choice([Fault.REFUSED, Fault.HUNG])
        self._tell(
            "database",
            f"is away for {span:.0f} s: {weather.outage.name}",
            f"outage: {weather.outage.name}",
        )
        self._world.agenda.after(span, self._bring_store_back)

    def _bring_store_back(self) -> None:
        if self._world.store.weather.outage is not None:
            self._tell("database", "is back")
            self._world.store.weather.outage = None

    def _delay_store(self) -> None:
        self._world.store.weather.lag = self._random.choice([0.0, 0.0, 0.01, 0.2, 3.0])

    def _jump_database_clock(self) -> None:
        run = self._world.run
        if run is None or run.server is None or run.is_gone:
            # Who is not there cannot notice.
            return
        seconds = self._draw_jump()
        self._tell(
            "database",
            f"has its clock set off by {seconds} s",
            "database clock jump",
        )
        self._world.store.weather.jumped += timedelta(seconds=seconds)

    # --- Relay -----------------------------------------------------------------------

    def strike_relay(self) -> None:
        """The server ends in some way at the end of this step."""
        self._strikes_relay = True

    async def _restart_relay(self) -> None:
        """Whatever state the server is in, another one comes after some time."""
        world, run = self._world, self._world.run
        if run is None or run.is_gone:
            return
        how = self._random.random()
        if how < 0.4 and run.is_listening:
            run.stop()
            self._world.agenda.after(self._draw_span(3, 120), self._start_relay)
            return
        says_so = how < 0.8
        self._tell(
            "Relay",
            "is killed" if says_so else "loses its power",
            "Relay killed" if says_so else "Relay off",
        )
        await run.kill(says_so=says_so)
        world.agenda.after(self._draw_span(0.3, 100), self._start_relay)

    def _start_relay(self) -> None:
        run = self._world.run
        if run is not None and not run.is_gone and not run.is_listening:
            # It takes its time to stop, or to start.
            self._world.agenda.after(1.0, self._start_relay)
        else:
            self._world.start_relay_if_gone()

    def stall_relay(self, span: float | None = None) -> None:
        """The server stands still for so many seconds; default: any number."""
        run = self._world.run
        if run is None or run.is_gone or run.is_stalled:
            return
        span = self._draw_span(0.5, 90) if span is None else span
        self._tell("Relay", f"stands still for {span:.1f} s", "stall")
        run.stall(span)

    def _jump_wall_clock(self) -> None:
        seconds = self._draw_jump()
        self._tell(
            "Relay",
            f"has its wall clock set off by {seconds} s",
            "wall clock jump",
        )
        self._world.clock.jumped += timedelta(seconds=seconds)

    def _change_settings(self) -> None:
        run = self._world.run
        app = self._random.choice(list(self._world.apps))
        if run is None or run.server is None or run.is_gone or run.is_stalled:
            return
        if app not in self._world.laws.applications:
            return
        seconds = self._random.choice([15, 15, 20, 30, 60])
        policy = self._random.choice([VersionPolicy.SAME, VersionPolicy.ANY])
        self._tell(
            app,
            f"has a grace of {seconds} s, version policy {policy}",
            "settings",
        )
        change = ApplicationChange(
            executor_timeout=timedelta(seconds=seconds), version_policy=policy
        )
        run.spawn(_change(run.server, app, change))

    def _repeat_old_news(self) -> None:
        """What a socket told when it ended is told again, much later."""
        run = self._world.run
        if run and run.server and not run.is_gone and run.departures:
            departure = self._random.choice(run.departures)
            name = departure.ref.executor_id
            self._tell("Relay", f"hears of {name} again", "stale news")
            run.server.monitor.lost(departure)

    # --- chance ----------------------------------------------------------------------

    def _choose(self) -> Process | None:
        processes = self._world.processes
        return self._random.choice(processes) if processes else None

    def _draw_span(self, least: float, most: float) -> float:
        """Short spans are as frequent as long ones, order of magnitude by order."""
        return float(least * (most / least) ** self._random.random())

    def _draw_jump(self) -> float:
        return self._random.choice([-3600.0, -30.0, -3.0, 3.0, 30.0, 3600.0])

    def _draw_pause(self) -> float:
        chance = self._random.random()
        if chance < 0.8:
            return self._random.uniform(0.0, 0.04)
        if chance < 0.9:
            return self._random.uniform(0.0, 0.4)
        if chance < 0.99:
            return self._random.uniform(0.5, 3.0)
        return self._random.uniform(4.0, 30.0)


async def _change(server: Server, app: str, change: ApplicationChange) -> None:
    # The operator repeats it, or does not.
    with suppress(StoreUnavailableError):
        await server.registry.applications.change(SHELL_ACTOR, app, change)
