"""Connected executors that exist in a test only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from relay.ids import ApplicationId, ApplicationRef, AppVersion, ExecutorId, ExecutorRef
from relay.protocol.messages import ExecutorInfo
from tests.recovery.records import SHOP

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class PaperPeer:
    """An open socket, and who is at its other end."""

    ref: ExecutorRef
    info: ExecutorInfo
    last_seen_at: datetime = NOW
    is_responsive: bool = True


@dataclass
class PaperPeers:
    """A hub with the executors that a test puts into it."""

    peers: list[PaperPeer] = field(default_factory=list)
    colliding: set[ExecutorRef] = field(default_factory=set)

    def connect(
        self,
        executor_id: str,
        version: str = "v1",
        *,
        application: ApplicationRef = SHOP,
        last_seen_at: datetime = NOW,
        is_responsive: bool = True,
    ) -> ExecutorRef:
        """One more executor on line."""
        ref = ExecutorRef(application, ExecutorId(executor_id))
        info = ExecutorInfo(
            executor_id=ref.executor_id,
            application_version=AppVersion(version),
            hostname=None,
            language="python",
            dbos_version="3.2.0",
            metadata=None,
        )
        self.peers.append(PaperPeer(ref, info, last_seen_at, is_responsive))
        return ref

    def list_peers(self, application_id: ApplicationId) -> Sequence[PaperPeer]:
        return [
            peer for peer in self.peers if peer.ref.application.id == application_id
        ]

    def find(self, ref: ExecutorRef) -> PaperPeer | None:
        return next((peer for peer in self.peers if peer.ref == ref), None)

    def is_online(self, ref: ExecutorRef) -> bool:
        return self.find(ref) is not None

    def is_colliding(self, ref: ExecutorRef) -> bool:
        return ref in self.colliding
