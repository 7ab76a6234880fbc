"""
The crash brake: which workflows seem to kill their executors, and what is slowed down.

A workflow that kills its process is handed on and kills the next one. So a workflow
that was pending in three executors lost in a row, each soon after the workflow had been
handed on, is a suspect, and the rows of the ledger that hold one are ordered at growing
intervals. Spacing, not stopping: a rolling restart looks the same, and then costs
minutes, never the work.

Pure. It counts per workflow, whoever was ordered: where an SDK puts recovered work back
on a queue, any executor of the version may take it. What counts is the moment of the
loss, not that of the death a grace period later. How a connection was closed proves
nothing either way and is not consulted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from relay.ids import WorkflowId
from relay.records import RecoveryRecord, RecoveryState, WorkflowLossRecord

SUSPECT_LOSSES = 3
"""Executors lost in a row that make a suspect of what was pending in each of them."""

HANDED_ON_WITHIN = timedelta(seconds=120)
"""A loss later than this after the workflow was handed on is not held against it."""

ONE_LOSS_WITHIN = timedelta(seconds=10)
"""Losses no further apart are one: a machine that goes takes all its executors."""

SPACINGS = (timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=5))
"""Rests before the orders of a braked row, by its level; the last one for all later."""

COUNTED_FOR = timedelta(days=1)
"""How long a counter is kept after its last loss."""

COUNTED_ID_BYTES = 2048
"""Of a workflow's id in UTF-8: no index of PostgreSQL holds much more than that."""

Counters = Mapping[WorkflowId, WorkflowLossRecord]


def count_loss(
    record: RecoveryRecord, names: Mapping[WorkflowId, str], known: Counters
) -> Counters:
    """
    The counters of the workflows pending in `record`, its own loss included.

    Counting the same loss again changes nothing, so a question may be repeated.
    Workflows with endless ids are not counted.

    Args:
        names: workflow id to name, as far as the executors told them.
        known: the counters as they are; those of other workflows are ignored.
    """
    lost_at = record.lost_at
    if lost_at is None:
        return {id_: known[id_] for id_ in record.pending_ids if id_ in known}
    return {
        id_: _after_loss(known[id_], lost_at)
        if id_ in known
        else WorkflowLossRecord(
            application_id=record.executor.application.id,
            workflow_id=id_,
            name=names.get(id_),
            losses=1,
            last_lost_at=lost_at,
            handed_on_at=None,
        )
        for id_ in record.pending_ids
        if len(id_.encode()) <= COUNTED_ID_BYTES
    }


def find_suspects(counters: Counters) -> tuple[WorkflowId, ...]:
    """The ids that have been there too often, in the order of `counters`."""
    return tuple(
        id_ for id_, counter in counters.items() if counter.losses >= SUSPECT_LOSSES
    )


def applied(
    record: RecoveryRecord, counters: Counters, *, now: datetime
) -> RecoveryRecord:
    """
    The row with its suspects, now that the question has been answered.

    The first suspects put it to rest: BRAKED, and its attempt is over. A row that had
    some has had its rest, since this is when the question is asked again; it may be
    ordered. Without suspects the row is like any other.
    """
    suspects = find_suspects(counters)
    if not suspects:
        return replace(record, suspect_ids=(), brake_level=0)
    if record.suspect_ids:
        return replace(record, suspect_ids=suspects)
    losses = max(counters[id_].losses for id_ in suspects)
    level = min(losses - SUSPECT_LOSSES, len(SPACINGS) - 1)
    return replace(
        record,
        state=RecoveryState.BRAKED,
        claimed_by=None,
        next_attempt_at=now + spacing(level),
        suspect_ids=suspects,
        brake_level=level,
        reason=f"{_show(suspects)} pending in {losses} executors lost in a row",
    )


def spacing(level: int) -> timedelta:
    """The rest before the next order of a row at this level, counted from 0."""
    return SPACINGS[min(level, len(SPACINGS) - 1)]


def _after_loss(counter: WorkflowLossRecord, lost_at: datetime) -> WorkflowLossRecord:
    if lost_at <= counter.last_lost_at + ONE_LOSS_WITHIN:
        # The loss that was counted, or one with it. Its moment stays that of the first:
        # if it moved, executors dying every ten seconds would be one loss for ever.
        return counter
    handed_on_at = counter.handed_on_at
    # No order since the last loss means that somebody else moved the workflow. A loss
    # before the order was answered counts: the executor may have died of it.
    is_in_a_row = (
        handed_on_at is not None and lost_at <= handed_on_at + HANDED_ON_WITHIN
    )
    return replace(
        counter,
        losses=counter.losses + 1 if is_in_a_row else 1,
        last_lost_at=lost_at,
        handed_on_at=None,
    )


def _show(suspects: Iterable[WorkflowId]) -> str:
    first, *others = suspects
    more = f" and {len(others)} more were" if others else " was"
    return f"workflow {first}{more}"
