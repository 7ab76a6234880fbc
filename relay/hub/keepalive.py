"""Pings that see life often enough, and probes of the unresponsive."""

from collections.abc import Callable, Collection
from datetime import timedelta

import structlog

from relay.clock import Clock
from relay.errors import DispatchError
from relay.hub.connection import Connection
from relay.hub.deadlines import Deadlines
from relay.hub.pulse import Pulse
from relay.protocol.messages import ExecutorInfoRequest
from relay.tasks import TaskSet

PROBE_INTERVAL = timedelta(seconds=15)
PROBED_PER_TURN = 100

_TICKS_PER_INTERVAL = 80
_LEAST_SHARE = 64

logger = structlog.get_logger(__name__)


class Pinger:
    """
    Pings every peer, paced, halfway between the signs of life it gives by itself.

    A peer pings every interval too. Relay pings half an interval after the peer's last
    byte, so that life is seen twice an interval, and one lost packet does not use up
    the slack between interval and deadline. A peer that is heard from more often needs
    no ping. The one loop is also the pulse by which a stall of the event loop shows.
    """

    def __init__(
        self,
        silence: Deadlines[Connection],
        *,
        interval: timedelta,
        clock: Clock,
        pulse: Pulse,
    ) -> None:
        self._silence = silence
        self._quiet = interval / 2
        # Slightly less than the interval, or a tick that comes a moment too early
        # would put the ping off by a whole tick, and it would drift towards the peer's.
        self._least_gap = interval.total_seconds() * 0.95
        self._tick = interval / _TICKS_PER_INTERVAL
        self._clock = clock
        self._pulse = pulse

    async def run(self) -> None:
        """Ping until cancelled."""
        while True:
            self._pulse.beat(next_in=self._tick)
            await self._clock.sleep(self._tick)
            self._ping_quiet()

    def _ping_quiet(self) -> None:
        now = self._clock.monotonic()
        quiet = self._silence.list_untouched(self._quiet)
        # Four times the average share: a crowd that arrived at once is spread over a
        # quarter of the interval instead of being pinged in one turn of the loop.
        share = max(_LEAST_SHARE, 4 * len(self._silence) // _TICKS_PER_INTERVAL)
        for connection in quiet:
            if connection.link is None or now - connection.pinged_at < self._least_gap:
                continue
            connection.pinged_at = now
            connection.link.ping()
            share -= 1
            if share == 0:
                break


class Prober:
    """
    Asks unresponsive executors who they are, until they answer anything.

    They are routed around, so that nobody else would find out that they are back.
    """

    def __init__(
        self,
        list_connections: Callable[[], Collection[Connection]],
        *,
        tasks: TaskSet,
        clock: Clock,
    ) -> None:
        self._list_connections = list_connections
        self._tasks = tasks
        self._clock = clock

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            await self._clock.sleep(PROBE_INTERVAL)
            silent = [
                each for each in self._list_connections() if not each.is_responsive
            ]
            for number, connection in enumerate(silent, start=1):
                if number % PROBED_PER_TURN == 0:
                    await self._clock.sleep(timedelta(0))
                # What was held too long may make room for what waits.
                connection.write_waiting()
                # A serial SDK reads the frames one by one: a second probe would only
                # queue behind the first one.
                if not connection.is_asked(ExecutorInfoRequest.message_type):
                    self._tasks.spawn(_probe(connection), name=f"probe {connection.id}")


async def _probe(connection: Connection) -> None:
    try:
        await connection.ask(ExecutorInfoRequest(), PROBE_INTERVAL)
    except DispatchError as error:
        logger.debug(
            "probe_failed", connection_id=connection.id, error=type(error).__name__
        )
