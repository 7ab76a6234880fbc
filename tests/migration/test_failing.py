"""Executors that are not there, do not answer, or will not."""

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.errors import ConnectionLostError, ExecutorFailedError, NoExecutorError
from relay.ids import AppName, ExecutorId, RecoveryId
from relay.migration.mover import ATTEMPTS, RETRY_PAUSE
from relay.protocol.sdk import Sdk
from relay.records import ItemState, MigrationItem, RecoveryState
from tests.migration.yard import OLDER, Hook, Yard
from tests.recovery.stage import MODERN

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

E2 = ExecutorId("e2")
NO = ExecutorFailedError(E2, "no")
NOBODY = NoExecutorError(AppName("shop"))
LOST = ConnectionLostError(E2, delivered=True)
SECOND = timedelta(seconds=1)


def raising(kind: str, error: Exception, *, times: int = 10**6) -> Hook:
    """The first messages of one type fail so."""
    left = [times]

    async def fail(message_type: str, _: Any) -> None:
        if message_type == kind and left[0]:
            left[0] -= 1
            raise error

    return fail


async def move_one(
    yard: Yard, *, sdk: Sdk = MODERN
) -> tuple[RecoveryId, MigrationItem]:
    recovery_id = await yard.strand("w")
    yard.connect(sdk=sdk)
    report = await yard.move(recovery_id)
    [item] = report.items
    return recovery_id, item


# --- nobody there --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cancel", "rewind_workflow"])
@pytest.mark.parametrize("error", [NOBODY, LOST])
async def test_what_is_under_way_waits_for_somebody_to_ask(
    yard: Yard, kind: str, error: Exception
) -> None:
    """For however long."""
    yard.before = raising(kind, error, times=8)

    _, item = await move_one(yard)

    assert item.state is ItemState.MOVED
    assert yard.clock.now() - (await yard.find(RecoveryId("r-dead-3"))).opened_at >= (
        8 * RETRY_PAUSE
    )


async def test_that_there_is_nobody_to_ask_is_told_once(yard: Yard) -> None:
    """And again when something else is the matter."""
    errors = [LOST, *[NOBODY] * 8]

    async def fail(kind: str, _: Any) -> None:
        if kind == "cancel" and errors:
            raise errors.pop()

    yard.before = fail

    with capture_logs() as logs:
        await move_one(yard)

    paused = [log for log in logs if log["event"] == "migration_paused"]
    assert [log["reason"] for log in paused] == [str(NOBODY), str(LOST)]


@pytest.mark.parametrize(
    ("kind", "sdk"),
    [
        ("cancel", MODERN),
        ("rewind_workflow", MODERN),
        ("fork_workflow", OLDER),
        ("cancel", OLDER),
    ],
)
async def test_what_was_done_although_nobody_heard_is_not_done_again(
    yard: Yard, kind: str, sdk: Sdk
) -> None:
    """The connection breaks with the answer in it."""
    yard.after = raising(kind, LOST, times=1)

    _, item = await move_one(yard, sdk=sdk)

    assert item.state is ItemState.MOVED
    assert yard.done[kind, "w"] == 1


@pytest.mark.parametrize(
    ("kind", "sdk"), [("rewind_workflow", MODERN), ("fork_workflow", OLDER)]
)
async def test_before_another_executor_is_asked_it_is_looked_at(
    yard: Yard, kind: str, sdk: Sdk
) -> None:
    """It may have been moved, and have run to its end: to rewind that runs it again."""
    asked: list[str] = []

    async def count(message_type: str, _: Any) -> None:
        if message_type in (kind, "get_workflow"):
            asked.append(message_type)

    yard.before = count
    yard.after = raising(kind, LOST, times=1)
    yard.connect("e3", sdk=sdk)

    _, item = await move_one(yard, sdk=sdk)

    assert item.state is ItemState.MOVED
    assert asked.count(kind) == 1
    assert asked[asked.index(kind) + 1] == "get_workflow"


async def test_without_an_sdk_that_can_rewind_it_waits_for_one(yard: Yard) -> None:
    """The one that could has gone after the cancellation."""
    recovery_id = await yard.strand("w")
    peer = yard.connect()
    yard.connect("e3", sdk=OLDER)

    async def leave(kind: str, _: Any) -> None:
        if kind == "cancel":
            yard.stage.disconnect(peer)

    yard.before = leave
    yard.start()
    await yard.begin(recovery_id)
    await yard.stage.pass_time(timedelta(minutes=5))
    [item] = (await yard.report(recovery_id)).items
    assert item.state is ItemState.REWINDING

    yard.connect("e4")
    [item] = (await yard.reach_end(recovery_id)).items
    assert item.state is ItemState.MOVED


# --- a no ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cancel", "rewind_workflow"])
async def test_a_no_is_not_the_last_word(yard: Yard, kind: str) -> None:
    yard.before = raising(kind, NO, times=ATTEMPTS - 1)

    _, item = await move_one(yard)

    assert item.state is ItemState.MOVED


async def test_what_cannot_be_cancelled_stays_as_it_is(yard: Yard) -> None:
    yard.before = raising("cancel", NO)

    recovery_id, item = await move_one(yard)

    assert item.state is ItemState.FAILED
    assert "nothing was done to it: executor e2 failed: no" in (item.reason or "")
    assert yard.row("w")["Status"] == "PENDING"
    [told] = await yard.audit(recovery_id, "workflow.migrate")
    assert (told.entry.status, told.entry.details["reason"]) == ("failure", item.reason)
    assert (await yard.find(recovery_id)).state is RecoveryState.READY


async def test_what_cannot_be_rewound_waits_for_its_old_version(yard: Yard) -> None:
    """It had been cancelled, and is not left so."""
    yard.before = raising("rewind_workflow", NO)

    with capture_logs() as logs:
        _, item = await move_one(yard)

    assert item.state is ItemState.FAILED
    assert "waits in its queue for version v1 again" in (item.reason or "")
    row = yard.row("w")
    assert (row["Status"], row["ApplicationVersion"]) == ("ENQUEUED", "v1")
    [alarm] = [log for log in logs if log["event"] == "migration_item_failed"]
    assert (alarm["log_level"], alarm["workflow_id"]) == ("error", "w")


async def test_what_cannot_be_rewound_waits_for_somebody_to_put_it_back(
    yard: Yard,
) -> None:
    """Those who said no have gone."""
    lose = raising("resume", NOBODY, times=5)

    async def refuse(kind: str, request: Any) -> None:
        await lose(kind, request)
        if kind == "rewind_workflow":
            raise NO

    yard.before = refuse

    _, item = await move_one(yard)

    assert "waits in its queue for version v1 again" in (item.reason or "")
    assert yard.done["resume", "w"] == 1


async def test_what_can_neither_be_rewound_nor_put_back_is_told(yard: Yard) -> None:
    async def refuse(kind: str, _: Any) -> None:
        if kind in ("rewind_workflow", "resume"):
            raise NO

    yard.before = refuse

    _, item = await move_one(yard)

    assert item.state is ItemState.FAILED
    assert "it was cancelled" in (item.reason or "")
    assert "resume or fork it by hand" in (item.reason or "")


async def test_a_yes_to_putting_back_is_not_believed(yard: Yard) -> None:
    """It is still cancelled, and somebody has to know."""

    async def refuse(kind: str, _: Any) -> None:
        if kind == "rewind_workflow":
            raise NO

    async def undo(kind: str, _: Any) -> None:
        if kind == "resume":
            yard.work.cancel("w")

    yard.before, yard.after = refuse, undo

    _, item = await move_one(yard)

    assert item.state is ItemState.FAILED
    assert "resume or fork it by hand" in (item.reason or "")


async def test_what_was_put_back_although_nobody_heard_is_not_put_back_again(
    yard: Yard,
) -> None:
    """It may have begun to run since, and would be run twice."""
    lose = raising("resume", LOST, times=1)

    async def refuse(kind: str, _: Any) -> None:
        if kind == "rewind_workflow":
            raise NO

    yard.before, yard.after = refuse, lose

    _, item = await move_one(yard)

    assert "waits in its queue for version v1 again" in (item.reason or "")
    assert yard.done["resume", "w"] == 1


async def test_what_cannot_be_copied_stays_as_it_is(yard: Yard) -> None:
    yard.before = raising("fork_workflow", NO)

    _, item = await move_one(yard, sdk=OLDER)

    assert item.state is ItemState.FAILED
    assert yard.row("w")["Status"] == "PENDING"


async def test_a_copy_whose_original_cannot_be_cancelled_is_named(yard: Yard) -> None:
    yard.before = raising("cancel", NO)

    _, item = await move_one(yard, sdk=OLDER)

    assert item.state is ItemState.FAILED
    assert f"its copy {item.new_workflow_id} was made" in (item.reason or "")


async def test_an_executor_that_says_yes_and_does_nothing_is_not_believed(
    yard: Yard,
) -> None:
    """Only what is read afterwards counts."""

    async def forget(kind: str, _: Any) -> None:
        if kind == "cancel":
            yard.work.rewind(
                "w", 9, version=None, queue_name="jobs", partition_key=None
            )
            yard.work.dequeue("dead", "w")

    yard.after = forget

    _, item = await move_one(yard)

    assert item.state is ItemState.FAILED
    assert "said that it was done, and it was not" in (item.reason or "")
    assert yard.done["cancel", "w"] == ATTEMPTS


async def test_a_parent_stays_when_its_child_could_not_be_moved(yard: Yard) -> None:
    """It would wait for a child that nobody runs; others are moved."""
    recovery_id = await yard.strand("parent", "child", "other")
    yard.work.adopt("parent", "child")
    yard.connect()

    async def refuse(kind: str, request: Any) -> None:
        if kind == "cancel" and request.workflow_ids == ("child",):
            raise NO

    yard.before = refuse
    report = await yard.move(recovery_id)

    assert [(i.workflow_id, i.state) for i in report.items] == [
        ("child", ItemState.FAILED),
        ("parent", ItemState.FAILED),
        ("other", ItemState.MOVED),
    ]
    assert report.items[1].reason == "its child child was not moved"
    assert yard.row("parent")["Status"] == "PENDING"


async def test_a_message_that_comes_after_the_plan_keeps_a_family_where_it_is(
    yard: Yard,
) -> None:
    recovery_id = await yard.strand("parent", "child")
    yard.work.adopt("parent", "child")
    yard.connect()
    await yard.begin(recovery_id)
    yard.unread["child"] = 1

    yard.start()
    report = await yard.reach_end(recovery_id)

    assert [(i.workflow_id, i.state) for i in report.items] == [
        ("child", ItemState.REFUSED),
        ("parent", ItemState.FAILED),
    ]
    assert not yard.done


# --- a store that is away ------------------------------------------------------------


async def test_a_store_that_is_away_is_waited_for(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.connect()
    await yard.begin(recovery_id)

    async def lose_store(kind: str, _: Any) -> None:
        if kind == "cancel":
            yard.stage.store.is_down = True

    yard.after = lose_store
    yard.start()
    await yard.stage.pass_time(timedelta(minutes=1))
    assert yard.row("w")["Status"] == "CANCELLED"
    yard.stage.store.is_down = False

    [item] = (await yard.reach_end(recovery_id)).items
    assert item.state is ItemState.MOVED


async def test_a_move_ends_with_its_application(yard: Yard) -> None:
    """Deleted in the middle of it; the others go on."""
    recovery_id = await yard.strand("w")
    ref = (await yard.find(recovery_id)).executor.application
    yard.connect()

    async def delete(kind: str, _: Any) -> None:
        if kind == "cancel":
            async with yard.stage.store.write() as work:
                await work.applications.delete(ref.id)

    yard.after = delete
    yard.start()
    await yard.begin(recovery_id)
    await yard.stage.pass_time(timedelta(minutes=1))

    async with yard.stage.store.read() as work:
        assert list(await work.migrations.list_open()) == []
