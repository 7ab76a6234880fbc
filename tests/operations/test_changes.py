"""Changing workflows: how often it is asked, what is refused, what is written down."""

from uuid import UUID

import pytest
from structlog.testing import capture_logs

from relay.dispatch import Repeat
from relay.errors import (
    ConflictError,
    DispatchError,
    InvalidInputError,
    PermissionDeniedError,
    StoreUnavailableError,
)
from relay.protocol.messages import Acknowledgement
from relay.protocol.workflow_orders import FromLastFailure
from relay.protocol.workflows import WorkflowRow
from relay.records import AuditStatus, AuditTarget
from relay.store import Store
from tests.operations.desk import ANN, SLOW, Desk, workflow

YES, NO = Acknowledgement(success=True), Acknowledgement(success=False)


async def last_entry(desk: Desk) -> tuple[str, AuditTarget | None, object]:
    """Operation, target and details of the newest audit entry, which is a success."""
    entry = (await desk.audit())[0].entry
    assert entry.status is AuditStatus.SUCCESS
    assert (entry.subject.display, entry.source_ip) == ("local", "192.0.2.1")
    return entry.operation, entry.target, dict(entry.details)


async def test_cancelling_one_is_asked_as_often_as_needed_and_audited(
    desk: Desk,
) -> None:
    desk.executors.answers["cancel"] = YES

    await desk.changes.cancel(ANN, "shop", ["w/1"], with_children=True)

    [asked] = desk.executors.asked
    assert asked.request.workflow_ids == ("w/1",)
    assert asked.request.cancel_children is True
    assert asked.options["repeat"] is Repeat.ALWAYS
    assert asked.options["within"] is None
    assert await last_entry(desk) == (
        "workflow.cancel",
        AuditTarget(kind="workflow", id="w/1"),
        {"application_name": "shop", "cancel_children": True},
    )


async def test_an_endless_id_is_cut_in_the_audit_log_only(desk: Desk) -> None:
    """It stands in an index, and a caller chooses it."""
    desk.executors.answers["cancel"] = YES

    await desk.changes.cancel(ANN, "shop", ["x" * 9000], with_children=False)

    [asked] = desk.executors.asked
    assert asked.request.workflow_ids == ("x" * 9000,)
    _, target, _ = await last_entry(desk)
    assert target == AuditTarget(kind="workflow", id="x" * 512)


async def test_cancelling_many_is_one_order_with_each_id_once(desk: Desk) -> None:
    desk.executors.answers["cancel"] = YES

    await desk.changes.cancel(
        ANN, "shop", ["a", "b", "a"], with_children=False, is_bulk=True
    )

    [asked] = desk.executors.asked
    assert asked.request.workflow_ids == ("a", "b")
    assert asked.options["within"] == SLOW
    assert await last_entry(desk) == (
        "workflow.bulk_cancel",
        AuditTarget(kind="application", id="shop"),
        {
            "application_name": "shop",
            "workflow_ids": ["a", "b"],
            "workflow_count": 2,
            "cancel_children": False,
        },
    )


async def test_an_entry_names_a_hundred_of_the_workflows_and_counts_the_others(
    desk: Desk,
) -> None:
    """A caller may name a megabyte of them, and an entry is a line of the log."""
    ids = [f"{number:04}{'x' * 600}" for number in range(1000)]
    desk.executors.answers |= {"delete": YES, "fork_from_failure": ids}

    with capture_logs() as logs:
        await desk.changes.delete(ANN, "shop", ids, with_children=False, is_bulk=True)
        await desk.changes.fork_from_failure(ANN, "shop", ids, mode=FromLastFailure())

    named = [id_[:512] for id_ in ids[:100]]
    forking, deleting = [record.entry.details for record in await desk.audit()]
    for details in (deleting, forking):
        assert (details["workflow_ids"], details["workflow_count"]) == (named, 1000)
    assert forking["new_workflow_ids"] == named
    assert forking["new_workflow_count"] == 1000
    assert [len(asked.request.workflow_ids) for asked in desk.executors.asked] == [
        1000,
        1000,
    ]
    assert max(len(str(entry)) for entry in logs) < 120_000


async def test_an_empty_bulk_asks_nobody(desk: Desk) -> None:
    await desk.changes.delete(ANN, "shop", [], with_children=False, is_bulk=True)

    assert desk.executors.asked == []
    operation, _, details = await last_entry(desk)
    assert operation == "workflow.bulk_delete"
    assert details == {
        "application_name": "shop",
        "workflow_ids": [],
        "workflow_count": 0,
        "delete_children": False,
    }


async def test_a_no_without_a_reason_is_a_failure_without_an_entry(desk: Desk) -> None:
    desk.executors.answers["delete"] = NO

    with pytest.raises(DispatchError, match="gave no reason"):
        await desk.changes.delete(ANN, "shop", ["w1"], with_children=False)
    assert await desk.audit() == []


async def test_resuming_needs_the_latest_version_and_is_not_repeated(
    desk: Desk,
) -> None:
    """A repetition could put back what runs already."""
    desk.executors.answers["resume"] = YES

    await desk.changes.resume(ANN, "shop", ["w1"], queue_name="jobs")

    [asked] = desk.executors.asked
    assert asked.options["repeat"] is Repeat.UNDELIVERED
    assert asked.options["latest_version"] is True
    assert asked.request.queue_name == "jobs"
    assert await last_entry(desk) == (
        "workflow.resume",
        AuditTarget(kind="workflow", id="w1"),
        {"application_name": "shop", "queue_name": "jobs"},
    )


async def test_a_fork_gets_its_id_here_so_that_it_can_be_repeated(desk: Desk) -> None:
    desk.executors.answers["fork_workflow"] = "forked"

    forked = await desk.changes.fork(ANN, "shop", "w1", start_step=2)

    assert forked == "forked"
    [asked] = desk.executors.asked
    assert asked.options["repeat"] is Repeat.ALWAYS
    assert UUID(asked.request.new_workflow_id).version == 4
    assert (asked.request.start_step, asked.request.app_version) == (2, None)
    assert await last_entry(desk) == (
        "workflow.fork",
        AuditTarget(kind="workflow", id="w1"),
        {"application_name": "shop", "new_workflow_id": "forked", "start_step": 2},
    )


async def test_a_fork_keeps_the_id_that_is_wanted(desk: Desk) -> None:
    desk.executors.answers["fork_workflow"] = "mine"

    await desk.changes.fork(ANN, "shop", "w1", new_workflow_id="mine", app_version="v2")

    [asked] = desk.executors.asked
    assert asked.request.new_workflow_id == "mine"
    assert asked.options["repeat"] is Repeat.UNDELIVERED
    assert asked.request.app_version == "v2"


async def test_a_repeated_fork_whose_first_answer_was_lost_is_a_success(
    desk: Desk,
) -> None:
    """Only Relay knows the id that it made: nobody else can have taken it."""
    taken = ConflictError("an id that must be new is taken already")
    desk.executors.answers |= {"fork_workflow": taken, "get_workflow": workflow()}

    forked = await desk.changes.fork(ANN, "shop", "w1")

    [asked] = desk.executors.of("fork_workflow")
    assert forked == asked.request.new_workflow_id
    [looked_up] = desk.executors.of("get_workflow")
    assert looked_up.request.workflow_id == forked
    operation, _, _ = await last_entry(desk)
    assert operation == "workflow.fork"


@pytest.mark.parametrize(("wanted", "row"), [("mine", workflow("mine")), (None, None)])
async def test_a_fork_under_an_id_that_is_taken_is_a_conflict(
    desk: Desk, wanted: str | None, row: WorkflowRow | None
) -> None:
    """As is any contradiction that the id which Relay made does not explain."""
    taken = ConflictError("an id that must be new is taken already")
    desk.executors.answers |= {"fork_workflow": taken, "get_workflow": row}

    with pytest.raises(ConflictError):
        await desk.changes.fork(ANN, "shop", "w1", new_workflow_id=wanted)
    assert await desk.audit() == []


@pytest.mark.parametrize("start_step", [-1, 2**30])
async def test_a_fork_from_no_step_is_refused(desk: Desk, start_step: int) -> None:
    with pytest.raises(InvalidInputError, match="startStep"):
        await desk.changes.fork(ANN, "shop", "w1", start_step=start_step)
    assert desk.executors.asked == []


async def test_bulk_forks_are_in_the_order_of_their_ids(desk: Desk) -> None:
    desk.executors.answers["fork_from_failure"] = ("x", "y", "z")
    mode = FromLastFailure()

    forked = await desk.changes.fork_from_failure(
        ANN, "shop", ["a", "b", "a"], mode=mode
    )

    assert forked == ("x", "y", "z")
    [asked] = desk.executors.asked
    assert asked.request.workflow_ids == ("a", "b", "a")
    assert asked.options["repeat"] is Repeat.UNDELIVERED
    operation, _, details = await last_entry(desk)
    assert operation == "workflow.fork_from_failure"
    assert details == {
        "application_name": "shop",
        "workflow_ids": ["a", "b", "a"],
        "workflow_count": 3,
        "new_workflow_ids": ["x", "y", "z"],
        "new_workflow_count": 3,
    }


async def test_imports_are_refused_until_they_are_allowed(desk: Desk) -> None:
    """Naming why, and how to allow them; the text is in no entry."""
    desk.executors.answers["import_workflow"] = YES

    with pytest.raises(PermissionDeniedError, match=r"unpickles.*importsAllowed"):
        await desk.changes.import_one(ANN, "shop", "SECRET")
    assert desk.executors.asked == []
    await desk.set(imports_allowed=True)
    await desk.changes.import_one(ANN, "shop", "SECRET")

    [asked] = desk.executors.asked
    assert asked.options["repeat"] is Repeat.UNDELIVERED
    assert asked.options["within"] == SLOW
    operation, _, details = await last_entry(desk)
    assert operation == "workflow.import"
    assert details == {"application_name": "shop", "size_chars": 6}


async def test_private_applications_take_no_imports(desk: Desk) -> None:
    await desk.set(imports_allowed=True, private_mode=True)

    with pytest.raises(PermissionDeniedError, match="private mode"):
        await desk.changes.import_one(ANN, "shop", "text")


async def test_a_success_that_cannot_be_audited_is_still_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor has done it; the log has what the audit log could not take."""
    desk.executors.answers["cancel"] = YES

    def refuse(_: Store) -> None:
        raise StoreUnavailableError("gone")

    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr(Store, "write", refuse)
        await desk.changes.cancel(ANN, "shop", ["w1"], with_children=False)

    [told] = [log for log in logs if log["event"] == "operation_not_audited"]
    assert (told["operation"], told["target"]) == ("workflow.cancel", "w1")
    assert (told["application"], told["subject"]) == ("shop", "local")
    assert await desk.audit() == []
