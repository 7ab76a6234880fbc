"""The patience of this server with HTTP clients."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from relay.clock import Clock
from relay.telemetry import Metrics

REQUEST_LIMIT = timedelta(seconds=10)
"""For a whole request, and for each further `PROGRESS_BYTES` of its body."""

UNREAD_LIMIT = timedelta(seconds=10)
"""For a client to read on when it has not read all that was sent to it."""

PROGRESS_BYTES = 64 * 1024

_LOOK_INTERVAL = timedelta(seconds=1)


class Caller(Protocol):
    """One HTTP connection; `relay.hub.web` has the real one."""

    @property
    def asking_since(self) -> float | None:
        """When we began to wait for the request that is due; a monotonic reading."""
        ...

    @property
    def unread_bytes(self) -> int:
        """What was answered and has not left this process, in bytes."""
        ...

    @property
    def times_read_on(self) -> int:
        """How often it has read on after what was sent to it had piled up."""
        ...

    def cut(self) -> None:
        """Drop the connection in this turn of the loop."""
        ...


@dataclass(frozen=True, slots=True)
class _Unread:
    size_bytes: int
    times_read_on: int
    since: float


class Callers:
    """
    All HTTP connections, and the end of those that keep us waiting.

    uvicorn ends the ones that are idle between two requests. It would wait for ever for
    the rest of a request, and for a client to read its answer.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._open: dict[Caller, _Unread | None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def read_clock(self) -> float:
        """The reading in which `Caller.asking_since` is given."""
        return self._clock.monotonic()

    def add(self, caller: Caller) -> None:
        """Watch `caller` from now on."""
        self._open[caller] = None

    def discard(self, caller: Caller) -> None:
        """Stop watching `caller`."""
        self._open.pop(caller, None)

    def cut_all(self) -> None:
        """Drop whoever is still there."""
        for caller in list(self._open):
            caller.cut()

    async def run(self) -> None:
        """Look at everybody once a second, until cancelled."""
        now = self._clock.monotonic()
        while True:
            await self._clock.sleep(_LOOK_INTERVAL)
            before, now = now, self._clock.monotonic()
            if now - before >= REQUEST_LIMIT.total_seconds():
                # The loop stood still; what would have saved them may lie unread.
                continue
            for caller in list(self._open):
                if reason := self._judge(caller, now):
                    self._metrics.sockets_turned_away.labels(reason).inc()
                    caller.cut()

    def _judge(self, caller: Caller, now: float) -> str | None:
        """Why `caller` has to go, if it has to."""
        asking_since = caller.asking_since
        if asking_since is not None and _is_over(asking_since, REQUEST_LIMIT, now):
            return "silent"
        unread = _Unread(caller.unread_bytes, caller.times_read_on, now)
        before = self._open.get(caller)
        if unread.size_bytes == 0:
            self._open[caller] = None
        elif (
            before is None
            or unread.size_bytes < before.size_bytes
            or unread.times_read_on > before.times_read_on
        ):
            self._open[caller] = unread
        elif _is_over(before.since, UNREAD_LIMIT, now):
            return "slow_reader"
        return None


def _is_over(since: float, limit: timedelta, now: float) -> bool:
    return now - since >= limit.total_seconds()
