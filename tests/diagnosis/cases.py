"""Workflows and facts as the tests of this room need them."""

from datetime import timedelta
from typing import Any

from relay.diagnosis.facts import (
    Facts,
    LiveSight,
    OwnerStanding,
    QueueStanding,
    Running,
)
from relay.ids import AppVersion, ExecutorId
from relay.protocol.queues import Limits, QueueLimits
from relay.protocol.workflows import WorkflowRow
from relay.records import OwnerFacts
from tests.diagnosis.peers import NOW
from tests.operations.desk import workflow

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LIVE = {AppVersion("v1"): [ExecutorId("e2"), ExecutorId("e3")]}


def pending(**changes: Any) -> WorkflowRow:
    """A workflow that `e1` runs."""
    fields = {
        "status": "PENDING",
        "executor_id": "e1",
        "app_version": "v1",
        "created_at": NOW - MINUTE,
        "updated_at": NOW - MINUTE,
    }
    return workflow(**{**fields, **changes})


def enqueued(workflow_id: str = "w1", **changes: Any) -> WorkflowRow:
    """A workflow that waits in the queue `jobs`."""
    fields = {
        "status": "ENQUEUED",
        "queue_name": "jobs",
        "app_version": "v1",
        "created_at": NOW - MINUTE,
        "updated_at": NOW - MINUTE,
    }
    return workflow(workflow_id, **{**fields, **changes})


def sight(version: str = "v1", **changes: Any) -> LiveSight:
    """An executor that is connected and well."""
    fields: dict[str, Any] = {
        "app_version": AppVersion(version),
        "last_seen_at": NOW - SECOND,
        "is_responsive": True,
        "is_colliding": False,
    }
    return LiveSight(**{**fields, **changes})


def owned(facts: OwnerFacts | None = None, **standing: Any) -> Facts:
    """The facts about a workflow whose owner stands so."""
    owner = OwnerStanding(facts=facts or OwnerFacts(), **standing)
    return Facts(now=NOW, live=LIVE, owner=owner)


def bounded(**whole: Any) -> QueueLimits:
    """The queue `jobs` with these limits."""
    return limits_of(Limits(**whole), Limits())


def limits_of(whole: Limits, partition: Limits) -> QueueLimits:
    return QueueLimits(
        name="jobs",
        whole=whole,
        partition=partition,
        priority_enabled=False,
        application_name="shop",
    )


def queued(**changes: Any) -> Facts:
    """The facts about a workflow in a queue without limits, the first in it."""
    fields: dict[str, Any] = {
        "name": "jobs",
        "limits": bounded(),
        "running": Running(),
        "partition_running": Running(),
        "started": 0,
        "ahead": 0,
    }
    standing = QueueStanding(**{**fields, **changes})
    return Facts(now=NOW, live=LIVE, queue=standing)
