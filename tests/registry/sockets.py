"""A hub that only takes notes."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from relay.ids import ApplicationId, ExecutorId, ExecutorRef, KeyId
from relay.registry import LiveExecutor


@dataclass(frozen=True)
class Live:
    """An open socket as the hub would show it."""

    last_seen_at: datetime
    in_flight: int = 0
    is_responsive: bool = True


@dataclass
class RecordingSockets:
    """Shows what a test put into it, and remembers what it was told to close."""

    live: dict[tuple[ApplicationId, ExecutorId], Live] = field(default_factory=dict)
    colliding: set[tuple[ApplicationId, ExecutorId]] = field(default_factory=set)
    closed_applications: list[tuple[ApplicationId, str]] = field(default_factory=list)
    closed_keys: list[tuple[KeyId, str]] = field(default_factory=list)
    passes: int = 0
    """How often all connections were gone through for revoked keys."""

    def find(self, ref: ExecutorRef) -> LiveExecutor | None:
        return self.live.get(ref.key)

    def is_colliding(self, ref: ExecutorRef) -> bool:
        return ref.key in self.colliding

    def is_available(self, application_id: ApplicationId) -> bool:
        return any(key[0] == application_id for key in self.live)

    async def close_application(
        self, application_id: ApplicationId, reason: str
    ) -> None:
        self.closed_applications.append((application_id, reason))

    async def close_keys(self, key_ids: Collection[KeyId], reason: str) -> None:
        self.passes += bool(key_ids)
        self.closed_keys += [(key_id, reason) for key_id in key_ids]
