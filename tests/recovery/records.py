"""Rows as the tests of this room need them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    AppVersion,
    ConnectionId,
    Epoch,
    ExecutorId,
    ExecutorRef,
    InstanceId,
    OrgName,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    ApplicationRecord,
    ExecutorRecord,
    RecoveryRecord,
    VersionPolicy,
)
from relay.recovery.transitions import open_recovery
from relay.settings import RelaySettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORGANIZATION = OrgName("local")
SHOP = ApplicationRef(ApplicationId("app-shop"), ORGANIZATION, AppName("shop"))
V1 = AppVersion("v1")
V2 = AppVersion("v2")
ME = InstanceId("me")


def dead_ref(name: str = "dead", application: ApplicationRef = SHOP) -> ExecutorRef:
    return ExecutorRef(application, ExecutorId(name))


def make_recovery(
    ref: ExecutorRef | None = None,
    *,
    epoch: int = 3,
    app_version: AppVersion = V1,
    recovery_id: str = "r-1",
    lost_at: datetime | None = None,
    now: datetime = NOW,
) -> RecoveryRecord:
    return open_recovery(
        recovery_id=RecoveryId(recovery_id),
        executor=ref or dead_ref(),
        app_version=app_version,
        epoch=Epoch(epoch),
        lost_at=lost_at,
        now=now,
    )


def make_application(
    ref: ApplicationRef = SHOP, *, version_policy: VersionPolicy = VersionPolicy.SAME
) -> ApplicationRecord:
    return ApplicationRecord(
        ref=ref,
        created_at=NOW,
        executor_timeout=timedelta(seconds=60),
        gc_time_threshold=None,
        gc_rows_threshold=None,
        global_timeout=None,
        private_mode=False,
        language=None,
        version_policy=version_policy,
    )


def make_executor(
    ref: ExecutorRef | None = None,
    *,
    status: ExecutorStatus = ExecutorStatus.DEAD,
    epoch: int = 3,
    app_version: AppVersion = V1,
    language: str | None = "python",
    dbos_version: str | None = "3.2.0",
) -> ExecutorRecord:
    is_gone = status is ExecutorStatus.DISCONNECTED
    return ExecutorRecord(
        ref=ref or dead_ref(),
        app_version=app_version,
        hostname="host",
        language=language,
        dbos_version=dbos_version,
        metadata=None,
        status=status,
        status_since=NOW,
        created_at=NOW,
        last_seen_at=NOW,
        peer_address="127.0.0.1",
        owner=ME,
        epoch=Epoch(epoch),
        connection_id=ConnectionId("c-1"),
        grace_started_at=NOW if is_gone else None,
        grace_is_fault=False,
        dead_after=NOW + timedelta(seconds=60) if is_gone else None,
        unseen_starts=0,
        last_error=None,
    )


def make_settings(**changes: Any) -> RelaySettings:
    """The defaults without the hold after the start, and with these changes."""
    return RelaySettings(**{"start_hold_secs": 0, **changes})
