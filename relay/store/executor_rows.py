"""How an executor's row becomes a record, and a record a row."""

from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, or_, select

from relay.ids import ApplicationId, ApplicationRef, ExecutorId, ExecutorRef
from relay.liveness.states import ExecutorStatus
from relay.records import ExecutorRecord
from relay.store.tables import application, executor, organization

ExecutorKey = tuple[ApplicationId, ExecutorId]
"""`ExecutorRef.key`: the primary key of an executor's row."""


NAMES = (
    executor.c.application_id,
    executor.c.executor_id,
    application.c.name.label("application_name"),
    organization.c.name.label("organization_name"),
)
"""The columns that `executor_of` reads."""


def select_executors() -> Select[Any]:
    return select(executor, *NAMES[2:]).select_from(
        executor.join(application).join(organization)
    )


def has_key(key: ExecutorKey) -> ColumnElement[bool]:
    application_id, executor_id = key
    return and_(
        executor.c.application_id == application_id,
        executor.c.executor_id == executor_id,
    )


def comes_after(key: ExecutorKey) -> ColumnElement[bool]:
    application_id, executor_id = key
    return or_(
        executor.c.application_id > application_id,
        and_(
            executor.c.application_id == application_id,
            executor.c.executor_id > executor_id,
        ),
    )


BELIEFS = (
    "app_version",
    "hostname",
    "language",
    "dbos_version",
    "metadata",
    "status",
    "status_since",
    "last_seen_at",
    "peer_address",
    "owner",
    "epoch",
    "connection_id",
    "grace_started_at",
    "grace_is_fault",
    "dead_after",
    "unseen_starts",
    "last_error",
)
"""What `save` writes: columns that bear the name of their field in the record."""


def beliefs_of(record: ExecutorRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in BELIEFS}


def executor_of(row: Row[Any]) -> ExecutorRef:
    """The executor that a row joined with its application and organization is about."""
    return ExecutorRef(
        ApplicationRef(
            id=row.application_id,
            organization=row.organization_name,
            name=row.application_name,
        ),
        executor_id=row.executor_id,
    )


def to_record(row: Row[Any]) -> ExecutorRecord:
    return ExecutorRecord(
        ref=executor_of(row),
        app_version=row.app_version,
        hostname=row.hostname,
        language=row.language,
        dbos_version=row.dbos_version,
        metadata=row.metadata,
        status=ExecutorStatus(row.status),
        status_since=row.status_since,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
        peer_address=row.peer_address,
        owner=row.owner,
        epoch=row.epoch,
        connection_id=row.connection_id,
        grace_started_at=row.grace_started_at,
        grace_is_fault=row.grace_is_fault,
        dead_after=row.dead_after,
        unseen_starts=row.unseen_starts,
        last_error=row.last_error,
    )
