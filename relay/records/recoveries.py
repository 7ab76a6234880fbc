"""The ledger: one recovery a death, and the books of the crash brake."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from relay.ids import (
    ApplicationId,
    AppVersion,
    Epoch,
    ExecutorId,
    ExecutorRef,
    InstanceId,
    RecoveryId,
    WorkflowId,
)


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
