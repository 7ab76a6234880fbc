"""
Why an enqueued workflow is not started: its queue, and the limits of it.

Pure. The limits are looked at in the order in which the SDKs do: of an executor, of the
rate, of the queue. What cannot be checked is told beside what is found; whether an
executor listens to the queue at all is told by no SDK.

An SDK counts what runs in its own process; here it is what is pending in the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from relay.diagnosis.facts import Facts, QueueStanding, Running
from relay.diagnosis.findings import (
    Code,
    Finding,
    Gap,
    known,
    say_count,
    say_instant,
)
from relay.ids import AppVersion, ExecutorId
from relay.protocol.queues import Limits, QueueLimits
from relay.protocol.workflows import WorkflowRow

UNLIMITED: Final = "_dbos_internal_queue"
"""The queue of every SDK for what was resumed, forked or recovered; it has no limit."""

_SHOWN: Final = 10

_LONGEST_PERIOD_SECS: Final = 1e8
"""Three years; an executor may say anything that is a number."""


@dataclass(slots=True)
class _Doubts:
    """What could not be checked, in words."""

    reasons: list[str] = field(default_factory=list)

    def add(self, what: str, gap: Gap) -> None:
        self.reasons.append(f"{what} ({gap.reason})")

    def tell(self) -> str:
        return f" Not known: {'; '.join(self.reasons)}." if self.reasons else ""

    def details(self) -> Mapping[str, object]:
        return known(unknown=list(self.reasons) or None)


def judge_place(
    workflow: WorkflowRow, queue: QueueStanding, facts: Facts, takers: Sequence[str]
) -> Finding:
    """
    Why this enqueued workflow is not started.

    Args:
        takers: the connected executors that may take it.
    """
    doubts = _Doubts()
    match queue.limits:
        case QueueLimits() as limits:
            finding = _judge_limits(workflow, queue, limits, facts, takers, doubts)
            if finding is not None:
                return finding
        case Gap() as gap:
            doubts.add("the limits of the queue", gap)
        case None if queue.name != UNLIMITED:
            reason = "it is not stored in the database, its limits stand in the code"
            doubts.add("the limits of the queue", Gap(reason))
        case None:
            pass
    return _waits(workflow, queue, doubts)


def _judge_limits(
    workflow: WorkflowRow,
    queue: QueueStanding,
    limits: QueueLimits,
    facts: Facts,
    takers: Sequence[str],
    doubts: _Doubts,
) -> Finding | None:
    in_partition = workflow.queue_partition_key is not None
    checks: list[tuple[Limits, Running | Gap, str]] = [
        (limits.whole, queue.running, "")
    ]
    if in_partition:
        checks.append((limits.partition, queue.partition_running, "partition"))
    for bounds, running, scope in checks:
        if finding := _judge_workers(queue, bounds, running, scope, takers, doubts):
            return finding
    if finding := _judge_rate(queue, limits, facts, doubts, in_partition=in_partition):
        return finding
    for bounds, running, scope in checks:
        if finding := _judge_concurrency(queue, bounds, running, scope, doubts):
            return finding
    return None


def _judge_workers(
    queue: QueueStanding,
    bounds: Limits,
    running: Running | Gap,
    scope: str,
    takers: Sequence[str],
    doubts: _Doubts,
) -> Finding | None:
    most = bounds.worker_concurrency
    if most is None or not takers:
        return None
    if isinstance(running, Gap):
        doubts.add("what runs in each executor", running)
        return None
    if any(running.by_executor.get(name, 0) < most for name in takers):
        if not running.is_complete:
            doubts.add("what runs in each executor", Gap("too many to be counted"))
        return None
    return Finding(
        Code.QUEUE_FULL,
        f"{_say_takers(takers, queue.name)} runs {most} of {_whose(scope)} already,"
        " which is the limit for one executor.",
        _full(queue, "worker", scope, most, running),
    )


def _judge_concurrency(
    queue: QueueStanding,
    bounds: Limits,
    running: Running | Gap,
    scope: str,
    doubts: _Doubts,
) -> Finding | None:
    most = bounds.concurrency
    if most is None:
        return None
    if isinstance(running, Gap):
        doubts.add(f"how many of {_whose(scope)} run", running)
        return None
    if running.total < most:
        if not running.is_complete:
            doubts.add(f"how many of {_whose(scope)} run", Gap("too many to count"))
        return None
    where = (
        f"Its partition of queue {queue.name!r}" if scope else f"Queue {queue.name!r}"
    )
    return Finding(
        Code.QUEUE_FULL,
        f"{where} is at its limit: {running.total} of {most} run.",
        _full(queue, scope or "global", "", most, running),
    )


def _judge_rate(
    queue: QueueStanding,
    limits: QueueLimits,
    facts: Facts,
    doubts: _Doubts,
    *,
    in_partition: bool,
) -> Finding | None:
    if in_partition and limits.partition.rate_max is not None:
        doubts.add(
            "whether the rate limit of its partition is spent",
            Gap("executors count starts by queue, not by partition"),
        )
    most, period = limits.whole.rate_max, find_period(limits.whole)
    if most is None or period is None:
        return None
    if isinstance(queue.started, Gap):
        doubts.add("whether the rate limit is spent", queue.started)
        return None
    if queue.started < most:
        return None
    latest, period_secs = facts.now + period, limits.whole.rate_period_secs
    if queue.slot_at is not None:
        when = f"the next one may start at {say_instant(queue.slot_at)}"
    else:
        when = f"all of them have left that time by {say_instant(latest)}"
    return Finding(
        Code.RATE_LIMITED,
        f"The rate limit of queue {queue.name!r} is spent: {queue.started} were started"
        f" within {period_secs:g} s, and {most} may be; {when}.",
        known(
            queueName=queue.name,
            started=queue.started,
            rateLimitMax=most,
            rateLimitPeriodSecs=period_secs,
            until=queue.slot_at or latest,
            ahead=None if isinstance(queue.ahead, Gap) else queue.ahead,
        ),
    )


def _waits(workflow: WorkflowRow, queue: QueueStanding, doubts: _Doubts) -> Finding:
    ahead = queue.ahead
    if isinstance(ahead, Gap):
        doubts.add("how many are ahead of it", ahead)
        sentence = f"It waits in queue {queue.name!r}."
    elif ahead:
        older = say_count(ahead, "older workflow")
        sentence = f"It waits in queue {queue.name!r} behind {older}."
    else:
        sentence = (
            f"It waits in queue {queue.name!r}, where none is older; whether an"
            " executor listens to that queue is not told to Relay."
        )
    if isinstance(queue.limits, QueueLimits) and queue.limits.priority_enabled:
        if workflow.priority > 0:
            sentence += " Those with a smaller priority number go first, old or not."
        elif not isinstance(ahead, Gap) and ahead:
            sentence += " It goes before those that have a priority number."
    return Finding(
        Code.QUEUE_WAITING,
        sentence + doubts.tell(),
        {
            **known(
                queueName=queue.name,
                ahead=None if isinstance(ahead, Gap) else ahead,
                priority=workflow.priority or None,
                partitionKey=workflow.queue_partition_key,
            ),
            **doubts.details(),
        },
        workflow.created_at,
    )


def _full(
    queue: QueueStanding, limit: str, scope: str, most: int, running: Running
) -> Mapping[str, object]:
    holders = sorted(running.by_executor.items(), key=lambda item: (-item[1], item[0]))
    return known(
        queueName=queue.name,
        limit=limit,
        scope=scope or None,
        most=most,
        running=running.total,
        runningIn=[
            {"executorId": name, "count": count} for name, count in holders[:_SHOWN]
        ],
        ahead=None if isinstance(queue.ahead, Gap) else queue.ahead,
    )


def _say_takers(takers: Sequence[str], queue: str) -> str:
    that_may = f"that may take it from queue {queue!r}"
    if len(takers) == 1:
        return f"Executor {takers[0]}, the only one {that_may},"
    return f"Each of the {len(takers)} executors {that_may}"


def _whose(scope: str) -> str:
    return "its partition" if scope else "the queue"


def find_period(limits: Limits) -> timedelta | None:
    """The span of a rate limit; `None` if there is no such limit."""
    seconds = limits.rate_period_secs
    if limits.rate_max is None or seconds is None or seconds <= 0:
        return None
    return timedelta(seconds=min(seconds, _LONGEST_PERIOD_SECS))


def list_takers(workflow: WorkflowRow, facts: Facts) -> Sequence[ExecutorId]:
    """
    The connected executors that may take an enqueued workflow.

    One without a version is taken by those of the latest; if that is not known, any
    may be the one.
    """
    wanted: str | Gap | None = workflow.app_version or facts.latest
    if isinstance(wanted, str):
        return facts.live.get(AppVersion(wanted), ())
    return [name for names in facts.live.values() for name in names]
