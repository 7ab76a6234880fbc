"""What to do next about one workflow, case by case."""

from typing import Any

import pytest

from relay.migration.planning import NOT_LOOKED
from relay.migration.steps import (
    Action,
    Advance,
    Begin,
    Cancel,
    End,
    Fork,
    Rewind,
    Sight,
    decide,
)
from relay.protocol.workflow_orders import START_STEP_LIMIT
from relay.protocol.workflows import WorkflowRow
from relay.records import ItemState, MigrationMethod
from tests.migration.facts import FORK, REWIND, enqueued, item, move, pending, recorded

PLANNED, FORKING, CANCELLING, REWINDING = (
    ItemState.PLANNED,
    ItemState.FORKING,
    ItemState.CANCELLING,
    ItemState.REWINDING,
)
MOVED, SKIPPED, REFUSED, FAILED = (
    ItemState.MOVED,
    ItemState.SKIPPED,
    ItemState.REFUSED,
    ItemState.FAILED,
)
CANCELLED = pending(status="CANCELLED")
COPY = enqueued("copy", app_version="v2")


def after(
    state: ItemState,
    row: WorkflowRow | None,
    method: MigrationMethod = REWIND,
    **sight: Any,
) -> Action:
    """The action about a workflow that has got so far and is read so."""
    wanted = item(state, new_workflow_id="copy" if method is FORK else None)
    return decide(move(method), wanted, Sight(row=row, **sight))


def ended(action: Action, state: ItemState, said: str) -> bool:
    """Whether it is over, with this end and such a reason."""
    return (
        isinstance(action, End)
        and action.state is state
        and said in (action.reason or "")
    )


# --- before anything is done ---------------------------------------------------------


@pytest.mark.parametrize(("method", "state"), [(REWIND, CANCELLING), (FORK, FORKING)])
@pytest.mark.parametrize("row", [pending(), enqueued("w")])
def test_what_is_stranded_still_is_begun(
    method: MigrationMethod, state: ItemState, row: WorkflowRow
) -> None:
    """From the step that is missing now, not when it was planned."""
    steps = recorded(None, None, None, None)

    assert after(PLANNED, row, method, steps=steps, unread=0) == Begin(state, 5)


def test_a_move_before_which_nobody_could_look_for_messages_is_remarked() -> None:
    action = after(PLANNED, pending(), unread=None)

    assert action == Begin(CANCELLING, 0, NOT_LOOKED)


@pytest.mark.parametrize(
    ("state", "method", "row"),
    [
        (REWINDING, REWIND, enqueued("w", app_version="v2")),
        (CANCELLING, FORK, CANCELLED),
    ],
)
def test_a_remark_stays_when_the_workflow_has_moved(
    state: ItemState, method: MigrationMethod, row: WorkflowRow
) -> None:
    remarked = item(state, new_workflow_id="copy", reason=NOT_LOOKED)

    assert decide(move(method), remarked, Sight(row=row)) == End(MOVED, NOT_LOOKED)


@pytest.mark.parametrize("method", [REWIND, FORK])
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (None, "no longer there"),
        (pending(status="SUCCESS"), "has ended: SUCCESS"),
        (pending(status="CANCELLED"), "has ended: CANCELLED"),
        (pending(executor_id="e9"), "owned by executor e9 now"),
        (pending(app_version="v3"), "has version v3 now"),
    ],
)
def test_what_is_no_longer_stranded_is_skipped(
    method: MigrationMethod, row: WorkflowRow | None, said: str
) -> None:
    assert ended(after(PLANNED, row, method), SKIPPED, said)


@pytest.mark.parametrize("method", [REWIND, FORK])
def test_a_message_that_came_since_the_plan_refuses_the_move(
    method: MigrationMethod,
) -> None:
    assert ended(after(PLANNED, pending(), method, unread=1), REFUSED, "a message")


@pytest.mark.parametrize("first", [-7, START_STEP_LIMIT])
@pytest.mark.parametrize("method", [REWIND, FORK])
def test_what_would_go_on_where_no_sdk_can_is_not_even_cancelled(
    method: MigrationMethod, first: int
) -> None:
    steps = recorded(None, first=first)

    assert ended(after(PLANNED, pending(), method, steps=steps), REFUSED, "step")


# --- rewinding -----------------------------------------------------------------------


def test_it_is_cancelled_first() -> None:
    assert after(CANCELLING, pending()) == Cancel()


def test_once_it_is_seen_cancelled_it_is_rewound() -> None:
    """To what is recorded then: it may have run until it was cancelled."""
    steps = recorded(None, None, None)

    assert after(CANCELLING, CANCELLED, steps=steps) == Advance(REWINDING, 4)
    assert after(REWINDING, CANCELLED) == Rewind()


@pytest.mark.parametrize(
    "row", [None, pending(status="SUCCESS"), pending(executor_id="e9")]
)
def test_what_nobody_cancelled_yet_may_still_be_left_alone(
    row: WorkflowRow | None,
) -> None:
    """It ended, or somebody else has taken it over since."""
    assert ended(after(CANCELLING, row), SKIPPED, "")


@pytest.mark.parametrize("status", ["ENQUEUED", "PENDING", "SUCCESS", "CANCELLED"])
def test_the_new_version_proves_the_move(status: str) -> None:
    """Whatever became of it since: it runs, has ended, or was cancelled again."""
    row = pending(status=status, app_version="v2", executor_id="e2")

    assert after(REWINDING, row) == End(MOVED)


def test_what_was_resumed_in_the_middle_waits_for_its_old_version() -> None:
    """By an operator, or by Relay before a crash: it was not moved, nor are parents."""
    assert ended(after(REWINDING, enqueued("w")), FAILED, "ENQUEUED for version v1")


def test_what_was_resumed_and_has_ended_is_left_as_it_is() -> None:
    """Its parents find its result."""
    assert ended(after(REWINDING, pending(status="SUCCESS")), SKIPPED, "SUCCESS")


def test_what_was_deleted_in_the_middle_has_failed() -> None:
    assert ended(after(REWINDING, None), FAILED, "deleted")


# --- copying -------------------------------------------------------------------------


def test_the_copy_is_made_first() -> None:
    """From what is recorded then."""
    as_planned, more = recorded(None, None), recorded(None, None, None)

    assert after(FORKING, pending(), FORK, steps=as_planned) == Fork()
    assert after(FORKING, pending(), FORK, steps=more) == Advance(FORKING, 4)


@pytest.mark.parametrize("row", [pending(), CANCELLED, None])
def test_once_the_copy_is_seen_the_original_is_cancelled(
    row: WorkflowRow | None,
) -> None:
    assert after(FORKING, row, FORK, copy=COPY) == Advance(CANCELLING)


def test_no_copy_is_made_of_what_is_no_longer_stranded() -> None:
    assert ended(after(FORKING, pending(status="SUCCESS"), FORK), SKIPPED, "ended")


@pytest.mark.parametrize("row", [pending(), pending(executor_id="e9"), enqueued("w")])
def test_an_original_is_cancelled_whoever_has_it(row: WorkflowRow) -> None:
    """Its work would be done twice."""
    assert after(CANCELLING, row, FORK, copy=COPY) == Cancel()


@pytest.mark.parametrize("row", [CANCELLED, None])
def test_with_its_original_gone_a_copy_has_moved(row: WorkflowRow | None) -> None:
    assert after(CANCELLING, row, FORK, copy=COPY) == End(MOVED)


def test_an_original_that_ended_beside_its_copy_is_told() -> None:
    action = after(CANCELLING, pending(status="SUCCESS"), FORK, copy=COPY)

    assert ended(action, FAILED, "done twice")


@pytest.mark.parametrize("state", [MOVED, SKIPPED, REFUSED, FAILED])
def test_an_item_that_is_over_is_over(state: ItemState) -> None:
    with pytest.raises(AssertionError):
        after(state, pending())
