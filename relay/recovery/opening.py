"""Recoveries that no death has opened."""

from datetime import datetime

from relay.ids import AppVersion, ConnectionId, Epoch, ExecutorRef, InstanceId
from relay.liveness.states import ExecutorStatus
from relay.records import ExecutorRecord


def dead_row(
    ref: ExecutorRef, app_version: AppVersion, now: datetime
) -> ExecutorRecord:
    """
    The row of an executor that has none, so that its recovery can be guarded by it.

    It is DEAD from the start, and a placeholder; when the executor connects, it is an
    ordinary one.
    """
    return ExecutorRecord(
        ref=ref,
        app_version=app_version,
        hostname=None,
        language=None,
        dbos_version=None,
        metadata=None,
        status=ExecutorStatus.DEAD,
        status_since=now,
        created_at=now,
        last_seen_at=now,
        peer_address="",
        owner=InstanceId(""),
        epoch=Epoch(1),
        connection_id=ConnectionId(""),
        grace_started_at=None,
        grace_is_fault=False,
        dead_after=None,
        unseen_starts=0,
        last_error=None,
    )
