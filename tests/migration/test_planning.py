"""Which workflows are moved, in which order, and which must not be."""

from collections.abc import Sequence
from typing import Any

import pytest

from relay.ids import AppVersion, ExecutorId, MigrationId
from relay.migration.planning import Situation, find_start_step, is_ours, make_plan
from relay.protocol.workflows import WorkflowRow
from relay.records import ItemState, MigrationItem
from tests.migration.facts import (
    FORK,
    enqueued,
    facts,
    pending,
    recorded,
    situation,
)

PLANNED, REFUSED = ItemState.PLANNED, ItemState.REFUSED


def plan(given: Situation) -> Sequence[MigrationItem]:
    return make_plan(given, MigrationId("m"))


def reasons(given: Situation) -> dict[str, str | None]:
    """Why each workflow is refused; `None` for those that are moved."""
    return {
        item.workflow_id: item.reason if item.state is REFUSED else None
        for item in plan(given)
    }


def ids(given: Situation) -> list[str]:
    return [item.workflow_id for item in plan(given)]


# --- where it goes on ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "start"), [((), 0), ((1, 2), 3), ((0, 1), 2), ((0,), 1), ((1, 2, 5), 6)]
)
def test_a_workflow_goes_on_after_its_last_recorded_step(
    numbers: Sequence[int], start: int
) -> None:
    """Also above a gap: what was recorded is not run again; 0 is the beginning."""
    steps = [step for n in numbers for step in recorded(None, first=n)]

    assert find_start_step(steps) == start


# --- whose it is ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (pending(), True),
        (enqueued("w"), True),
        (enqueued("w", status="DELAYED"), True),
        (pending(executor_id="other"), False),
        (pending(app_version="v2"), False),
        (enqueued("w", app_version=None), False),
        (pending(status="SUCCESS"), False),
        (pending(status="CANCELLED"), False),
    ],
)
def test_stranded_is_what_nobody_runs_and_nobody_will(
    row: WorkflowRow, expected: bool
) -> None:
    assert is_ours(row, ExecutorId("dead"), AppVersion("v1")) is expected


# --- one workflow --------------------------------------------------------------------


def test_an_item_holds_all_that_a_cancellation_would_take_away() -> None:
    row = pending(workflow_name="checkout", queue_name="jobs", queue_partition_key="eu")

    [item] = plan(situation(facts(row, None, None)))

    assert item == MigrationItem(
        migration_id=MigrationId("m"),
        position=0,
        workflow_id=item.workflow_id,
        name="checkout",
        state=PLANNED,
        start_step=3,
        new_workflow_id=None,
        queue_name="jobs",
        queue_partition_key="eu",
        children=(),
        reason=None,
    )


@pytest.mark.parametrize("method", [FORK, situation().method])
@pytest.mark.parametrize(
    ("unread", "said"), [(1, "has a message that"), (2, "has 2 messages that")]
)
def test_a_workflow_with_messages_it_has_not_received_is_refused(
    method: Any, unread: int, said: str
) -> None:
    """A rewind deletes them, and a copy would not get them."""
    refused = reasons(situation(facts(pending(), unread=unread), method=method))

    assert said in (refused["w"] or "")


def test_a_plan_says_where_nobody_looked_for_messages() -> None:
    """In private mode they are not asked for, and some SDKs do not know them."""
    [item] = plan(situation(facts(pending(), unread=None)))

    assert item.state is PLANNED
    assert "a move loses those" in (item.reason or "")


# --- families that keep their ids ----------------------------------------------------


def test_children_are_moved_before_their_parents() -> None:
    """A parent that runs again must not meet its child cancelled."""
    parent = facts(pending("parent"), None, "child")
    child = facts(pending("child", parent_workflow_id="parent"), "grandchild")
    grandchild = facts(enqueued("grandchild"))

    items = plan(situation(parent, child, grandchild, facts(pending("other"))))

    assert [item.workflow_id for item in items] == [
        "grandchild",
        "child",
        "parent",
        "other",
    ]
    assert [item.position for item in items] == [0, 1, 2, 3]
    assert [list(item.children) for item in items] == [
        [],
        ["grandchild"],
        ["child"],
        [],
    ]


def test_a_child_is_known_by_its_parent_although_no_step_tells_it() -> None:
    """A crash may come between the start of a child and the record of it."""
    parent = facts(pending("parent"))
    child = facts(pending("child", parent_workflow_id="parent"))

    assert ids(situation(parent, child)) == ["child", "parent"]


def test_workflows_that_wait_for_each_other_are_moved_all_the_same() -> None:
    given = situation(facts(pending("a"), "b"), facts(pending("b"), "a"))

    assert sorted(ids(given)) == ["a", "b"]


def test_a_workflow_that_awaits_itself_is_no_relative_of_its_own() -> None:
    [item] = plan(situation(facts(pending("a"), "a")))

    assert (item.state, item.children) == (PLANNED, ())


@pytest.mark.parametrize("unread_of", ["parent", "child", "grandchild"])
def test_a_family_is_refused_whole(unread_of: str) -> None:
    """Whoever of it cannot be moved; others are not held up."""
    unread = {unread_of: 1}
    refused = reasons(
        situation(
            facts(pending("parent"), "child", unread=unread.get("parent", 0)),
            facts(pending("child"), "grandchild", unread=unread.get("child", 0)),
            facts(pending("grandchild"), unread=unread.get("grandchild", 0)),
            facts(pending("other")),
        )
    )

    assert refused.pop("other") is None
    assert "a message" in (refused.pop(unread_of) or "")
    assert len(refused) == 2
    assert all("of its family cannot be moved" in (r or "") for r in refused.values())


@pytest.mark.parametrize(
    "parent",
    [
        pending("parent", status="SUCCESS"),
        pending("parent", status="CANCELLED"),
        pending("parent", executor_id="gone"),
    ],
)
def test_a_child_is_moved_alone_when_its_parent_sees_nothing_of_it(
    parent: WorkflowRow,
) -> None:
    """It has ended, or is stranded in another dead executor; the id stays."""
    child = facts(pending("child", parent_workflow_id="parent"))

    given = situation(child, relatives=(parent,), dead=("gone",))

    assert reasons(given) == {"child": None}


def test_a_child_is_moved_when_its_parent_was_deleted() -> None:
    given = situation(facts(pending("child", parent_workflow_id="parent")))

    assert reasons(given) == {"child": None}


@pytest.mark.parametrize(
    ("parent", "said"),
    [
        (pending("parent", executor_id="alive"), "may run"),
        (pending("parent", executor_id="gone", app_version="v2"), "may run"),
        (enqueued("parent", app_version="v2"), "may run"),
        (pending("parent"), "beyond what can be moved at once"),
        (enqueued("parent"), "beyond what can be moved at once"),
        (pending("parent", application_name="bank"), "another application"),
    ],
)
def test_a_child_is_refused_when_its_parent_may_see_it_cancelled(
    parent: WorkflowRow, said: str
) -> None:
    child = facts(pending("child", parent_workflow_id="parent"))

    refused = reasons(situation(child, relatives=(parent,), dead=("gone",)))

    assert said in (refused["child"] or "")


@pytest.mark.parametrize(
    "child",
    [
        pending("child", status="SUCCESS"),
        pending("child", status="ERROR"),
        pending("child", executor_id="e2", app_version="v2"),
        enqueued("child", app_version="v2"),
        enqueued("child", app_version=None),
        pending("child", application_name="bank"),
    ],
)
def test_a_parent_is_moved_when_its_child_needs_no_move(child: WorkflowRow) -> None:
    """It has ended, or executors of its version are there: the ids stay."""
    given = situation(facts(pending("parent"), "child"), relatives=(child,))

    assert reasons(given) == {"parent": None}


@pytest.mark.parametrize(
    ("child", "said"),
    [
        (pending("child", executor_id="gone"), "PENDING in executor gone with"),
        (pending("child", app_version="v0"), "with version v0, which no executor"),
        (enqueued("child", app_version="v0"), "is ENQUEUED with version v0"),
        (pending("child"), "beyond what can be moved at once"),
        (enqueued("child"), "beyond what can be moved at once"),
    ],
)
def test_a_parent_is_refused_when_it_would_wait_for_a_stranded_child(
    child: WorkflowRow, said: str
) -> None:
    """Once the parent runs, its child cannot be cancelled behind its back."""
    given = situation(
        facts(pending("parent"), "child"), relatives=(child,), dead=("gone",)
    )

    assert said in (reasons(given)["parent"] or "")


def test_a_parent_of_whom_not_all_children_were_read_is_refused() -> None:
    refused = reasons(situation(facts(pending(), is_crowded=True)))

    assert "more children" in (refused["w"] or "")


# --- families of copies --------------------------------------------------------------


def test_a_copy_is_refused_where_somebody_awaits_an_id() -> None:
    """Parent and child, and nobody else."""
    parent = facts(pending("parent"), "child")
    child = facts(pending("child", parent_workflow_id="parent"))

    refused = reasons(situation(parent, child, facts(pending("other")), method=FORK))

    assert "waits for its child child, which is not finished" in (
        refused["parent"] or ""
    )
    assert "its parent parent waits for this id" in (refused["child"] or "")
    assert refused["other"] is None


@pytest.mark.parametrize("status", ["PENDING", "ENQUEUED", "DELAYED"])
def test_a_copy_is_refused_while_a_child_elsewhere_is_not_finished(
    status: str,
) -> None:
    """Its copy might start another one."""
    child = pending("child", executor_id="e2", app_version="v2", status=status)

    given = situation(
        facts(pending("parent"), "child"), relatives=(child,), method=FORK
    )

    assert "not finished" in (reasons(given)["parent"] or "")


def test_finished_relatives_do_not_hinder_a_copy() -> None:
    given = situation(
        facts(pending("w", parent_workflow_id="parent"), "child"),
        relatives=(
            pending("parent", status="ERROR"),
            pending("child", status="SUCCESS"),
        ),
        method=FORK,
    )

    assert reasons(given) == {"w": None}
