"""Gathers what is known of the queues that workflows wait in, for all at once."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, TypeVar

from relay.diagnosis.facts import QueueStanding, Running
from relay.diagnosis.findings import Gap
from relay.diagnosis.policy import DELAYED, ENQUEUED, PENDING
from relay.diagnosis.questions import Questions
from relay.diagnosis.queueing import find_period
from relay.ids import AppName
from relay.protocol.queues import Limits, ListQueueLimitsRequest, QueueLimits
from relay.protocol.rows import EPOCH
from relay.protocol.statistics import (
    AggregateRow,
    WorkflowAggregatesRequest,
    WorkflowGrouping,
    WorkflowSelection,
)
from relay.protocol.workflows import (
    SearchWorkflowsRequest,
    WorkflowFilter,
    WorkflowRow,
)

COUNTED_ROWS: Final = 1000
"""Pending workflows of partitions that are listed, for nobody counts by partition."""

MOST_PERIODS: Final = 3
"""Of the rate limits of one page, each of which takes a question."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_NOBODY: Final = ""

KeyT = TypeVar("KeyT")


class QueueFacts:
    """The queues of the enqueued workflows of one page."""

    def __init__(self, questions: Questions, application: AppName) -> None:
        self._questions = questions
        self._application = application

    async def gather(
        self, rows: Sequence[WorkflowRow], now: datetime
    ) -> Mapping[str, QueueStanding]:
        """
        What is known of the queue of each enqueued workflow, by the workflow's id.

        Args:
            rows: all that is not finished within a span of time, oldest first; or one.
        """
        waiting = [row for row in rows if row.status == ENQUEUED and row.queue_name]
        names = tuple(sorted({row.queue_name for row in waiting if row.queue_name}))
        if not names:
            return {}
        limits = await self._find_limits(names)
        stored = {} if isinstance(limits, Gap) else limits
        running = await self._count_running(names, stored.values())
        partitions = await self._count_partitions(stored.values(), waiting)
        started = await self._count_started(stored.values(), now)
        ahead = await self._count_ahead(names, waiting)
        slots: Mapping[str, datetime] = {}
        if len(rows) == 1:
            slots = await self._find_slots(stored.values(), started, now)
        standings: dict[str, QueueStanding] = {}
        for row in waiting:
            name = row.queue_name or _NOBODY
            partition = (name, row.queue_partition_key)
            standings[row.workflow_id] = QueueStanding(
                name=name,
                limits=limits if isinstance(limits, Gap) else limits.get(name),
                running=_pick(running, name),
                partition_running=_pick(partitions, partition),
                started=started.get(name, 0),
                ahead=ahead[row.workflow_id],
                slot_at=slots.get(name),
            )
        return standings

    async def _find_limits(
        self, names: Collection[str]
    ) -> Mapping[str, QueueLimits] | Gap:
        found = await self._questions.find(ListQueueLimitsRequest(self._application))
        if isinstance(found, Gap):
            return found
        # One's own comes before one of the same name that is nobody's.
        ranked = sorted(found, key=lambda limits: limits.application_name is not None)
        return {
            limits.name: limits
            for limits in ranked
            if limits.name in names
            and limits.application_name in (None, self._application)
        }

    async def _count_running(
        self, names: tuple[str, ...], limits: Collection[QueueLimits]
    ) -> Mapping[str, Running] | Gap:
        """What is pending in each queue; not asked where nothing limits it."""
        if not any(_bounds_running(each.whole) for each in limits):
            return {}
        rows = await self._count(
            WorkflowGrouping(by_queue_name=True, by_executor_id=True),
            WorkflowFilter(status=(PENDING,), queue_name=names),
        )
        if isinstance(rows, Gap):
            return rows
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in rows:
            executor = row.group.get("executor_id") or _NOBODY
            counts[_queue_of(row)][executor] += max(0, row.count or 0)
        return {name: Running(dict(count)) for name, count in counts.items()}

    async def _count_partitions(
        self, limits: Collection[QueueLimits], waiting: Sequence[WorkflowRow]
    ) -> Mapping[tuple[str, str | None], Running] | Gap:
        """What is pending in the partitions in which workflows wait."""
        names = {each.name for each in limits if _bounds_running(each.partition)}
        wanted = {
            (row.queue_name, row.queue_partition_key)
            for row in waiting
            if row.queue_name in names and row.queue_partition_key is not None
        }
        if not wanted:
            return {}
        rows = await self._questions.find(
            SearchWorkflowsRequest(
                filter=WorkflowFilter(
                    status=(PENDING,),
                    queue_name=tuple(sorted({name or "" for name, _ in wanted})),
                ),
                application=self._application,
                limit=COUNTED_ROWS + 1,
            )
        )
        if isinstance(rows, Gap):
            return rows
        counts: dict[tuple[str, str | None], Counter[str]] = {
            (name or _NOBODY, key): Counter() for name, key in wanted
        }
        for row in rows:
            count = counts.get((row.queue_name or _NOBODY, row.queue_partition_key))
            if count is not None:
                count[row.executor_id or _NOBODY] += 1
        is_complete = len(rows) <= COUNTED_ROWS
        return {key: Running(dict(count), is_complete) for key, count in counts.items()}

    async def _count_started(
        self, limits: Collection[QueueLimits], now: datetime
    ) -> Mapping[str, int | Gap]:
        """How many each queue with a rate limit has started within its period."""
        by_period: dict[timedelta, list[str]] = defaultdict(list)
        for each in limits:
            if (period := find_period(each.whole)) is not None:
                by_period[period].append(each.name)
        started: dict[str, int | Gap] = {}
        for number, (period, names) in enumerate(sorted(by_period.items())):
            if number >= MOST_PERIODS:
                gap = Gap("too many queues with different rate limits on one page")
                started |= dict.fromkeys(names, gap)
                continue
            rows = await self._count(
                WorkflowGrouping(by_queue_name=True, by_status=True),
                WorkflowFilter(
                    queue_name=tuple(sorted(names)),
                    dequeued_after=now - period,
                ),
            )
            if isinstance(rows, Gap):
                started |= dict.fromkeys(names, rows)
                continue
            counts: Counter[str] = Counter()
            for row in rows:
                if row.group.get("status") not in (ENQUEUED, DELAYED):
                    counts[_queue_of(row)] += max(0, row.count or 0)
            started |= {name: counts[name] for name in names}
        return started

    async def _find_slots(
        self,
        limits: Collection[QueueLimits],
        started: Mapping[str, int | Gap],
        now: datetime,
    ) -> Mapping[str, datetime]:
        """When the rate limit that is spent lets another one start."""
        for each in limits:
            most, period = each.whole.rate_max, find_period(each.whole)
            count = started.get(each.name, 0)
            if isinstance(count, Gap) or not most or period is None:
                continue
            if not most <= count <= COUNTED_ROWS:
                continue
            rows = await self._questions.find(
                SearchWorkflowsRequest(
                    filter=WorkflowFilter(
                        queue_name=(each.name,), dequeued_after=now - period
                    ),
                    application=self._application,
                    limit=COUNTED_ROWS + 1,
                )
            )
            if isinstance(rows, Gap) or len(rows) > COUNTED_ROWS:
                continue
            starts = sorted(
                # Its clock is not ours, and may say anything.
                min(row.dequeued_at, now + period)
                for row in rows
                if row.dequeued_at is not None and row.status not in (ENQUEUED, DELAYED)
            )
            if len(starts) >= most:
                return {each.name: starts[len(starts) - most] + period}
        return {}

    async def _count_ahead(
        self, names: tuple[str, ...], waiting: Sequence[WorkflowRow]
    ) -> Mapping[str, int | Gap]:
        """
        How many are older than each workflow, and wait for the same executors.

        What is older than all of them is counted by an executor; the rest is here. Some
        databases date to the second, and of equals nobody knows which goes first.
        """
        first = min(row.created_at for row in waiting)
        if first <= EPOCH:
            gap = Gap("an executor does not say when it was created")
            return {row.workflow_id: gap for row in waiting}
        older = await self._count(
            WorkflowGrouping(by_queue_name=True, by_app_version=True),
            WorkflowFilter(
                status=(ENQUEUED,), queue_name=names, end_time=first - _MILLISECOND
            ),
        )
        if isinstance(older, Gap):
            return {row.workflow_id: older for row in waiting}
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for group in older:
            version = group.group.get("application_version") or _NOBODY
            counts[_queue_of(group)][version] += max(0, group.count or 0)
        ahead: dict[str, int | Gap] = {}
        in_order = sorted(waiting, key=_age)
        for _, born_together in groupby(in_order, key=_age):
            equals = list(born_together)
            for row in equals:
                count = counts[row.queue_name or _NOBODY]
                version = row.app_version or _NOBODY
                ahead[row.workflow_id] = (
                    count[version] + count[_NOBODY] if version else sum(count.values())
                )
            for row in equals:
                counts[row.queue_name or _NOBODY][row.app_version or _NOBODY] += 1
        return ahead

    async def _count(
        self, grouping: WorkflowGrouping, matching: WorkflowFilter
    ) -> Sequence[AggregateRow] | Gap:
        return await self._questions.find(
            WorkflowAggregatesRequest(
                application=self._application,
                grouping=grouping,
                selection=WorkflowSelection(count=True),
                filter=matching,
            )
        )


def _bounds_running(limits: Limits) -> bool:
    return limits.concurrency is not None or limits.worker_concurrency is not None


def _age(row: WorkflowRow) -> datetime:
    return row.created_at


def _queue_of(row: AggregateRow) -> str:
    return row.group.get("queue_name") or _NOBODY


def _pick(running: Mapping[KeyT, Running] | Gap, key: KeyT) -> Running | Gap:
    return running if isinstance(running, Gap) else running.get(key, Running())
