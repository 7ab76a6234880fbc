"""What the registry needs of the hub: who is on line, and a way to hang up."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from relay.ids import ApplicationId, ExecutorRef, KeyId


class LiveExecutor(Protocol):
    """An executor whose socket is open and which has said who it is."""

    @property
    def last_seen_at(self) -> datetime:
        """When its last byte arrived."""
        ...

    @property
    def in_flight(self) -> int:
        """Requests sent to it and not answered yet."""
        ...

    @property
    def is_responsive(self) -> bool:
        """False after two time-outs in a row, until it answers again."""
        ...


class Sockets(Protocol):
    """The live connections of this server; `relay.hub.hub.Hub` is the real one."""

    def find(self, ref: ExecutorRef) -> LiveExecutor | None:
        """The newest open socket of that executor."""
        ...

    def is_colliding(self, ref: ExecutorRef) -> bool:
        """Whether several live processes use that executor id."""
        ...

    def is_available(self, application_id: ApplicationId) -> bool:
        """Whether any executor of that application is on line."""
        ...

    async def close_application(
        self, application_id: ApplicationId, reason: str
    ) -> None:
        """Close every socket of a deleted application; the peers read `reason`."""
        ...

    async def close_keys(self, key_ids: Collection[KeyId], reason: str) -> None:
        """Close every socket opened with revoked keys; the peers read `reason`."""
        ...
