"""What belongs to another application, to a key that is limited to one."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from relay.errors import NotFoundError, RelayError
from relay.protocol.messages import Acknowledgement
from relay.protocol.workflow_orders import FromLastStep
from relay.protocol.workflows import WorkflowRow
from relay.records import AuditStatus
from relay.registry import Actor
from tests.operations.desk import ANN, LIMITED, Desk, workflow

YES = Acknowledgement(success=True)
OURS = workflow("ours")
OF_NOBODY = workflow("old", application_name=None)
THEIRS = workflow("x", application_name="bank")

Change = Callable[[Desk, Actor, list[str]], Awaitable[object]]


async def cancel(desk: Desk, actor: Actor, ids: list[str]) -> None:
    is_bulk = len(ids) > 1
    await desk.changes.cancel(actor, "shop", ids, with_children=True, is_bulk=is_bulk)


async def delete(desk: Desk, actor: Actor, ids: list[str]) -> None:
    is_bulk = len(ids) > 1
    await desk.changes.delete(actor, "shop", ids, with_children=True, is_bulk=is_bulk)


async def resume(desk: Desk, actor: Actor, ids: list[str]) -> None:
    is_bulk = len(ids) > 1
    await desk.changes.resume(actor, "shop", ids, queue_name=None, is_bulk=is_bulk)


async def fork(desk: Desk, actor: Actor, ids: list[str]) -> None:
    await desk.changes.fork(actor, "shop", ids[0])


async def fork_under_a_guess(desk: Desk, actor: Actor, ids: list[str]) -> None:
    await desk.changes.fork(actor, "shop", ids[0], new_workflow_id="guess")


async def fork_from_failure(desk: Desk, actor: Actor, ids: list[str]) -> None:
    mode = FromLastStep()
    await desk.changes.fork_from_failure(actor, "shop", ids, mode=mode)


EVERY: Mapping[str, Change] = {
    "cancel": cancel,
    "delete": delete,
    "resume": resume,
    "fork": fork,
    "fork under a guess": fork_under_a_guess,
    "fork from failure": fork_from_failure,
}
UNKNOWN = "NotFoundError: workflow 'x' does not exist"
LENIENT = ("cancel", "delete")
"""What SDKs do to a workflow that does not exist, without a complaint."""

every_change = pytest.mark.parametrize("change", EVERY.values(), ids=EVERY)


def answer(desk: Desk, *rows: WorkflowRow) -> None:
    """All changes succeed, and these workflows exist."""
    desk.executors.answers = {
        **dict.fromkeys(("cancel", "delete", "resume"), YES),
        "fork_workflow": "forked",
        "fork_from_failure": ("forked",),
        "get_workflow": rows[0] if rows else None,
        "list_workflows": rows,
    }


async def attempt(desk: Desk, change: Change, ids: list[str]) -> tuple[Any, ...]:
    """All that a change tells a limited key, and asks."""
    desk.executors.asked.clear()
    try:
        await change(desk, LIMITED, ids)
    except RelayError as error:
        told: str = f"{type(error).__name__}: {error}"
    else:
        told = "done"
    return told, [(asked.how, asked.request) for asked in desk.executors.asked]


@every_change
@pytest.mark.parametrize("ids", [["x"], ["ours", "x"]], ids=["one", "several"])
async def test_another_applications_workflow_is_answered_as_an_unknown_one(
    desk: Desk, change: Change, ids: list[str]
) -> None:
    """By the same words after the same questions: it cannot be told that it exists."""
    ours = [OURS] if "ours" in ids and change not in (fork, fork_under_a_guess) else []
    answer(desk, *ours)
    unknown = await attempt(desk, change, ids)
    answer(desk, *ours, THEIRS)
    foreign = await attempt(desk, change, ids)
    desk.executors.answers["get_workflow"] = NotFoundError("workflow", "x")
    refused = await attempt(desk, change, ids)

    assert foreign == unknown == refused


@pytest.mark.parametrize("name", EVERY)
async def test_what_is_not_the_applications_is_never_sent(
    desk: Desk, name: str
) -> None:
    """Executors would do it: they look for ids in the whole database."""
    answer(desk, THEIRS)

    told, asked = await attempt(desk, EVERY[name], ["x"])

    assert told == ("done" if name in LENIENT else UNKNOWN)
    assert [how for how, _ in asked] == ["read"]


@every_change
@pytest.mark.parametrize("row", [OURS, OF_NOBODY], ids=["named", "unnamed"])
async def test_the_applications_own_workflows_are_changed(
    desk: Desk, change: Change, row: WorkflowRow
) -> None:
    """So are those whose SDK names no owner: they may be its own."""
    answer(desk, row)

    told, asked = await attempt(desk, change, [row.workflow_id])

    assert told == "done"
    assert [how for how, _ in asked] == ["read", "change"]


@every_change
async def test_whoever_may_touch_every_application_is_spared_the_question(
    desk: Desk, change: Change
) -> None:
    """And reaches what its executors reach."""
    answer(desk, THEIRS)

    await change(desk, ANN, ["x"])

    assert [asked.how for asked in desk.executors.asked] == ["change"]


async def test_of_many_only_the_applications_own_are_sent(desk: Desk) -> None:
    """They are looked up at once, and the audit log tells the two apart."""
    answer(desk, OURS, THEIRS)

    await cancel(desk, LIMITED, ["x", "ours", "unknown"])

    [looked_up] = desk.executors.of("list_workflows")
    assert looked_up.request.filter.workflow_ids == ("x", "ours", "unknown")
    # Asked about its own application, an executor would leave out what names none.
    assert "application_name" not in looked_up.request.fields()["body"]
    assert (looked_up.request.load_input, looked_up.request.load_output) == (
        False,
        False,
    )
    [order] = desk.executors.of("cancel")
    assert order.request.workflow_ids == ("ours",)
    [record] = await desk.audit()
    assert record.entry.status is AuditStatus.SUCCESS
    assert record.entry.details == {
        "application_name": "shop",
        "workflow_ids": ["ours"],
        "workflow_count": 1,
        "unsent_workflow_ids": ["x", "unknown"],
        "unsent_workflow_count": 2,
        "cancel_children": True,
    }


@pytest.mark.parametrize("ids", [["x"], ["x", "y"]], ids=["one", "several"])
async def test_the_audit_log_says_that_nothing_was_done(
    desk: Desk, ids: list[str]
) -> None:
    """The caller reads a success, as of every workflow that does not exist."""
    answer(desk, THEIRS)

    await cancel(desk, LIMITED, ids)

    [record] = await desk.audit()
    assert record.entry.status is AuditStatus.FAILURE
    assert record.entry.subject.display == "limited"
    assert record.entry.details["error"] == "not sent: no workflow of this application"
