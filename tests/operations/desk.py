"""The use-cases on a real store, and executors that say what a test wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from relay.access import LOCAL_PRINCIPAL, Principal
from relay.audit import AuditWriter
from relay.db import Database
from relay.dispatch import Repeat
from relay.ids import ApplicationId, AppName
from relay.operations.asking import Executors
from relay.operations.changes import WorkflowChanges
from relay.operations.clerk import Clerk
from relay.operations.queues import Queues
from relay.operations.schedules import Schedules
from relay.operations.versions import Versions
from relay.operations.workflows import Workflows
from relay.protocol import Request
from relay.protocol.queues import QueueRow
from relay.protocol.schedules import ScheduleRow
from relay.protocol.versions import ListApplicationVersionsRequest, VersionRow
from relay.protocol.workflows import StepRow, WorkflowRow
from relay.records import ApplicationRecord, AuditRecord
from relay.registry import LOCAL_ORGANIZATION, Actor
from relay.registry.lookup import ApplicationLookup
from relay.store import Store
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.recovery.records import SHOP, make_application

ReplyT = TypeVar("ReplyT")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = timedelta(minutes=5)
ANN = Actor(LOCAL_PRINCIPAL, "192.0.2.1")
LIMITED = Actor(
    Principal(
        kind="api_key",
        id="key-1",
        display="limited",
        permissions=frozenset(),
        application_ids=frozenset({ApplicationId("app-shop")}),
        is_operator=False,
    ),
    "192.0.2.2",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and how it was to be asked."""

    how: str
    request: Any
    options: Mapping[str, Any] = field(default_factory=dict)


class ScriptedExecutors(Executors):
    """
    Answers each kind of request with what `answers` holds for its message type.

    An exception is raised.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[Asked] = []

    async def read(
        self, application: ApplicationRecord, request: Request[ReplyT], **options: Any
    ) -> ReplyT:
        return self._answer("read", request, options)

    async def change(
        self,
        application: ApplicationRecord,
        request: Request[ReplyT],
        *,
        repeat: Repeat,
        **options: Any,
    ) -> ReplyT:
        return self._answer("change", request, {"repeat": repeat, **options})

    async def list_own_versions(
        self, application: ApplicationRecord
    ) -> Sequence[VersionRow]:
        return await self.read(application, ListApplicationVersionsRequest())

    def of(self, message_type: str) -> Sequence[Asked]:
        """What was asked with one message."""
        return [a for a in self.asked if a.request.message_type == message_type]

    def _answer(
        self, how: str, request: Request[ReplyT], options: Mapping[str, Any]
    ) -> ReplyT:
        self.asked.append(Asked(how, request, options))
        answer = self.answers[request.message_type]
        if isinstance(answer, Exception):
            raise answer
        return cast(ReplyT, answer)


class AttentiveLookup(ApplicationLookup):
    """One for whom the store may change behind its back, as tests do it."""

    async def find(self, name: AppName) -> ApplicationRecord | None:
        self.forget(name)
        return await super().find(name)


def make_clerk(store: Store) -> Clerk:
    """A clerk that reads what it is asked for each time."""
    lookup = AttentiveLookup(store, FakeClock())
    return Clerk(store, AuditWriter(Metrics()), lookup)


class Desk:
    """All use-cases, on the application `shop`."""

    def __init__(self, database: Database) -> None:
        self.store = Store(database)
        self.executors = ScriptedExecutors()
        clerk = make_clerk(self.store)
        executors = self.executors
        self.workflows = Workflows(clerk=clerk, executors=executors, slow=SLOW)
        self.changes = WorkflowChanges(clerk=clerk, executors=executors, slow=SLOW)
        self.queues = Queues(clerk=clerk, executors=executors)
        self.schedules = Schedules(clerk=clerk, executors=executors)
        self.versions = Versions(clerk=clerk, executors=executors)

    async def open(self) -> None:
        async with self.store.write() as work:
            await work.organizations.ensure(LOCAL_ORGANIZATION)
            await work.applications.insert(make_application())

    async def set(self, **changes: Any) -> None:
        """Other settings of the application."""
        async with self.store.write() as work:
            old = await work.applications.lock(LOCAL_ORGANIZATION, SHOP.name)
            assert old is not None
            assert await work.applications.update(replace(old, **changes))

    async def audit(self) -> Sequence[AuditRecord]:
        """All entries, newest first."""
        async with self.store.read() as work:
            return await work.audit.list_entries(LOCAL_ORGANIZATION, limit=100)


def workflow(workflow_id: str = "w1", **changes: Any) -> WorkflowRow:
    fields: dict[str, Any] = dict.fromkeys(WorkflowRow.__struct_fields__) | {
        "workflow_id": workflow_id,
        "status": "SUCCESS",
        "created_at": NOW,
        "updated_at": NOW,
        "priority": 0,
        "was_forked_from": False,
        "input": "in",
        "output": "out",
        "error": "why",
        "application_name": "shop",
    }
    return WorkflowRow(**{**fields, **changes})


def step(step_id: int = 1) -> StepRow:
    return StepRow(
        step_id=step_id,
        step_name="pack",
        output="out",
        error="why",
        child_workflow_id=None,
        started_at=NOW,
        completed_at=NOW,
    )


def queue(name: str = "jobs", owner: str | None = "shop") -> QueueRow:
    return QueueRow(
        name=name,
        concurrency=None,
        worker_concurrency=None,
        rate_limit_max=None,
        rate_limit_period_secs=None,
        priority_enabled=True,
        partition_queue=False,
        polling_interval_secs=1.0,
        application_name=owner,
    )


def schedule(name: str = "nightly", owner: str | None = "shop") -> ScheduleRow:
    return ScheduleRow(
        schedule_id="s1",
        schedule_name=name,
        workflow_name="pack",
        workflow_class=None,
        cron_expression="0 0 * * *",
        status="ACTIVE",
        context="secret",
        last_fired_at=None,
        automatic_backfill=False,
        cron_timezone=None,
        application_name=owner,
    )
