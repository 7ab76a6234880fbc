"""Who owns pending work, as the census finds it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from relay.ids import ApplicationId, ApplicationRef, AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus


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
        is_placeholder: whether that row only guards a recovery, and no socket was ever
            behind it.
        has_open_recovery: whether the ledger is at work for that executor already.
        last_opened_at: when its newest recovery was opened, if it is dead or deleted.
        last_closed_at: when that recovery ended.
        is_abandoned: whether an operator gave up on its newest recovery of the owner's
            version.
        deleted_at: when a record of this executor was last deleted by recovery.
        reopened_at: when the ledger was last opened for it without a death, by the
            census or an operator.
        is_elsewhere: whether an executor of another application has this id and
            version; asked only of strangers.
    """

    status: ExecutorStatus | None = None
    app_version: AppVersion | None = None
    is_placeholder: bool = False
    has_open_recovery: bool = False
    last_opened_at: datetime | None = None
    last_closed_at: datetime | None = None
    is_abandoned: bool = False
    deleted_at: datetime | None = None
    reopened_at: datetime | None = None
    is_elsewhere: bool = False

    @property
    def is_stranger(self) -> bool:
        """Whether no executor of that id is known to have been connected, ever."""
        has_row = self.status is not None and not self.is_placeholder
        return not has_row and self.deleted_at is None


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
