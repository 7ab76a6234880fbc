"""What this room needs of the hub: who is connected."""

from collections.abc import Sequence
from typing import Protocol

from relay.ids import ApplicationId, ExecutorRef
from relay.protocol.messages import ExecutorInfo


class Connected(Protocol):
    """An executor that is connected and has said who it is."""

    @property
    def info(self) -> ExecutorInfo:
        """What it said about itself: its version and its SDK are in here."""
        ...


class Connections(Protocol):
    """The connected executors; `relay.hub.hub.Hub` is the real one."""

    def list_peers(self, application_id: ApplicationId) -> Sequence[Connected]:
        """Those of one application, in no certain order."""
        ...

    def is_online(self, ref: ExecutorRef) -> bool:
        """Whether any socket of that executor is open."""
        ...
