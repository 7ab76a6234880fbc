"""What is asked of the executors before anything is moved."""

from datetime import timedelta
from typing import Any

import pytest

from relay.errors import DispatchError, ExecutorFailedError, UnknownMessageError
from relay.ids import ExecutorId
from relay.migration import reading
from relay.protocol.sdk import Sdk
from relay.protocol.workflows import ListStepsRequest, SearchWorkflowsRequest
from relay.records import ItemState, RecoveryState
from tests.migration.yard import OLDER, Yard
from tests.recovery.records import V1

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

OLDEST = Sdk("python", "2.10.0")
"""Knows no filter for parents, and no messages."""

PLANNED, REFUSED = ItemState.PLANNED, ItemState.REFUSED


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many workflows are moved at once."""
    monkeypatch.setattr(reading, "MIGRATION_LIMIT", 3)
    return 3


async def test_the_oldest_are_moved_first_if_there_are_too_many(
    yard: Yard, limit: int
) -> None:
    """It is said that there are more; the next order moves them."""
    recovery_id = await yard.strand("w1", "w2", "w3", "w4")
    yard.connect()

    first = await yard.move(recovery_id)
    yard.stage.start()
    await yard.stage.pass_time(timedelta(seconds=1))
    await yard.stage.reach(recovery_id, RecoveryState.STRANDED)
    second = await yard.move(recovery_id)

    assert [item.workflow_id for item in first.items] == ["w1", "w2", "w3"]
    assert first.has_more
    assert [item.workflow_id for item in second.items] == ["w4"]
    assert not second.has_more


async def test_as_many_as_can_be_moved_are_all(yard: Yard, limit: int) -> None:
    recovery_id = await yard.strand(*(f"w{n}" for n in range(limit)))
    yard.connect()

    assert not (await yard.plan(recovery_id)).has_more


async def test_a_family_that_does_not_fit_is_refused(yard: Yard, limit: int) -> None:
    """Its child is the fourth; the others are moved."""
    recovery_id = await yard.strand("parent", "w2", "w3", "child")
    yard.work.adopt("parent", "child")
    yard.connect()

    report = await yard.plan(recovery_id)

    assert {item.workflow_id: item.state for item in report.items} == {
        "parent": REFUSED,
        "w2": PLANNED,
        "w3": PLANNED,
    }


async def test_a_parent_of_too_many_waiting_children_is_refused(
    yard: Yard, limit: int
) -> None:
    recovery_id = await yard.strand("parent")
    children = [f"child{n}" for n in range(limit + 1)]
    yard.work.enqueue("dead", V1, *children, queue_name="jobs")
    yard.work.adopt("parent", *children)
    yard.connect()

    report = await yard.plan(recovery_id)

    assert {item.state for item in report.items} == {REFUSED}


async def test_hundreds_are_asked_about_together(yard: Yard) -> None:
    """One question for fifty families, and two for each workflow."""
    recovery_id = await yard.strand(*(f"w{n}" for n in range(120)))
    peer = yard.connect()

    report = await yard.plan(recovery_id)

    assert len(report.items) == 120
    assert len(peer.asked(SearchWorkflowsRequest)) == 1 + 3
    assert len(peer.asked(ListStepsRequest)) == 120


async def test_a_plan_that_fails_asks_nothing_more(yard: Yard) -> None:
    """Of hundreds of workflows that are left."""
    recovery_id = await yard.strand(*(f"w{n}" for n in range(120)))
    peer = yard.connect()

    async def refuse_one(kind: str, request: Any) -> None:
        if kind == "list_steps":
            if request.workflow_id == "w0":
                raise ExecutorFailedError(ExecutorId("e2"), "no")
            await yard.clock.sleep(timedelta(seconds=1))

    yard.before = refuse_one
    with pytest.raises(DispatchError, match="no"):
        await yard.plan(recovery_id)
    asked = len(peer.requests)
    await yard.stage.pass_time(timedelta(minutes=1))

    assert len(peer.requests) == asked


async def test_payloads_are_not_asked_for(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    peer = yard.connect()

    await yard.move(recovery_id)

    assert not any(
        getattr(request, name, False)
        for request in peer.requests
        for name in ("load_input", "load_output")
    )


async def test_where_parents_cannot_be_asked_for_steps_tell_the_children(
    yard: Yard,
) -> None:
    """An old SDK would leave the filter out, and answer with everything."""
    recovery_id = await yard.strand("parent")
    yard.work.add("e9", "v9", "child")
    yard.work.record("parent", {1: "child"})
    yard.connect(sdk=OLDEST)

    [item] = (await yard.plan(recovery_id)).items

    assert item.state is REFUSED
    assert "its child child" in (item.reason or "")


async def test_where_messages_are_not_known_the_plan_says_so(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.connect(sdk=OLDEST)

    [item] = (await yard.plan(recovery_id)).items

    assert item.state is PLANNED
    assert "a move loses those" in (item.reason or "")


@pytest.mark.parametrize(
    "said",
    [
        "get_workflow_notifications is not allowed in the metadata-only mode",
        "Unknown message type",
    ],
)
async def test_an_executor_that_tells_no_messages_is_no_obstacle(
    yard: Yard, said: str
) -> None:
    recovery_id = await yard.strand("w")
    yard.connect()

    async def refuse(kind: str, _: Any) -> None:
        if kind == "get_workflow_notifications":
            error = UnknownMessageError if said[0] == "U" else ExecutorFailedError
            raise error(ExecutorId("e2"), said)

    yard.before = refuse
    [item] = (await yard.plan(recovery_id)).items

    assert item.state is PLANNED
    assert "a move loses those" in (item.reason or "")


async def test_a_plan_of_an_older_sdk_leaves_waiting_children_alone(
    yard: Yard,
) -> None:
    """Copies of them would be nobody's children."""
    recovery_id = await yard.strand("parent")
    yard.work.enqueue("dead", V1, "child", queue_name="jobs")
    yard.work.adopt("parent", "child")
    yard.connect(sdk=OLDER)

    report = await yard.plan(recovery_id)

    assert [(i.workflow_id, i.state) for i in report.items] == [("parent", REFUSED)]


@pytest.mark.parametrize("status", ["PENDING", "ENQUEUED"])
async def test_an_executor_that_keeps_no_applications_apart_is_not_believed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Some SDKs list the work of all that share the database."""
    recovery_id = await yard.strand("w", "foreign")
    yard.work.assign("bank", "foreign")
    if status == "ENQUEUED":
        yard.work.enqueue("dead", V1, "foreign", queue_name="jobs")
        yard.work.adopt("w", "foreign")
    yard.connect()
    listing = yard.work.answer_listing
    monkeypatch.setattr(
        yard.work,
        "answer_listing",
        lambda body: listing({**body, "application_name": None}),
    )

    report = await yard.plan(recovery_id)

    assert [(i.workflow_id, i.state) for i in report.items] == [("w", PLANNED)]
