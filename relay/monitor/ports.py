"""What the monitor needs of the hub and of the registry."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from relay.hub.events import Loss
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    ConnectionId,
    ExecutorRef,
    KeyName,
)
from relay.protocol.messages import ExecutorInfo
from relay.store import UnitOfWork


class LiveConnection(Protocol):
    """An open socket whose executor has said who it is."""

    @property
    def id(self) -> ConnectionId:
        """The connection's own identity; never used twice."""
        ...

    @property
    def ref(self) -> ExecutorRef:
        """Which executor is at the other end."""
        ...

    @property
    def info(self) -> ExecutorInfo:
        """What it said about itself."""
        ...

    @property
    def peer_address(self) -> str:
        """Where it dialled from."""
        ...

    @property
    def key_name(self) -> KeyName | None:
        """The key it was admitted with; `None` where no key is needed."""
        ...


class Sockets(Protocol):
    """The live connections of this server; `relay.hub.hub.Hub` is the real one."""

    @property
    def is_draining(self) -> bool:
        """Whether this server stops: nobody who dials is let in any more."""
        ...

    @property
    def stalled_for(self) -> timedelta:
        """
        How long this process has stood still since it began; never becomes less.

        Stalls of up to a second are left out.
        """
        ...

    def find(self, ref: ExecutorRef) -> LiveConnection | None:
        """The newest open socket of that executor."""
        ...

    def is_handshaking(self, application: ApplicationRef) -> bool:
        """Whether a socket that may be of that application has not said whose it is."""
        ...

    def is_colliding(self, ref: ExecutorRef) -> bool:
        """Whether several live processes use that executor id."""
        ...

    def list_last_seen(
        self,
    ) -> Sequence[tuple[ExecutorRef, ConnectionId, datetime]]:
        """Each open socket's executor and when its last byte arrived."""
        ...

    def close_connection(
        self, connection_id: ConnectionId, loss: Loss, code: int, reason: str
    ) -> None:
        """Close that socket; nothing happens if it is gone."""
        ...


class Newcomers(Protocol):
    """
    Applications whose executors were let in before they had a row.

    The store was away then; `relay.registry.newcomers.Newcomers` is the real one.
    """

    async def register(
        self, work: UnitOfWork, application_ids: Collection[ApplicationId]
    ) -> None:
        """Give those of them that have none yet their row, in this transaction."""
        ...
