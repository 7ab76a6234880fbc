"""The use-cases on a real store, and executors that answer from workflows in memory."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from relay.db import Database
from relay.diagnosis import Diagnosis
from relay.errors import ReplyTimeoutError
from relay.ids import ExecutorId
from relay.operations.asking import Executors
from relay.protocol import Request
from relay.protocol.queues import ListQueueLimitsRequest, QueueLimits
from relay.protocol.statistics import AggregateRow, WorkflowAggregatesRequest
from relay.protocol.versions import ListApplicationVersionsRequest, VersionRow
from relay.protocol.workflows import (
    GetWorkflowRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
    WorkflowRow,
)
from relay.records import ApplicationRecord, ExecutorRecord, RecoveryRecord
from relay.registry import LOCAL_ORGANIZATION
from relay.store import Store
from relay.testing.clock import FakeClock
from tests.diagnosis.peers import NOW, PaperPeers
from tests.recovery.records import make_application, make_settings

ReplyT = TypeVar("ReplyT")


@dataclass
class MemoryExecutors(Executors):
    """
    Executors of one database, which holds `rows`, `queues` and `versions`.

    `failures` maps a message type to what is raised instead of an answer. With `pause`,
    nothing is answered before that is set.
    """

    rows: list[WorkflowRow] = field(default_factory=list)
    queues: list[QueueLimits] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    pause: asyncio.Event | None = None
    asked: list[Any] = field(default_factory=list)

    async def read(
        self, application: ApplicationRecord, request: Request[ReplyT], **_: Any
    ) -> ReplyT:
        self.asked.append(request)
        if self.pause is not None:
            await self.pause.wait()
        failure = self.failures.get(request.message_type)
        if failure is not None:
            raise failure
        return cast(ReplyT, self._answer(request))

    async def list_own_versions(
        self, application: ApplicationRecord
    ) -> Sequence[VersionRow]:
        return await self.read(application, ListApplicationVersionsRequest())

    def of(self, message_type: str) -> Sequence[Any]:
        """What was asked with one message."""
        return [each for each in self.asked if each.message_type == message_type]

    def _answer(self, request: object) -> object:
        match request:
            case GetWorkflowRequest(workflow_id=wanted):
                return next((r for r in self.rows if r.workflow_id == wanted), None)
            case SearchWorkflowsRequest(filter=matching, limit=limit, offset=offset):
                return tuple(self._find(matching)[offset or 0 :][: limit or None])
            case WorkflowAggregatesRequest():
                return self._count(request)
            case ListQueueLimitsRequest():
                return tuple(self.queues)
            case ListApplicationVersionsRequest():
                return tuple(
                    VersionRow(
                        version_id=name,
                        version_name=name,
                        version_timestamp=NOW,
                        created_at=NOW,
                    )
                    for name in self.versions
                )
            case _:
                raise AssertionError(f"nobody should ask {request}")

    def _find(self, matching: WorkflowFilter) -> list[WorkflowRow]:
        found = [row for row in self.rows if _matches(row, matching)]
        return sorted(found, key=lambda row: row.created_at)

    def _count(self, request: WorkflowAggregatesRequest) -> Sequence[AggregateRow]:
        grouping = request.grouping
        names = {
            "status": ("status", grouping.by_status),
            "queue_name": ("queue_name", grouping.by_queue_name),
            "executor_id": ("executor_id", grouping.by_executor_id),
            "application_version": ("app_version", grouping.by_app_version),
        }
        counts = Counter(
            tuple(
                (key, getattr(row, name))
                for key, (name, is_set) in names.items()
                if is_set
            )
            for row in self._find(request.filter)
        )
        return [
            AggregateRow(
                group=dict(group),
                count=count,
                min_created_at=None,
                max_queue_wait_ms=None,
                max_total_latency_ms=None,
            )
            for group, count in counts.items()
        ]


def _matches(row: WorkflowRow, matching: WorkflowFilter) -> bool:
    since, until = matching.dequeued_after, matching.end_time
    return (
        (not matching.status or row.status in matching.status)
        and (not matching.queue_name or row.queue_name in matching.queue_name)
        and (
            since is None or (row.dequeued_at is not None and row.dequeued_at >= since)
        )
        and (until is None or row.created_at <= until)
    )


class Office:
    """All use-cases of this room, on the application `shop` at `NOW`."""

    def __init__(self, database: Database) -> None:
        self.store = Store(database)
        self.peers = PaperPeers()
        self.executors = MemoryExecutors()
        self.clock = FakeClock(NOW)
        self.diagnosis = Diagnosis(
            store=self.store,
            executors=self.executors,
            peers=self.peers,
            settings=make_settings(),
            clock=self.clock,
        )

    async def open(self) -> None:
        async with self.store.write() as work:
            await work.organizations.ensure(LOCAL_ORGANIZATION)
            await work.applications.insert(make_application())

    async def add(self, *records: ExecutorRecord | RecoveryRecord) -> None:
        """Rows of executors and of the ledger."""
        async with self.store.write() as work:
            for record in records:
                if isinstance(record, ExecutorRecord):
                    await work.executors.insert(record)
                else:
                    await work.recoveries.insert(record)

    def hold(self, *rows: WorkflowRow) -> None:
        """Put workflows into the database of the executors."""
        self.executors.rows += rows


def later(row: WorkflowRow, seconds: float) -> WorkflowRow:
    """The same workflow, created that much later."""
    return replace(row, created_at=row.created_at + timedelta(seconds=seconds))


TIMEOUT = ReplyTimeoutError(ExecutorId("e1"), timedelta(seconds=10), delivered=True)
