"""Records that mean nothing in particular, to be changed where a test cares."""

from dataclasses import replace
from datetime import datetime, timedelta
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
    KeyId,
    KeyName,
    OrgName,
    RecoveryId,
    WorkflowId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    ApplicationRecord,
    AuditEntry,
    AuditStatus,
    AuditSubject,
    ExecutorRecord,
    KeyRecord,
    MetricRecord,
    MetricType,
    RecoveryRecord,
    RecoveryState,
    VersionPolicy,
    WorkflowLossRecord,
    application_target,
)
from relay.store import Store
from relay.testing.clock import START

LOCAL = OrgName("local")
APP = ApplicationRef(ApplicationId("app-1"), LOCAL, AppName("orders"))
OTHER_APP = ApplicationRef(ApplicationId("app-2"), LOCAL, AppName("billing"))
INSTANCE = InstanceId("relay-1")
CLOSED_STATES = frozenset(
    {RecoveryState.DONE, RecoveryState.RETURNED, RecoveryState.ABANDONED}
)


def make_application(ref: ApplicationRef = APP, **changes: Any) -> ApplicationRecord:
    return replace(
        ApplicationRecord(
            ref=ref,
            created_at=START,
            executor_timeout=timedelta(seconds=60),
            gc_time_threshold=None,
            gc_rows_threshold=None,
            global_timeout=None,
            private_mode=False,
            language=None,
            version_policy=VersionPolicy.SAME,
        ),
        **changes,
    )


def make_executor(
    executor_id: str = "e1", application: ApplicationRef = APP, **changes: Any
) -> ExecutorRecord:
    return replace(
        ExecutorRecord(
            ref=ExecutorRef(application, ExecutorId(executor_id)),
            app_version=AppVersion("v1"),
            hostname="host",
            language="python",
            dbos_version="3.2.0",
            metadata={"zone": "a", "cpus": 4},
            status=ExecutorStatus.HEALTHY,
            status_since=START,
            created_at=START,
            last_seen_at=START,
            peer_address="10.0.0.1",
            owner=INSTANCE,
            epoch=Epoch(1),
            connection_id=ConnectionId("c1"),
            grace_started_at=None,
            grace_is_fault=False,
            dead_after=None,
            unseen_starts=0,
            last_error=None,
        ),
        **changes,
    )


def make_disconnected(
    executor_id: str = "e1",
    application: ApplicationRef = APP,
    *,
    started_at: datetime = START,
    grace: timedelta = timedelta(seconds=60),
    **changes: Any,
) -> ExecutorRecord:
    return make_executor(
        executor_id,
        application,
        status=ExecutorStatus.DISCONNECTED,
        grace_started_at=started_at,
        dead_after=started_at + grace,
        **changes,
    )


def make_recovery(
    recovery_id: str = "r1",
    executor_id: str = "e1",
    application: ApplicationRef = APP,
    **changes: Any,
) -> RecoveryRecord:
    record = replace(
        RecoveryRecord(
            id=RecoveryId(recovery_id),
            executor=ExecutorRef(application, ExecutorId(executor_id)),
            app_version=AppVersion("v1"),
            epoch=Epoch(1),
            state=RecoveryState.READY,
            revision=0,
            opened_at=START,
            lost_at=None,
            updated_at=START,
            next_attempt_at=START,
            attempts=0,
            failures=0,
            claimed_by=None,
            target=None,
            ordered_at=None,
            order_deadline=None,
            acknowledged_at=None,
            pending_count=None,
            pending_ids=(),
            suspect_ids=(),
            brake_level=0,
            tried_versions=(),
            reason=None,
            is_verified=None,
            closed_at=None,
        ),
        **changes,
    )
    if record.state in CLOSED_STATES:
        return replace(record, closed_at=START)
    return record


def make_loss(
    workflow_id: str = "w1", application: ApplicationRef = APP, **changes: Any
) -> WorkflowLossRecord:
    return replace(
        WorkflowLossRecord(
            application_id=application.id,
            workflow_id=WorkflowId(workflow_id),
            name="charge",
            losses=1,
            last_lost_at=START,
            handed_on_at=None,
        ),
        **changes,
    )


def make_metric(
    name: str = "checkout", application: ApplicationRef = APP, **changes: Any
) -> MetricRecord:
    return replace(
        MetricRecord(
            application_id=application.id,
            time_bucket=START,
            granularity=timedelta(minutes=1),
            metric_type=MetricType.WORKFLOWS,
            metric_name=name,
            value=1,
        ),
        **changes,
    )


def make_key(name: str = "ci", **changes: Any) -> KeyRecord:
    return replace(
        KeyRecord(
            id=KeyId(f"key-{name}"),
            organization=LOCAL,
            name=KeyName(name),
            created_at=START,
            last_used_at=None,
            revoked_at=None,
            permissions=frozenset({"application.read", "websocket.connect"}),
            application_ids=None,
        ),
        **changes,
    )


def make_entry(operation: str = "application.update", **changes: Any) -> AuditEntry:
    return replace(
        AuditEntry(
            organization=LOCAL,
            operation=operation,
            status=AuditStatus.SUCCESS,
            subject=AuditSubject(kind="user", id="u-1", display="ann@example.org"),
            target=application_target(APP.name),
            source_ip="10.0.0.9",
            details={"application_name": APP.name},
        ),
        **changes,
    )


async def register(store: Store, *applications: ApplicationRef) -> None:
    """Make the organization and register applications in it."""
    async with store.write() as work:
        await work.organizations.ensure(LOCAL)
        for ref in applications:
            await work.applications.insert(make_application(ref))


async def add_executors(store: Store, *records: ExecutorRecord) -> None:
    async with store.write() as work:
        for record in records:
            await work.executors.insert(record)


async def add_recoveries(store: Store, *records: RecoveryRecord) -> None:
    async with store.write() as work:
        for record in records:
            await work.recoveries.insert(record)


async def find_executor(store: Store, record: ExecutorRecord) -> ExecutorRecord | None:
    async with store.read() as work:
        return await work.executors.find(record.ref.key)


async def find_recovery(store: Store, record: RecoveryRecord) -> RecoveryRecord | None:
    async with store.read() as work:
        return await work.recoveries.find(record.id)
