"""What this room needs of the hub: who is connected, and how they are."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from relay.ids import ApplicationId, ExecutorRef
from relay.protocol.messages import ExecutorInfo


class LivePeer(Protocol):
    """A connected executor that has said who it is."""

    @property
    def ref(self) -> ExecutorRef:
        """Which executor this is."""
        ...

    @property
    def info(self) -> ExecutorInfo:
        """What it said about itself; its application version is in here."""
        ...

    @property
    def last_seen_at(self) -> datetime:
        """When its last byte arrived."""
        ...

    @property
    def is_responsive(self) -> bool:
        """False after two time-outs in a row, until it answers again."""
        ...


class LivePeers(Protocol):
    """The connected executors, by application; `relay.hub.hub.Hub` is the real one."""

    def list_peers(self, application_id: ApplicationId) -> Sequence[LivePeer]:
        """Those of one application, one an executor, in no certain order."""
        ...

    def find(self, ref: ExecutorRef) -> LivePeer | None:
        """That executor, if it is connected."""
        ...

    def is_colliding(self, ref: ExecutorRef) -> bool:
        """Whether several live processes use that executor id."""
        ...
