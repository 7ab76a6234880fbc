"""What a diagnosis rests on, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from relay.diagnosis.findings import Gap
from relay.ids import AppVersion, ExecutorId
from relay.protocol.queues import QueueLimits
from relay.records import OwnerFacts, RecoveryRecord

LiveExecutors: TypeAlias = Mapping[AppVersion, Sequence[ExecutorId]]
"""The connected executors of an application, by the version that they have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSight:
    """What the socket of a connected executor tells."""

    app_version: AppVersion
    last_seen_at: datetime
    is_responsive: bool
    is_colliding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerStanding:
    """
    What is known of the executor that owns a pending workflow.

    Attributes:
        facts: what the rows say of this owner, executor and version.
        live: its connection, whatever version is at the other end.
        status_since, dead_after: of a DISCONNECTED one.
        recovery: the open one of this executor, of whatever version.
        listed_at: when the census first listed it as an owner whom nobody recovers.
    """

    facts: OwnerFacts
    live: LiveSight | None = None
    status_since: datetime | None = None
    dead_after: datetime | None = None
    recovery: RecoveryRecord | None = None
    listed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """
    Pending workflows of a queue or a partition, by executor.

    An incomplete count is of some of them only: there are at least that many.
    """

    by_executor: Mapping[str, int] = field(default_factory=dict)
    is_complete: bool = True

    @property
    def total(self) -> int:
        """Of all executors together."""
        return sum(self.by_executor.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """
    What is known of the queue that a workflow waits in.

    Attributes:
        limits: `None` if the queue is not stored in the database.
        running: pending in the whole queue.
        partition_running: pending in the workflow's partition.
        started: how many were started within the period of the queue's rate limit.
        slot_at: when the rate limit lets the next one start, of a limit that is spent.
        ahead: enqueued earlier than the workflow, in the same queue and of versions
            that the same executors take.
    """

    name: str
    limits: QueueLimits | Gap | None
    running: Running | Gap
    partition_running: Running | Gap
    started: int | Gap
    ahead: int | Gap
    slot_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    Everything but the workflow's own row.

    Attributes:
        owner: of a pending workflow that names an executor.
        queue: of an enqueued workflow that names a queue.
        latest: the application's latest version, which takes what has no version;
            asked for only where that matters.
    """

    now: datetime
    live: LiveExecutors
    owner: OwnerStanding | None = None
    queue: QueueStanding | None = None
    latest: AppVersion | Gap | None = None
