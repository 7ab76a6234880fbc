"""Where sockets become connections, and stop being ones."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

import structlog

from relay.clock import Clock
from relay.errors import ConnectionLostError, DispatchError
from relay.hub.admission import Admissions
from relay.hub.callers import Callers
from relay.hub.connection import Connection
from relay.hub.deadlines import Deadlines
from relay.hub.descriptors import Ceilings, Descriptors
from relay.hub.events import Arrival, ConnectionListener, Departure, Loss
from relay.hub.handshake import Admission, Gatekeeper, Knock, Refusal
from relay.hub.link import Link
from relay.hub.partings import Partings
from relay.hub.proxies import ProxyTrust
from relay.hub.pulse import Pulse
from relay.hub.reading import ReadingThread
from relay.hub.refusals import STOPPING
from relay.hub.seats import Seats
from relay.hub.turnstile import Turnstile
from relay.hub.unfinished import Unfinished
from relay.ids import ApplicationId, ConnectionId
from relay.protocol.messages import ExecutorInfoRequest
from relay.settings import RelaySettings
from relay.tasks import TaskSet
from relay.telemetry import Metrics

CLOSE_LIMIT = timedelta(seconds=5)
"""For the peer's part in a closing handshake; then the socket is aborted."""

SLOW_READER_LIMIT = timedelta(seconds=10)
"""For a peer to read on when what is written to it has piled up."""

POLICY_VIOLATION: Final = 1008

NameT = TypeVar("NameT")

logger = structlog.get_logger(__name__)


class Switchboard:
    """
    What the sockets of this instance tell, and the state that follows from it.

    Each connection is in the index from the upgrade on, and on a seat from its
    handshake on. It leaves both in the turn of the loop in which it is lost, whatever
    its socket still does; who waits for it and who listens is told in the same turn.
    """

    def __init__(
        self, *, settings: RelaySettings, clock: Clock, metrics: Metrics
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.proxies = ProxyTrust(settings.trusted_proxies)
        self.tasks = TaskSet("hub")
        self.gatekeeper: Gatekeeper | None = None
        self.listener: ConnectionListener | None = None
        self.is_draining = False
        self.links: set[Link] = set()
        self.all_gone = asyncio.Event()
        self.all_gone.set()
        self.connections: dict[ConnectionId, Connection] = {}
        self.admitting: Counter[str] = Counter()
        self._knocking: dict[Link, str] = {}
        self.handshaking: Counter[ApplicationId] = Counter()
        self.pulse = Pulse(clock, metrics)
        self.seats = Seats(clock)
        self.silence = Deadlines(settings.ping_wait, clock, self._give_up)
        self.unread = Deadlines(SLOW_READER_LIMIT, clock, self._cut_slow_reader)
        self.unclosed = Deadlines(CLOSE_LIMIT, clock, _abort)
        self.unfinished: Unfinished[Link] = Unfinished(
            settings.max_unfinished_bytes, lambda link: link.give_message_up()
        )
        self.partings = Partings()
        self.turnstile = Turnstile(clock)
        self.descriptors = Descriptors(Ceilings.of_this_process(), clock, metrics)
        self.callers = Callers(clock, metrics)
        self._clock = clock
        self._admissions = Admissions(clock)
        self.reader = ReadingThread("hub:read")

    def opened(self, link: Link) -> None:
        """A socket asks for an upgrade."""
        self.links.add(link)
        self.all_gone.clear()
        self.turnstile.enter(link)

    def refuse_upgrades(self) -> None:
        """Answer upgrades with 503 from now on: this instance stops."""
        self.is_draining = True

    def gone(self, link: Link) -> None:
        """A socket has ended altogether."""
        self.unclosed.discard(link)
        self.unfinished.note(link, 0)
        self.turnstile.leave(link)
        self._end_knock(link)
        self.links.discard(link)
        if not self.links:
            self.all_gone.set()

    def closing(self, link: Link) -> None:
        """A socket waits for its peer's part in closing; not for ever."""
        self.unclosed.touch(link)
        self.turnstile.leave(link)

    def knocked(self, link: Link, knock: Knock) -> None:
        """A socket has said where it wants to go; `admit` is still to come."""
        self._knocking[link] = knock.app_name
        self.admitting[knock.app_name] += 1

    async def admit(self, link: Link, knock: Knock) -> Admission | Refusal:
        """Whether an upgrade request may come in."""
        try:
            verdict = await self._admissions.decide(knock, self.gatekeeper)
        finally:
            self._end_knock(link)
        return STOPPING if self.is_draining else verdict

    def accept(self, link: Link, admission: Admission, peer_address: str) -> Connection:
        """Make a connection of an upgraded socket; its handshake is still to come."""
        connection = Connection(
            link,
            admission,
            peer_address=peer_address,
            max_message_bytes=self.settings.max_message_bytes,
            clock=self._clock,
            metrics=self.metrics,
            reader=self.reader,
        )
        self.connections[connection.id] = connection
        self.handshaking[connection.application.id] += 1
        self.turnstile.await_peer(link)
        self.silence.touch(connection)
        self.metrics.connections.inc()
        return connection

    async def greet(self, connection: Connection) -> None:
        """Ask the executor who it is; without an answer, close."""
        try:
            info = await connection.ask(
                ExecutorInfoRequest(), self.settings.handshake_timeout
            )
        except ConnectionLostError:
            self.metrics.handshakes_failed.inc()
            return
        except DispatchError as error:
            self.metrics.handshakes_failed.inc()
            logger.info(
                "handshake_failed",
                application=connection.application.name,
                peer_address=connection.peer_address,
                reason=str(error),
            )
            self.hang_up(
                connection, Loss.UNIDENTIFIED, POLICY_VIOLATION, f"handshake: {error}"
            )
            return
        link = connection.link
        if link is None:
            # Lost in the turn between its answer and now.
            return
        self.turnstile.leave(link)
        _count_down(self.handshaking, connection.application.id)
        connection.identify(info)
        self.seats.take(connection)
        self._tell_arrival(connection)

    def saw(self, connection: Connection) -> None:
        """Bytes of the peer have arrived."""
        if connection.link is not None:
            connection.last_seen_at = self._clock.now()
            self.silence.touch(connection)

    def stuck(self, connection: Connection) -> None:
        """What is written to the peer piles up."""
        if connection.link is not None:
            connection.unread_bytes = connection.link.unread_bytes
            self.unread.touch(connection)

    def unstuck(self, connection: Connection) -> None:
        """The peer reads again."""
        self.unread.discard(connection)
        connection.write_waiting()

    def hang_up(
        self, connection: Connection, loss: Loss, code: int, reason: str
    ) -> None:
        """End a connection with a closing handshake; out of the index at once."""
        link = connection.link
        self.lost(connection, loss, code, reason)
        if link is not None:
            link.close(code, reason)

    def cut(self, connection: Connection, loss: Loss, *, is_fault: bool) -> None:
        """End a connection whose peer will not take part in closing it."""
        link = connection.link
        self.lost(connection, loss, is_fault=is_fault)
        if link is not None:
            link.abort()

    def lost(
        self,
        connection: Connection,
        loss: Loss,
        code: int | None = None,
        reason: str = "",
        *,
        is_fault: bool = False,
    ) -> None:
        """
        Take a connection out of the index and tell everybody; the first call counts.

        Args:
            code: of the close frame, if there was one; `reason` likewise.
            is_fault: whether Relay is to blame although this kind of loss, in this
                moment, does not say so.
        """
        if self.connections.pop(connection.id, None) is None:
            return
        self.silence.discard(connection)
        self.unread.discard(connection)
        connection.end(loss)
        self.metrics.connections.dec()
        self.metrics.disconnects.labels(loss).inc()
        logger.debug("connection_lost", connection_id=connection.id, loss=str(loss))
        if not connection.is_identified:
            _count_down(self.handshaking, connection.application.id)
            return
        successor = self.seats.leave(connection)
        if successor is not None:
            # Not off line: the executor is still there, on an older connection.
            self._tell_arrival(successor)
            return
        departure = Departure(
            ref=connection.ref,
            connection_id=connection.id,
            at=self._clock.now(),
            last_seen_at=connection.last_seen_at,
            loss=loss,
            close_code=code,
            close_reason=reason,
            peer_address=connection.peer_address,
            is_fault=is_fault or loss.is_own_doing or self.pulse.is_doubtful,
        )
        self._tell(lambda listener: listener.lost(departure))

    def _end_knock(self, link: Link) -> None:
        app_name = self._knocking.pop(link, None)
        if app_name is not None:
            _count_down(self.admitting, app_name)

    def _tell_arrival(self, connection: Connection) -> None:
        arrival = Arrival(
            ref=connection.ref,
            connection_id=connection.id,
            at=self._clock.now(),
            info=connection.info,
            peer_address=connection.peer_address,
            key_name=connection.key_name,
            is_collision=self.seats.is_colliding(connection.ref),
        )
        logger.debug("connection_arrived", connection_id=connection.id)
        self._tell(lambda listener: listener.connected(arrival))

    def _tell(self, event: Callable[[ConnectionListener], None]) -> None:
        if self.listener is None:
            return
        try:
            event(self.listener)
        except Exception:
            # What the socket and those who wait for it need is still to be done.
            logger.exception("connection_event_failed")

    def _give_up(self, connection: Connection, is_late: bool) -> None:
        if connection.is_deaf:
            # Its message waits for the thread that reads those of all sockets: it is
            # not the peer that is silent.
            self.silence.touch(connection)
            return
        # After a stall of our own we cannot tell who was silent.
        self.cut(connection, Loss.SILENT, is_fault=is_late)

    def _cut_slow_reader(self, connection: Connection, is_late: bool) -> None:
        if connection.link is None:
            return
        unread = connection.link.unread_bytes
        if unread < connection.unread_bytes:
            # It reads, slowly: a large request over a thin line takes its time.
            self.stuck(connection)
        else:
            self.cut(connection, Loss.SLOW_READER, is_fault=True)


def _abort(link: Link, is_late: bool) -> None:
    link.abort()


def _count_down(counter: Counter[NameT], name: NameT) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
