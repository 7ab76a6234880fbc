"""The live connections of this instance: who is on line, and who was just lost."""

import asyncio
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from relay.clock import Clock
from relay.hub.connection import Connection
from relay.hub.events import Arrival, ConnectionListener, Departure, Loss
from relay.hub.handshake import Gatekeeper
from relay.hub.keepalive import Pinger, Prober
from relay.hub.lobby import Lobby
from relay.hub.switchboard import POLICY_VIOLATION, Switchboard
from relay.ids import ApplicationId, ApplicationRef, ConnectionId, ExecutorRef, KeyId
from relay.settings import RelaySettings
from relay.telemetry import Metrics

__all__ = ["Arrival", "ConnectionListener", "Departure", "Hub", "Loss"]

SERVICE_RESTART: Final = 1012

_CLOSED_PER_TURN = 100


class Hub:
    """
    Who is on line at this instance.

    What happens on the sockets is the `switchboard`'s; the hub answers questions about
    it, ends connections on purpose, and keeps the watch.
    """

    def __init__(
        self, *, settings: RelaySettings, clock: Clock, metrics: Metrics
    ) -> None:
        self.switchboard = Switchboard(settings=settings, clock=clock, metrics=metrics)
        self._clock = clock
        self._metrics = metrics
        self._seats = self.switchboard.seats
        self._connections = self.switchboard.connections
        self._lobby: Lobby | None = None
        self._pinger = Pinger(
            self.switchboard.silence,
            interval=settings.ping_interval,
            clock=clock,
            pulse=self.switchboard.pulse,
        )
        self._prober = Prober(
            self._connections.values, tasks=self.switchboard.tasks, clock=clock
        )

    def attach(self, gatekeeper: Gatekeeper, listener: ConnectionListener) -> None:
        """Say who decides about upgrades and who is told; before the first one."""
        self.switchboard.gatekeeper = gatekeeper
        self.switchboard.listener = listener

    async def run(self) -> None:
        """Watch deadlines, ping and probe, until cancelled."""
        # One that fails ends them all: a hub without a deadline watcher would call
        # everybody alive for ever.
        async with asyncio.TaskGroup() as watch:
            watch.create_task(self.switchboard.silence.run(), name="hub:silence")
            watch.create_task(self.switchboard.unread.run(), name="hub:unread")
            watch.create_task(self.switchboard.unclosed.run(), name="hub:unclosed")
            watch.create_task(self.switchboard.turnstile.run(), name="hub:turnstile")
            watch.create_task(self.switchboard.callers.run(), name="hub:callers")
            watch.create_task(self._pinger.run(), name="hub:pings")
            watch.create_task(self._prober.run(), name="hub:probes")

    # In front of everything.

    def open_lobby(
        self,
        listeners: Sequence[socket.socket],
        make_protocol: Callable[[], asyncio.Protocol],
    ) -> Lobby:
        """
        Listen on bound sockets; whoever opens a lobby closes it.

        Args:
            make_protocol: called for each socket that is let in.

        Raises:
            OSError: somebody else listens there.
        """
        lobby = Lobby(
            listeners,
            make_protocol=make_protocol,
            turnstile=self.switchboard.turnstile,
            descriptors=self.switchboard.descriptors,
            clock=self._clock,
            metrics=self._metrics,
        )
        lobby.open()
        self._lobby = lobby
        return lobby

    async def cut_off_callers(self, after: timedelta) -> None:
        """Drop the HTTP connections that are still open after that time."""
        await self._clock.sleep(after)
        self.switchboard.callers.cut_all()

    # What the rooms above ask.

    @property
    def connection_count(self) -> int:
        """Open connections, those in handshake too."""
        return len(self._connections)

    @property
    def is_draining(self) -> bool:
        """Whether upgrades are refused because this instance stops."""
        return self.switchboard.is_draining

    @property
    def stalled_for(self) -> timedelta:
        """How long the event loop has stood still altogether; see `Pulse`."""
        return self.switchboard.pulse.stalled_for

    def list_peers(self, application_id: ApplicationId) -> Sequence[Connection]:
        """The newest connection of each executor on line, in no certain order."""
        return self._seats.list_newest(application_id)

    def find(self, ref: ExecutorRef) -> Connection | None:
        """The newest open connection of that executor."""
        seat = self._seats.find(ref)
        return seat.connections[-1] if seat else None

    def is_online(self, ref: ExecutorRef) -> bool:
        """Whether any connection of that executor is open and past its handshake."""
        return self._seats.find(ref) is not None

    def is_available(self, application_id: ApplicationId) -> bool:
        """Whether any executor of that application is on line."""
        return bool(self._seats.list_newest(application_id))

    def is_handshaking(self, application: ApplicationRef) -> bool:
        """
        Whether somebody of that application is on the way in.

        That is from its request to its answer. Whoever still waits in the lobby, or was
        let in and its request is not read yet, may be of any application.
        """
        return (
            self.is_anybody_arriving(application)
            or self.switchboard.admitting[application.name] > 0
            or self.switchboard.turnstile.stranger_count > 0
            or (self._lobby is not None and self._lobby.waiting_count > 0)
        )

    def is_anybody_arriving(self, application: ApplicationRef) -> bool:
        """
        Whether a socket of that application was let in and is not on line yet.

        Unlike `is_handshaking` it does not count who is still to be decided on: a
        stranger would keep callers waiting, and be refused.
        """
        return self.switchboard.handshaking[application.id] > 0

    def list_last_seen(self) -> Sequence[tuple[ExecutorRef, ConnectionId, datetime]]:
        """When the last byte of each executor on line arrived, and on which socket."""
        return [(peer.ref, peer.id, peer.last_seen_at) for peer in self._seats]

    def is_colliding(self, ref: ExecutorRef) -> bool:
        """Whether several live processes use that executor id."""
        return self._seats.is_colliding(ref)

    # Ending connections on purpose.

    def close_connection(
        self, connection_id: ConnectionId, loss: Loss, code: int, reason: str
    ) -> None:
        """Close one connection, if it is still open."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            self.switchboard.hang_up(connection, loss, code, reason)

    async def close_application(
        self, application_id: ApplicationId, reason: str
    ) -> None:
        """Close every connection of a deleted application; the peers read `reason`."""
        await self._hang_up_all(
            [
                connection
                for connection in self._connections.values()
                if connection.application.id == application_id
            ],
            Loss.DELETED,
            POLICY_VIOLATION,
            reason,
        )

    async def close_keys(self, key_ids: Collection[KeyId], reason: str) -> None:
        """Close every connection opened with revoked keys; the peers read `reason`."""
        revoked = frozenset(key_ids)
        if not revoked:
            return
        await self._hang_up_all(
            [
                connection
                for connection in self._connections.values()
                if connection.key_id in revoked
            ],
            Loss.REVOKED,
            POLICY_VIOLATION,
            reason,
        )

    async def say_goodbye(self) -> None:
        """Refuse upgrades from now on, and close every connection as restarting."""
        self.switchboard.refuse_upgrades()
        await self._hang_up_all(
            self._connections.values(),
            Loss.DRAINED,
            SERVICE_RESTART,
            "Relay is stopping",
        )

    async def drain(self, within: timedelta) -> None:
        """
        Say goodbye, and wait for the peers.

        Sockets still open after `within` are aborted. Nobody is told of anything
        afterwards.
        """
        await self.say_goodbye()
        if not await self._clock.wait(self.switchboard.all_gone, within):
            for link in list(self.switchboard.links):
                link.abort()
        await self.switchboard.tasks.close()
        self.switchboard.reader.shutdown(wait=False, cancel_futures=True)

    async def _hang_up_all(
        self, connections: Iterable[Connection], loss: Loss, code: int, reason: str
    ) -> None:
        for number, connection in enumerate(list(connections), start=1):
            self.switchboard.hang_up(connection, loss, code, reason)
            if number % _CLOSED_PER_TURN == 0:
                await self._clock.sleep(timedelta(0))
