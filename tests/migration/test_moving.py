"""Plans and runs: what is told, and what becomes of the workflows."""

import pytest

from relay.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnknownMessageError,
)
from relay.ids import AppVersion, ExecutorId, RecoveryId
from relay.protocol.sdk import Sdk
from relay.records import (
    OPEN_STATES,
    AuditStatus,
    ItemState,
    MigrationMethod,
    RecoveryState,
)
from tests.migration.yard import OLDER, Yard
from tests.operations.desk import ANN
from tests.recovery.records import V1
from tests.recovery.stage import MODERN

on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

STRANDED, READY = RecoveryState.STRANDED, RecoveryState.READY


# --- dry runs ------------------------------------------------------------------------


async def test_a_dry_run_tells_and_does_nothing(yard: Yard) -> None:
    """On both engines: nothing is written, and nobody is ordered anything."""
    recovery_id = await yard.strand("w1", "w2")
    yard.work.record("w1", {1: None, 2: None})
    yard.unread["w2"] = 1
    yard.connect()
    before = await yard.find(recovery_id)

    report = await yard.plan(recovery_id)

    assert [(i.workflow_id, i.state, i.start_step) for i in report.items] == [
        ("w1", ItemState.PLANNED, 3),
        ("w2", ItemState.REFUSED, 2),
    ]
    assert (report.state, report.method) == ("PLANNED", MigrationMethod.REWIND)
    assert report.counts == {ItemState.PLANNED: 1, ItemState.REFUSED: 1}
    assert await yard.find(recovery_id) == before
    assert not yard.done
    with pytest.raises(NotFoundError):
        await yard.report(recovery_id)


@on_sqlite
@pytest.mark.parametrize("state", sorted(OPEN_STATES - {STRANDED}))
async def test_only_stranded_work_is_moved(yard: Yard, state: RecoveryState) -> None:
    recovery_id = await yard.strand("w", state=state)
    yard.connect()

    with pytest.raises(ConflictError, match=f"only stranded .* is {state.value}"):
        await yard.plan(recovery_id)


@on_sqlite
async def test_work_is_moved_to_another_version_only(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.connect()

    with pytest.raises(InvalidInputError, match=r"body\.appVersion"):
        await yard.plan(recovery_id, V1)


@on_sqlite
async def test_work_is_moved_only_where_somebody_can_do_it(yard: Yard) -> None:
    """Whoever asks is told which versions there are."""
    recovery_id = await yard.strand("w")
    yard.connect()

    with pytest.raises(ConflictError, match=r"'v3' is connected; connected are v2"):
        await yard.plan(recovery_id, "v3")


@on_sqlite
async def test_what_does_not_exist_is_not_found(yard: Yard) -> None:
    yard.connect()

    with pytest.raises(NotFoundError, match="recovery 'no'"):
        await yard.plan(RecoveryId("no"))
    with pytest.raises(NotFoundError, match="recovery 'no'"):
        await yard.report(RecoveryId("no"))


# --- runs that keep the ids ----------------------------------------------------------


async def test_a_run_moves_the_work_under_its_own_ids(yard: Yard) -> None:
    """On both engines: on its queue, with its steps, and the version is the new one."""
    recovery_id = await yard.strand("w1", "w2")
    yard.work.record("w1", {1: None, 2: None})
    yard.connect()

    report = await yard.move(recovery_id)

    assert [(i.workflow_id, i.state) for i in report.items] == [
        ("w1", ItemState.MOVED),
        ("w2", ItemState.MOVED),
    ]
    assert yard.row("w1")["Status"] == "ENQUEUED"
    assert yard.row("w1")["ApplicationVersion"] == "v2"
    assert yard.work.list_steps("w1") == {1: None, 2: None}
    assert (await yard.find(recovery_id)).state is READY


async def test_a_workflow_keeps_its_queue(yard: Yard) -> None:
    """Which its cancellation takes away."""
    recovery_id = await yard.strand()
    yard.work.enqueue("dead", V1, "w", queue_name="jobs", partition_key="eu")
    yard.work.dequeue("dead", "w")
    yard.connect()

    await yard.move(recovery_id)

    row = yard.row("w")
    assert (row["QueueName"], row["QueuePartitionKey"]) == ("jobs", "eu")


async def test_a_run_is_told_in_the_audit_log(yard: Yard) -> None:
    """Who began it, each workflow, and the end."""
    recovery_id = await yard.strand("w1", "w2")
    yard.unread["w2"] = 2
    yard.connect()

    await yard.move(recovery_id)

    [begun] = await yard.audit(recovery_id, "recovery.migrate")
    assert begun.entry.subject == ANN.subject
    assert begun.entry.details == {
        "application_name": "shop",
        "executor_id": "dead",
        "app_version": "v1",
        "target_version": "v2",
        "method": "REWIND",
        "workflows": 1,
        "refused": 1,
    }
    [moved] = await yard.audit(recovery_id, "workflow.migrate")
    assert moved.entry.target is not None
    assert (moved.entry.target.kind, moved.entry.target.id) == ("workflow", "w1")
    assert moved.entry.details == {
        "application_name": "shop",
        "executor_id": "dead",
        "method": "REWIND",
        "start_step": 2,
        "from_version": "v1",
        "app_version": "v2",
    }
    [ended] = await yard.audit(recovery_id, "recovery.migrated")
    assert ended.entry.details == {
        "application_name": "shop",
        "executor_id": "dead",
        "app_version": "v1",
        "target_version": "v2",
        "moved": 1,
        "skipped": 0,
        "refused": 1,
        "failed": 0,
    }


async def test_waiting_children_move_with_their_family(yard: Yard) -> None:
    """They are in nobody's hands, so that no recovery would ever name them."""
    recovery_id = await yard.strand("parent")
    yard.work.enqueue("dead", V1, "child", queue_name="jobs")
    yard.work.adopt("parent", "child")
    yard.work.enqueue("dead", V1, "grandchild", queue_name="jobs")
    yard.work.record("child", {1: "grandchild"})
    yard.connect()

    report = await yard.move(recovery_id)

    assert [i.workflow_id for i in report.items] == ["grandchild", "child", "parent"]
    assert {i.state for i in report.items} == {ItemState.MOVED}
    assert yard.row("child")["QueueName"] == "jobs"


@on_sqlite
async def test_a_relative_of_another_application_is_seen(yard: Yard) -> None:
    """Applications may share a database: a parent there would see it cancelled."""
    recovery_id = await yard.strand("child")
    yard.work.add("e9", "v9", "parent")
    yard.work.assign("bank", "parent")
    yard.work.adopt("parent", "child")
    yard.connect()

    [item] = (await yard.plan(recovery_id)).items

    assert "another application" in (item.reason or "")


@on_sqlite
async def test_work_of_another_application_is_left_alone(yard: Yard) -> None:
    recovery_id = await yard.strand("w", "foreign")
    yard.work.assign("bank", "foreign")
    yard.connect()

    report = await yard.plan(recovery_id)

    assert [item.workflow_id for item in report.items] == ["w"]


@on_sqlite
async def test_private_applications_are_not_asked_for_messages(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.unread["w"] = 1
    await yard.set(private_mode=True)
    peer = yard.connect()

    [item] = (await yard.move(recovery_id)).items

    assert item.state is ItemState.MOVED
    asked = {request.message_type for request in peer.requests}
    assert "get_workflow_notifications" not in asked


@on_sqlite
@pytest.mark.parametrize("sdk", [MODERN, OLDER])
@pytest.mark.parametrize("is_private", [True, False])
async def test_where_nobody_could_look_for_messages_the_end_says_so_too(
    yard: Yard, sdk: Sdk, is_private: bool
) -> None:
    """In private mode, and where no SDK can tell: in the answer and the audit log."""
    recovery_id = await yard.strand("w")
    await yard.set(private_mode=is_private)
    yard.connect(sdk=sdk)

    async def know_none(kind: str, _: object) -> None:
        if kind == "get_workflow_notifications":
            raise UnknownMessageError(ExecutorId("e2"), "Unknown message type")

    yard.before = know_none
    [planned] = (await yard.plan(recovery_id)).items
    [item] = (await yard.move(recovery_id)).items

    assert item.state is ItemState.MOVED
    assert "could not look whether messages wait" in (item.reason or "")
    assert item.reason == planned.reason
    [moved] = await yard.audit(recovery_id, "workflow.migrate")
    assert moved.entry.status is AuditStatus.SUCCESS
    assert moved.entry.details["reason"] == item.reason


@on_sqlite
async def test_what_was_looked_for_at_its_turn_needs_no_remark(yard: Yard) -> None:
    """The last look counts, not that of the plan."""
    recovery_id = await yard.strand("w")
    await yard.set(private_mode=True)
    yard.connect()
    await yard.begin(recovery_id)
    [planned] = (await yard.report(recovery_id)).items
    await yard.set(private_mode=False)

    yard.start()
    [item] = (await yard.reach_end(recovery_id)).items

    assert planned.reason is not None
    assert (item.state, item.reason) == (ItemState.MOVED, None)


# --- runs that make copies -----------------------------------------------------------


async def test_where_no_sdk_can_rewind_copies_are_made(yard: Yard) -> None:
    """On both engines: the link from the old id to the new one is kept."""
    recovery_id = await yard.strand("w1", "w2")
    yard.connect(sdk=OLDER)

    report = await yard.move(recovery_id)

    assert report.method is MigrationMethod.FORK
    assert {item.state for item in report.items} == {ItemState.MOVED}
    for item in report.items:
        assert item.new_workflow_id is not None
        assert yard.row(item.workflow_id)["Status"] == "CANCELLED"
        assert yard.row(item.new_workflow_id)["ApplicationVersion"] == "v2"
    moved = await yard.audit(recovery_id, "workflow.migrate")
    assert [
        (m.entry.target and m.entry.target.id, m.entry.details["new_workflow_id"])
        for m in moved
    ] == [(item.workflow_id, item.new_workflow_id) for item in report.items]


@on_sqlite
async def test_the_original_is_cancelled_only_after_its_copy_exists(
    yard: Yard,
) -> None:
    recovery_id = await yard.strand("w")
    yard.connect(sdk=OLDER)
    seen: list[tuple[str, bool]] = []

    async def watch(kind: str, _: object) -> None:
        if kind in ("cancel", "fork_workflow"):
            seen.append((kind, bool(yard.copies())))

    yard.before = watch
    await yard.move(recovery_id)

    assert seen == [("fork_workflow", False), ("cancel", True)]


@on_sqlite
async def test_one_executor_that_can_rewind_is_enough(yard: Yard) -> None:
    """It is asked, whatever version it has; the others are not."""
    recovery_id = await yard.strand("w")
    old = yard.connect("e2", sdk=OLDER)
    yard.connect("e3", AppVersion("v3"))

    report = await yard.move(recovery_id)

    assert report.method is MigrationMethod.REWIND
    assert "rewind_workflow" not in {r.message_type for r in old.requests}


@on_sqlite
@pytest.mark.parametrize("sdk", [Sdk(None, None), Sdk("python", "0.0.0")])
async def test_of_an_sdk_that_nobody_knows_no_rewind_is_expected(
    yard: Yard, sdk: Sdk
) -> None:
    """A workflow would be cancelled before it turned out."""
    recovery_id = await yard.strand("w")
    yard.connect(sdk=sdk)

    assert (await yard.plan(recovery_id)).method is MigrationMethod.FORK
