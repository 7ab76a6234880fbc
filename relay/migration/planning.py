"""
Which workflows are moved, in which order, and which must not be.

Pure: facts that executors told come in, items come out.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from relay.ids import AppVersion, ExecutorId, MigrationId, WorkflowId
from relay.operations.scope import is_foreign
from relay.protocol.workflow_orders import START_STEP_LIMIT
from relay.protocol.workflows import StepRow, WorkflowRow
from relay.records import ApplicationRecord, ItemState, MigrationItem, MigrationMethod

PENDING: Final = "PENDING"
WAITING: Final = ("ENQUEUED", "DELAYED")
UNFINISHED: Final = (PENDING, *WAITING)

NOT_LOOKED: Final = (
    "Relay could not look whether messages wait for it; a move loses those that do"
)
"""
Of what is moved although nobody may be asked for messages, or nobody knows of them.

True before the move and after it: it stays on the item.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFacts:
    """
    A workflow that may be moved.

    `started` are the workflows that its steps tell of having started. `unread` is how
    many messages were sent to it that it has not received; `None` when nobody could be
    asked. `is_crowded` tells that it may have more children than were read.
    """

    # Not the steps themselves: there may be thousands of each of thousands.
    row: WorkflowRow
    start_step: int
    started: Sequence[str]
    unread: int | None
    is_crowded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    Everything that a plan rests on.

    Attributes:
        executor_id: whose pending work is moved.
        app_version: the version that the work has.
        live_versions: those of the connected executors.
        dead: the owners among the relatives' that are DEAD.
        members: what may be moved, oldest first, by workflow id.
        relatives: parents and children of the members that are not members.
    """

    application: ApplicationRecord
    method: MigrationMethod
    executor_id: ExecutorId
    app_version: AppVersion
    live_versions: AbstractSet[str]
    dead: AbstractSet[str]
    members: Mapping[str, WorkflowFacts]
    relatives: Mapping[str, WorkflowRow] = field(default_factory=dict)


def find_start_step(steps: Sequence[StepRow]) -> int:
    """
    The first step that is run again: the one after the last that was recorded.

    Whatever was recorded is kept, as in an ordinary recovery, also above a step that is
    missing: steps may run side by side, and one that waits records its time-out behind
    itself. 0 is "from the beginning" in every SDK, whatever it counts from.

    Source: docs/adr/0017.
    """
    return max((step.step_id + 1 for step in steps), default=0)


def is_ours(row: WorkflowRow, executor_id: ExecutorId, app_version: AppVersion) -> bool:
    """Whether a workflow is stranded work: nobody runs it, and nobody will."""
    return row.app_version == app_version and (
        row.status in WAITING
        or (row.status == PENDING and row.executor_id == executor_id)
    )


def list_started(steps: Sequence[StepRow]) -> Sequence[str]:
    """The workflows that steps have started, each once."""
    started = (step.child_workflow_id for step in steps)
    return tuple(dict.fromkeys(id_ for id_ in started if id_))


def list_relatives(facts: WorkflowFacts) -> Iterator[str]:
    """The ids that a workflow names itself: its parent, and whom its steps started."""
    if facts.row.parent_workflow_id:
        yield facts.row.parent_workflow_id
    yield from facts.started


def make_plan(
    situation: Situation, migration_id: MigrationId
) -> Sequence[MigrationItem]:
    """
    An item for each member, children before their parents.

    Families move whole or not at all: where one is refused, so are its relatives.
    """
    children = _find_children(situation)
    within = {
        id_: [child for child in children[id_] if child in situation.members]
        for id_ in situation.members
    }
    refusals = {
        id_: reason
        for id_, facts in situation.members.items()
        if (reason := _refuse(situation, facts, children[id_])) is not None
    }
    refusals |= _spread(refusals, within)
    return [
        _to_item(situation, id_, position, within[id_], refusals.get(id_), migration_id)
        for position, id_ in enumerate(_in_order(within))
    ]


def _find_children(situation: Situation) -> Mapping[str, Sequence[str]]:
    """The known children of each member, finished ones included."""
    found: dict[str, dict[str, None]] = {id_: {} for id_ in situation.members}
    for id_, facts in situation.members.items():
        found[id_] |= {child: None for child in facts.started if child != id_}
    rows = [facts.row for facts in situation.members.values()]
    for row in (*rows, *situation.relatives.values()):
        if row.parent_workflow_id in found:
            found[row.parent_workflow_id][row.workflow_id] = None
    return {id_: tuple(children) for id_, children in found.items()}


def _refuse(
    situation: Situation, facts: WorkflowFacts, children: Sequence[str]
) -> str | None:
    """Why a member cannot be moved; `None` if it can."""
    if facts.unread:
        return refuse_unread(facts.unread)
    if (reason := refuse_start(facts.start_step)) is not None:
        return reason
    if facts.is_crowded:
        return "it has more children than can be moved at once"
    reason = _refuse_for_parent(situation, facts.row.parent_workflow_id)
    if reason is not None:
        return reason
    for id_ in children:
        reason = _refuse_for_child(situation, id_)
        if reason is not None:
            return reason
    return None


def refuse_start(start_step: int) -> str | None:
    """Why a workflow whose steps have such numbers is left alone; `None` if not."""
    if 0 <= start_step <= START_STEP_LIMIT:
        return None
    return f"it would go on from step {start_step}, which no SDK can be told"


def refuse_unread(unread: int) -> str:
    """Why a workflow with messages waiting for it is left where it is."""
    messages = "a message" if unread == 1 else f"{unread} messages"
    return f"it has {messages} that it has not received yet, which a move would lose"


def _refuse_for_parent(situation: Situation, parent_id: str | None) -> str | None:
    parent = _find_unfinished(situation, parent_id)
    if parent is None:
        return None
    if situation.method is MigrationMethod.FORK:
        return (
            f"its parent {parent_id} waits for this id, and the connected SDKs can only"
            " move it to a new one"
        )
    if parent_id in situation.members:
        return None
    if is_foreign(parent.application_name, situation.application):
        return f"its parent {parent_id} belongs to another application"
    if is_ours(parent, situation.executor_id, situation.app_version):
        return f"its parent {parent_id} is beyond what can be moved at once"
    is_dormant = (
        parent.status == PENDING
        and parent.executor_id in situation.dead
        and parent.app_version not in situation.live_versions
    )
    if is_dormant:
        return None
    return f"its parent {parent_id} may run, and would see it cancelled"


def _refuse_for_child(situation: Situation, child_id: str) -> str | None:
    child = _find_unfinished(situation, child_id)
    if child is None:
        return None
    if situation.method is MigrationMethod.FORK:
        return f"it waits for its child {child_id}, which is not finished"
    if child_id in situation.members:
        return None
    if is_foreign(child.application_name, situation.application):
        return None
    if not child.app_version or child.app_version in situation.live_versions:
        return None
    if is_ours(child, situation.executor_id, situation.app_version):
        return f"its child {child_id} is beyond what can be moved at once"
    where = f" in executor {child.executor_id}" if child.status == PENDING else ""
    return (
        f"its child {child_id} is {child.status}{where} with version"
        f" {child.app_version}, which no executor has; it has to be moved first"
    )


def _find_unfinished(situation: Situation, id_: str | None) -> WorkflowRow | None:
    if id_ is None:
        return None
    member = situation.members.get(id_)
    row = member.row if member else situation.relatives.get(id_)
    return row if row is not None and row.status in UNFINISHED else None


def _spread(
    refusals: Mapping[str, str], within: Mapping[str, Sequence[str]]
) -> Mapping[str, str]:
    """The refusals of all who are in one family with somebody who is refused."""
    neighbours: dict[str, list[str]] = {id_: list(ids) for id_, ids in within.items()}
    for id_, ids in within.items():
        for child in ids:
            neighbours[child].append(id_)
    spread: dict[str, str] = {}
    waiting = list(refusals)
    while waiting:
        origin = waiting.pop()
        for id_ in neighbours[origin]:
            if id_ not in refusals and id_ not in spread:
                spread[id_] = f"{origin} of its family cannot be moved"
                waiting.append(id_)
    return spread


def _in_order(within: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """All ids, children first; otherwise in their order."""
    seen: set[str] = set()
    for root in within:
        stack = [(root, False)]
        while stack:
            id_, are_children_done = stack.pop()
            if are_children_done:
                yield id_
            elif id_ not in seen:
                seen.add(id_)
                stack.append((id_, True))
                stack.extend((child, False) for child in reversed(within[id_]))


def _to_item(
    situation: Situation,
    id_: str,
    position: int,
    children: Sequence[str],
    refusal: str | None,
    migration_id: MigrationId,
) -> MigrationItem:
    facts = situation.members[id_]
    row = facts.row
    item = MigrationItem(
        migration_id=migration_id,
        position=position,
        workflow_id=WorkflowId(id_),
        name=row.workflow_name,
        state=ItemState.PLANNED,
        start_step=facts.start_step,
        new_workflow_id=None,
        queue_name=row.queue_name,
        queue_partition_key=row.queue_partition_key,
        children=tuple(WorkflowId(child) for child in children),
        reason=None,
    )
    if refusal is not None:
        return replace(item, state=ItemState.REFUSED, reason=refusal)
    if facts.unread is None:
        return replace(item, reason=NOT_LOOKED)
    return item
