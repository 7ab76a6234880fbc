"""
What to do next about one workflow that is moved.

Pure: how far it is and what was just read come in, one action comes out. The reading is
repeated after each action, and what an executor said of its own doing counts for
nothing: so a step may be taken again after a crash, and is not taken twice.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from relay.ids import AppVersion, ExecutorId
from relay.migration.planning import (
    NOT_LOOKED,
    UNFINISHED,
    find_start_step,
    is_ours,
    refuse_start,
    refuse_unread,
)
from relay.protocol.workflows import StepRow, WorkflowRow
from relay.records import ItemState, MigrationItem, MigrationMethod

CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """From where to where the workflows of a migration go."""

    method: MigrationMethod
    executor_id: ExecutorId
    old_version: AppVersion
    app_version: AppVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """
    What was read of a workflow; `None` where there is none, or nobody was asked.

    `unread` is counted before the beginning, where somebody may be asked and can tell;
    `copy` is looked for in forks only, `steps` until it is certain where it goes on.
    """

    row: WorkflowRow | None
    copy: WorkflowRow | None = None
    steps: tuple[StepRow, ...] = ()
    unread: int | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """
    Note that it is about to be moved, unless the recovery is no longer ours.

    `remark` is what is to be told of it when it has moved.
    """

    state: ItemState
    start_step: int
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """Note how far it is, and where it goes on, if that was seen anew."""

    state: ItemState
    start_step: int | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Have it cancelled."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """Have it rewound to the new version."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Have its copy made."""


@dataclass(frozen=True, slots=True)
class End:
    """Note what became of it."""

    state: ItemState
    reason: str | None = None


Message: TypeAlias = Cancel | Rewind | Fork
"""What an executor is asked to do."""

Action: TypeAlias = Begin | Advance | Message | End


def decide(move: Move, item: MigrationItem, sight: Sight) -> Action:
    """The next action about an item that is open."""
    match item.state:
        case ItemState.PLANNED:
            return _begin(move, sight)
        case ItemState.FORKING:
            return _fork(move, item, sight)
        case ItemState.CANCELLING if move.method is MigrationMethod.FORK:
            return _cancel_original(item, sight)
        case ItemState.CANCELLING:
            return _cancel(move, sight)
        case ItemState.REWINDING:
            return _rewind(move, item, sight)
        case ItemState.MOVED | ItemState.SKIPPED | ItemState.REFUSED | ItemState.FAILED:
            raise AssertionError("an item that is closed needs nothing")
        case _:
            assert_never(item.state)


def _begin(move: Move, sight: Sight) -> Action:
    if (skip := _skip(move, sight.row)) is not None:
        return skip
    if sight.unread:
        return End(ItemState.REFUSED, refuse_unread(sight.unread))
    start_step = find_start_step(sight.steps)
    if (reason := refuse_start(start_step)) is not None:
        return End(ItemState.REFUSED, reason)
    is_rewind = move.method is MigrationMethod.REWIND
    return Begin(
        ItemState.CANCELLING if is_rewind else ItemState.FORKING,
        start_step,
        NOT_LOOKED if sight.unread is None else None,
    )


def _cancel(move: Move, sight: Sight) -> Action:
    if sight.row is not None and sight.row.status == CANCELLED:
        # Its executor may have come back, and have worked until it was cancelled.
        return Advance(ItemState.REWINDING, find_start_step(sight.steps))
    return _skip(move, sight.row) or Cancel()


def _rewind(move: Move, item: MigrationItem, sight: Sight) -> Action:
    row = sight.row
    if row is None:
        return End(ItemState.FAILED, "it was deleted after it had been cancelled")
    # Nothing but our rewind gives it that version.
    if row.app_version == move.app_version:
        return End(ItemState.MOVED, item.reason)
    if row.status == CANCELLED:
        return Rewind()
    told = f"it was resumed after it had been cancelled: it is {row.status}"
    if row.status in UNFINISHED:
        # Perhaps by us, just before a crash. Its parents must not go on without it.
        return End(ItemState.FAILED, f"{told} for version {row.app_version} again")
    return End(ItemState.SKIPPED, told)


def _fork(move: Move, item: MigrationItem, sight: Sight) -> Action:
    if sight.copy is not None:
        return Advance(ItemState.CANCELLING)
    if (skip := _skip(move, sight.row)) is not None:
        return skip
    start_step = find_start_step(sight.steps)
    if start_step != item.start_step:
        return Advance(ItemState.FORKING, start_step)
    return Fork()


def _cancel_original(item: MigrationItem, sight: Sight) -> Action:
    row = sight.row
    if row is None or row.status == CANCELLED:
        return End(ItemState.MOVED, item.reason)
    if row.status in UNFINISHED:
        return Cancel()
    return End(
        ItemState.FAILED,
        f"it became {row.status} although its copy {item.new_workflow_id} had been"
        " made: its work is done twice",
    )


def _skip(move: Move, row: WorkflowRow | None) -> End | None:
    """Why nothing is to be done about a workflow that has not been touched yet."""
    if row is None:
        reason = "it is no longer there"
    elif row.status not in UNFINISHED:
        reason = f"it has ended: {row.status}"
    elif row.app_version != move.old_version:
        reason = f"it has version {row.app_version} now"
    elif not is_ours(row, move.executor_id, move.old_version):
        reason = f"it is owned by executor {row.executor_id} now"
    else:
        return None
    return End(ItemState.SKIPPED, reason)
