"""
Rows as frozen dataclasses: what the rooms above the store hand around.

Spans are `timedelta`, instants are aware UTC. A record is a reading; writing goes
through a repository, which guards it and reads the row count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    AppVersion,
    AuditId,
    ConnectionId,
    Epoch,
    ExecutorId,
    ExecutorRef,
    InstanceId,
    KeyId,
    KeyName,
    OrgName,
    RecoveryId,
    WorkflowId,
)
from relay.liveness.states import ExecutorStatus


class RecoveryState(StrEnum):
    """Where one recovery stands."""

    WAITING = "WAITING"
    """No live executor of the application, or only unresponsive ones."""

    READY = "READY"
    """An order may be sent once `next_attempt_at` has passed."""

    ORDERED = "ORDERED"
    """An order is out; its reply or its verification is outstanding."""

    BACKOFF = "BACKOFF"
    """The last attempt failed or work remains; `reason` says which."""

    STRANDED = "STRANDED"
    """Work remains and no executor of its version lives."""

    BRAKED = "BRAKED"
    """Slowed down by the crash brake."""

    MIGRATING = "MIGRATING"
    """Being moved to another version."""

    DONE = "DONE"
    """Nothing is pending any more; final."""

    RETURNED = "RETURNED"
    """The executor came back; final."""

    ABANDONED = "ABANDONED"
    """An operator gave up on it, with a reason; final."""


OPEN_STATES = frozenset(
    {
        RecoveryState.WAITING,
        RecoveryState.READY,
        RecoveryState.ORDERED,
        RecoveryState.BACKOFF,
        RecoveryState.STRANDED,
        RecoveryState.BRAKED,
        RecoveryState.MIGRATING,
    }
)
"""States that something still has to end."""


class VersionPolicy(StrEnum):
    """Which peers may be ordered to recover: of the same version only, or any."""

    SAME = "same"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationRecord:
    """A tenant. `audit_retention` is how long audit entries are kept."""

    id: str
    name: OrgName
    created_at: datetime
    audit_retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRecord:
    """
    A registered application and its settings; `None` in a threshold means off.

    `executor_timeout` is the grace period between DISCONNECTED and DEAD. With
    `imports_allowed` workflows may be imported, which lets the sender run code inside
    an executor of a Python application.
    """

    ref: ApplicationRef
    created_at: datetime
    executor_timeout: timedelta
    gc_time_threshold: timedelta | None
    gc_rows_threshold: int | None
    global_timeout: timedelta | None
    private_mode: bool
    language: str | None
    version_policy: VersionPolicy
    imports_allowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRecord:
    """
    What is known of one executor.

    `epoch` and `connection_id` name the socket that the row is about: a late event of
    an older socket matches neither. `owner` is the Relay instance holding the socket.

    While DISCONNECTED, `dead_after` is the deadline (by the database's clock) and its
    identity; `grace_started_at` is where PATCH re-computes it from, `grace_is_fault`
    tells that the fault floor applies. `unseen_starts` counts consecutive starts of
    Relay since the executor was last connected.
    """

    ref: ExecutorRef
    app_version: AppVersion
    hostname: str | None
    language: str | None
    dbos_version: str | None
    metadata: Mapping[str, Any] | None
    status: ExecutorStatus
    status_since: datetime
    created_at: datetime
    last_seen_at: datetime
    peer_address: str
    owner: InstanceId
    epoch: Epoch
    connection_id: ConnectionId
    grace_started_at: datetime | None
    grace_is_fault: bool
    dead_after: datetime | None
    unseen_starts: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRecord:
    """
    One death of one executor, and everything done about it: a row of the ledger.

    `epoch` is the executor's epoch at its death. `revision` grows with each write and
    guards the next. `attempts` counts orders written, `failures` the attempts that
    failed in a row: they set the next backoff. `order_deadline` stands as long as the
    answer of `target` is outstanding or unknown. `pending_count` is what the last
    question found (`None`: not known; 101 means "more than 100"), with the first ids
    in `pending_ids`. `claimed_by` is the instance working on it now.
    `tried_versions` are the foreign versions ordered under `VersionPolicy.ANY`.

    `lost_at` is when the executor's last connection ended, a grace period before its
    death; `None` for a recovery that an operator asked for. `acknowledged_at` is when
    the last order that succeeded was answered. `suspect_ids` are the workflows among
    the pending that seem to kill their executors: as long as there are any, the crash
    brake spaces the orders, the wider the higher `brake_level`.
    """

    id: RecoveryId
    executor: ExecutorRef
    app_version: AppVersion
    epoch: Epoch
    state: RecoveryState
    revision: int
    opened_at: datetime
    lost_at: datetime | None
    updated_at: datetime
    next_attempt_at: datetime | None
    attempts: int
    failures: int
    claimed_by: InstanceId | None
    target: ExecutorId | None
    ordered_at: datetime | None
    order_deadline: datetime | None
    acknowledged_at: datetime | None
    pending_count: int | None
    pending_ids: Sequence[WorkflowId]
    suspect_ids: Sequence[WorkflowId]
    brake_level: int
    tried_versions: Sequence[AppVersion]
    reason: str | None
    is_verified: bool | None
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLossRecord:
    """
    A workflow that was pending in an executor that was lost for good.

    `losses` counts such executors in a row, `last_lost_at` is the last of their losses.
    `handed_on_at` is when an order to take the workflow over was last written or
    acknowledged since then; `None` before there is one.
    """

    application_id: ApplicationId
    workflow_id: WorkflowId
    name: str | None
    losses: int
    last_lost_at: datetime
    handed_on_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneRecord:
    """
    An executor whose record was deleted by recovery; kept for the census.

    `reopened_at` is when the census last found it owning work again.
    """

    executor: ExecutorRef
    app_version: AppVersion
    recovery_id: RecoveryId
    deleted_at: datetime
    reopened_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose pending work it is, and of which application version."""

    executor_id: ExecutorId
    app_version: AppVersion


class OwnerKind(StrEnum):
    """Why nobody will recover the pending work of an owner."""

    UNKNOWN = "UNKNOWN_OWNER"
    """Relay has never seen an executor of that id."""

    OTHER_VERSION = "OTHER_VERSION"
    """An executor of that id is there, with another application version."""

    ABANDONED = "ABANDONED"
    """An operator gave up on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRecord:
    """
    Pending work that nobody will recover unless an operator says so.

    `pending_count` is what the last census counted, at `last_seen_at`.
    """

    application: ApplicationRef
    owner: Owner
    kind: OwnerKind
    pending_count: int
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerFacts:
    """
    What is known of an owner of pending work.

    Attributes:
        status: of the executor's row; `None` when it has none.
        app_version: the version in that row.
        has_open_recovery: whether the ledger is at work for that executor already.
        last_opened_at: when its newest recovery was opened, if it has a row.
        last_closed_at: when that recovery ended.
        is_abandoned: whether an operator gave up on its newest recovery of the owner's
            version.
        deleted_at: when a record of this executor was last deleted by recovery.
        reopened_at: when the census last reopened the ledger for a deleted one.
        is_elsewhere: whether an executor of another application has this id and
            version; asked only of those of which nothing else is known.
    """

    status: ExecutorStatus | None = None
    app_version: AppVersion | None = None
    has_open_recovery: bool = False
    last_opened_at: datetime | None = None
    last_closed_at: datetime | None = None
    is_abandoned: bool = False
    deleted_at: datetime | None = None
    reopened_at: datetime | None = None
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusRecord:
    """
    The last count of an application's pending workflows.

    `is_complete` is false if the executor could list only the oldest of them.
    """

    application_id: ApplicationId
    taken_at: datetime
    answered_by: ExecutorId
    pending_count: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class DisputeSide:
    """
    Executors that read one of two databases.

    `most` is how many of them were connected at once at the most.
    """

    executor_ids: frozenset[ExecutorId]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeRecord:
    """Executors of one application read different databases; two sides."""

    application_id: ApplicationId
    since: datetime
    sides: tuple[DisputeSide, DisputeSide]


class MetricType(StrEnum):
    """What is counted."""

    WORKFLOWS = "workflow_count"
    STEPS = "step_count"
    RECOVERIES = "recovery_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """
    How often something happened from `time_bucket` on, for the span `granularity`.

    `metric_name` is the workflow's, the step's, or the id of the executor recovered.
    """

    application_id: ApplicationId
    time_bucket: datetime
    granularity: timedelta
    metric_type: MetricType
    metric_name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """
    An API key without its secret.

    `application_ids` is `None` for a key that covers every application; a key whose
    last application was deleted has an empty tuple and covers none.
    """

    id: KeyId
    organization: OrgName
    name: KeyName
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    permissions: frozenset[str]
    application_ids: Sequence[ApplicationId] | None


class AuditStatus(StrEnum):
    """Whether the operation happened or was refused or failed."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSubject:
    """Who did it: `kind` is `user` or `api_key`."""

    kind: str
    id: str
    display: str


RELAY_SUBJECT = AuditSubject(kind="api_key", id="relay", display="Relay")
"""The engine itself; the key name `relay` is reserved for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTarget:
    """What it was done to: `kind` is a target type of the contract."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """
    An entry to append; the store gives it its id and its instant.

    `recovery_id` ties the entries of one death together: they are its story.
    """

    organization: OrgName
    operation: str
    status: AuditStatus
    subject: AuditSubject
    target: AuditTarget | None
    source_ip: str
    details: Mapping[str, Any]
    recovery_id: RecoveryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An entry as stored. Ids sort by time within one store."""

    id: AuditId
    emitted_at: datetime
    entry: AuditEntry


def application_target(application: AppName) -> AuditTarget:
    """The audit target of everything that happens to an application."""
    return AuditTarget(kind="application", id=application)
