"""Gathers what is known of the versions of an application."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from relay.diagnosis.drain import DrainFacts, VersionCrew, VersionWork
from relay.diagnosis.findings import Gap
from relay.diagnosis.policy import DELAYED, ENQUEUED, PENDING, UNFINISHED
from relay.diagnosis.ports import LivePeers
from relay.diagnosis.questions import Questions
from relay.ids import ApplicationRef, AppVersion
from relay.liveness.states import ExecutorStatus
from relay.protocol.statistics import (
    WorkflowAggregatesRequest,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.protocol.workflows import WorkflowFilter
from relay.records import OPEN_STATES, ExecutorRecord
from relay.registry.executors import PAGE
from relay.store import Store
from relay.store.executors import ExecutorKey

_RECOVERIES: Final = 1000
"""Open ones that are looked at; the work of all others is pending, and counted."""


async def gather_drain(
    store: Store, peers: LivePeers, application: ApplicationRef, questions: Questions
) -> DrainFacts:
    """What rows, sockets and one executor say; two questions."""
    work = await _count_work(questions, application)
    names = await find_versions(questions)
    async with store.read() as unit:
        recoveries = await unit.recoveries.list_by_application(
            application.id, states=OPEN_STATES, limit=_RECOVERIES, offset=0
        )
        dispute = await unit.disputes.find(application.id)
        statuses: dict[AppVersion, Counter[ExecutorStatus]] = defaultdict(Counter)
        seen: dict[AppVersion, datetime] = {}
        after: ExecutorKey | None = None
        is_last = False
        while not is_last:
            page = await unit.executors.list_by_application(
                application.id, after=after, limit=PAGE
            )
            for record in page:
                version = record.app_version
                statuses[version][record.status] += 1
                at = _last_seen(record, peers)
                seen[version] = max(seen.get(version, at), at)
            is_last = len(page) < PAGE
            after = page[-1].ref.key if page else None
    return DrainFacts(
        crews={
            version: VersionCrew(by_status=dict(counts), last_seen_at=seen.get(version))
            for version, counts in statuses.items()
        },
        work=work,
        names=names,
        recovering={record.app_version for record in recoveries},
        is_disputed=dispute is not None,
    )


async def find_versions(questions: Questions) -> Sequence[AppVersion] | Gap:
    """The application's own versions as its database lists them, the latest first."""
    rows = await questions.find_versions()
    if isinstance(rows, Gap):
        return rows
    return [AppVersion(row.version_name) for row in rows]


async def _count_work(
    questions: Questions, application: ApplicationRef
) -> Mapping[AppVersion | None, VersionWork] | Gap:
    rows = await questions.find(
        WorkflowAggregatesRequest(
            application=application.name,
            grouping=WorkflowGrouping(by_status=True, by_app_version=True),
            selection=WorkflowSelection(count=True),
            filter=WorkflowFilter(status=UNFINISHED),
        )
    )
    if isinstance(rows, Gap):
        return rows
    counts: dict[AppVersion | None, Counter[str]] = defaultdict(Counter)
    for row in rows:
        name = row.group.get("application_version")
        version = AppVersion(name) if name else None
        counts[version][row.group.get("status") or ""] += max(0, row.count or 0)
    return {
        version: VersionWork(
            pending=count[PENDING], enqueued=count[ENQUEUED], delayed=count[DELAYED]
        )
        for version, count in counts.items()
    }


def _last_seen(record: ExecutorRecord, peers: LivePeers) -> datetime:
    live = peers.find(record.ref)
    at = max(record.created_at, record.last_seen_at)
    return at if live is None else max(at, live.last_seen_at)
