"""Which connection speaks for which executor, and what happens when several do."""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta

import structlog

from relay.clock import Clock
from relay.hub.connection import Connection
from relay.ids import ApplicationId, ExecutorId, ExecutorRef

SWAPS_TO_COLLISION = 3
SWAP_SPAN = timedelta(seconds=30)
WARNING_SPAN = timedelta(minutes=1)

logger = structlog.get_logger(__name__)


class Seat:
    """
    The place of one executor id: its open connections, the newest last.

    Usually there is one. A second one means that the executor came back before its old
    socket was known to be dead, or that two live processes use one id. The processes
    would supersede each other every second for ever, so that after
    `SWAPS_TO_COLLISION` swaps within `SWAP_SPAN` the seat is `is_colliding`, until one
    connection is left.
    """

    __slots__ = ("_clock", "_swaps", "_warned_at", "connections", "is_colliding")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._swaps: deque[float] | None = None
        self._warned_at = float("-inf")
        self.connections: list[Connection] = []
        self.is_colliding = False

    def take(self, connection: Connection) -> None:
        """Let `connection` speak for the executor from now on."""
        if self.connections:
            self._count_swap()
        self.connections.append(connection)
        if self.is_colliding:
            self._warn(connection)

    def leave(self, connection: Connection) -> Connection | None:
        """Remove it; the older one that speaks now, if that has changed."""
        was_newest = self.connections[-1] is connection
        self.connections.remove(connection)
        if len(self.connections) <= 1:
            self.is_colliding = False
        return self.connections[-1] if was_newest and self.connections else None

    def _count_swap(self) -> None:
        now = self._clock.monotonic()
        if self._swaps is None:
            self._swaps = deque(maxlen=SWAPS_TO_COLLISION)
        self._swaps.append(now)
        if (
            len(self._swaps) == SWAPS_TO_COLLISION
            and now - self._swaps[0] <= SWAP_SPAN.total_seconds()
        ):
            self.is_colliding = True

    def _warn(self, connection: Connection) -> None:
        now = self._clock.monotonic()
        if now - self._warned_at < WARNING_SPAN.total_seconds():
            return
        self._warned_at = now
        logger.warning(
            "executor_ids_collided",
            application=connection.application.name,
            executor_id=connection.ref.executor_id,
            connections=len(self.connections),
        )


class Seats:
    """The seats of all executors on line, by application and executor id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seats: dict[ApplicationId, dict[ExecutorId, Seat]] = {}
        # Of ten thousand executors a millisecond's work, and asked for all the time.
        self._newest: dict[ApplicationId, Sequence[Connection]] = {}

    def take(self, connection: Connection) -> Seat:
        """Seat a connection that has said who it is."""
        application_id, executor_id = connection.ref.key
        seats = self._seats.setdefault(application_id, {})
        seat = seats.get(executor_id)
        if seat is None:
            seat = seats[executor_id] = Seat(self._clock)
        seat.take(connection)
        self._newest.pop(application_id, None)
        return seat

    def leave(self, connection: Connection) -> Connection | None:
        """Unseat it; the older connection that speaks now, if that has changed."""
        application_id, executor_id = connection.ref.key
        seats = self._seats[application_id]
        seat = seats[executor_id]
        successor = seat.leave(connection)
        self._newest.pop(application_id, None)
        if not seat.connections:
            del seats[executor_id]
            if not seats:
                del self._seats[application_id]
        return successor

    def find(self, ref: ExecutorRef) -> Seat | None:
        """The seat of that executor, if anybody sits on it."""
        application_id, executor_id = ref.key
        return self._seats.get(application_id, {}).get(executor_id)

    def is_colliding(self, ref: ExecutorRef) -> bool:
        """Whether several live processes use that executor id."""
        seat = self.find(ref)
        return seat is not None and seat.is_colliding

    def list_newest(self, application_id: ApplicationId) -> Sequence[Connection]:
        """The connection that speaks for each executor of an application."""
        newest = self._newest.get(application_id)
        if newest is None:
            seats = self._seats.get(application_id)
            if seats is None:
                return []
            newest = [seat.connections[-1] for seat in seats.values()]
            self._newest[application_id] = newest
        return newest

    def __iter__(self) -> Iterator[Connection]:
        """The connection that speaks for each executor."""
        for seats in self._seats.values():
            for seat in seats.values():
                yield seat.connections[-1]
