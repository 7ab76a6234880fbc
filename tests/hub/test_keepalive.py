"""Pings and probes, however many executors there are."""

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

from relay.errors import ReplyTimeoutError
from relay.hub.connection import TIMEOUTS_TO_UNRESPONSIVE, Connection
from relay.hub.deadlines import Deadlines
from relay.hub.keepalive import PROBED_PER_TURN, Pinger, Prober
from relay.hub.pulse import Pulse
from relay.ids import AppVersion, ExecutorId
from relay.protocol.messages import ExistPendingWorkflowsRequest
from relay.tasks import TaskSet
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.hub.paper import PaperLink, count_by_turn, open_connection

SECOND = timedelta(seconds=1)
INTERVAL = 20 * SECOND
WAIT = 25 * SECOND
REQUEST = ExistPendingWorkflowsRequest(ExecutorId("e1"), AppVersion("v1"))


class Watch:
    """A pinger over connections that nobody gives up."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.silence: Deadlines[Connection] = Deadlines(
            WAIT, clock, lambda connection, is_late: None
        )
        self.pinger = Pinger(
            self.silence,
            interval=INTERVAL,
            clock=clock,
            pulse=Pulse(clock, Metrics()),
        )

    def add(self, *, answers: bool) -> PaperLink:
        """A peer that has just been heard of; whether it answers pings."""
        link = PaperLink()
        connection = open_connection(link, self._clock)
        if answers:
            link.on_ping = lambda: self.silence.touch(connection)
        self.silence.touch(connection)
        return link


async def test_peer_that_answers_is_pinged_once_an_interval(clock: FakeClock) -> None:
    """Not whenever it is quiet: its own pings fall into the other half."""
    watch = Watch(clock)
    link = watch.add(answers=True)
    async with TaskSet("pings") as tasks:
        tasks.spawn(watch.pinger.run(), name="pings")
        await clock.advance(INTERVAL / 2 + SECOND)
        assert link.pings == 1

        await clock.advance(5 * INTERVAL)

    assert link.pings == 6


async def test_peer_that_is_silent_is_pinged_once_before_it_is_given_up(
    clock: FakeClock,
) -> None:
    """What did not answer the first ping would not answer a second one."""
    watch = Watch(clock)
    link = watch.add(answers=False)
    async with TaskSet("pings") as tasks:
        tasks.spawn(watch.pinger.run(), name="pings")
        await clock.advance(WAIT)

    assert link.pings == 1


class LateClock(FakeClock):
    """Wakes everybody a moment too late, as a loop with something to do."""

    async def sleep(self, span: timedelta) -> None:
        await super().sleep(span + SECOND / 50)


async def test_pings_do_not_drift_towards_those_of_the_peer() -> None:
    """After hours, too, life is seen twice an interval."""
    clock = LateClock()
    watch = Watch(clock)
    link = watch.add(answers=True)
    touch, seen = link.on_ping, [clock.monotonic()]

    def hear() -> None:
        touch()
        seen.append(clock.monotonic())

    link.on_ping = hear
    async with TaskSet("pings") as tasks:
        tasks.spawn(watch.pinger.run(), name="pings")
        for _ in range(40):
            await clock.advance(INTERVAL)
            hear()

    assert max(after - before for before, after in pairwise(seen)) < 12


async def test_a_crowd_is_pinged_over_a_quarter_of_the_interval(
    clock: FakeClock,
) -> None:
    """Executors that came back at once after a restart are not all due in one turn."""
    watch = Watch(clock)
    links = [watch.add(answers=True) for _ in range(1000)]
    async with TaskSet("pings") as tasks:
        tasks.spawn(watch.pinger.run(), name="pings")
        await clock.advance(INTERVAL / 2 + SECOND / 2)
        assert 0 < sum(link.pings for link in links) <= len(links) / 5

        await clock.advance(INTERVAL / 4 + SECOND / 2)

    assert {link.pings for link in links} == {1}


async def make_unresponsive(connection: Connection) -> None:
    """It has been asked twice, and did not answer."""
    for _ in range(TIMEOUTS_TO_UNRESPONSIVE):
        with suppress(ReplyTimeoutError):
            await connection.ask(REQUEST, SECOND)


async def test_a_crowd_is_probed_in_portions(clock: FakeClock) -> None:
    """When all of a fleet hangs at once, the loop goes on for everybody else."""
    links = [PaperLink() for _ in range(3 * PROBED_PER_TURN)]
    crowd = [open_connection(link, clock) for link in links]
    async with TaskSet("crowd") as tasks:
        for connection in crowd:
            tasks.spawn(make_unresponsive(connection), name="ask")
        await clock.advance(2 * TIMEOUTS_TO_UNRESPONSIVE * SECOND)
        assert not any(connection.is_responsive for connection in crowd)

        prober = Prober(lambda: crowd, tasks=tasks, clock=clock)
        tasks.spawn(prober.run(), name="prober")
        portions: list[int] = []

        def count_sent() -> int:
            return sum(len(link.sent) for link in links)

        tasks.spawn(count_by_turn(count_sent, portions, clock), name="count")
        await clock.advance(15 * SECOND)

    assert sum(portions) == len(crowd)
    assert max(portions) <= PROBED_PER_TURN
