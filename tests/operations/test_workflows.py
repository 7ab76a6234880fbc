"""Reading workflows: what is asked, and what the caller may see of the answer."""

import pytest

from relay.errors import NotFoundError, PermissionDeniedError
from relay.operations import Listing
from relay.protocol.workflows import EventRow, WorkflowFilter
from tests.operations.desk import SLOW, Desk, step, workflow

EVERYTHING = Listing(load_input=True, load_output=True)


async def test_a_search_is_asked_as_it_was_wanted(desk: Desk) -> None:
    desk.executors.answers["list_workflows"] = (workflow("a"), workflow("b"))
    matching = WorkflowFilter(status=("PENDING",))
    listing = Listing(limit=5, offset=2, newest_first=True, queues_only=True)

    found = await desk.workflows.search("shop", matching, listing)

    assert [row.workflow_id for row in found] == ["a", "b"]
    [asked] = desk.executors.of("list_workflows")
    request = asked.request
    assert (request.filter, request.application) == (matching, "shop")
    assert (request.limit, request.offset) == (5, 2)
    assert (request.newest_first, request.queues_only) == (True, True)
    assert (request.load_input, request.load_output) == (False, False)


async def test_what_another_application_owns_is_not_listed(desk: Desk) -> None:
    """Searches by id cross the border at the executor; rows without owner are ours."""
    desk.executors.answers["list_workflows"] = (
        workflow("ours"),
        workflow("theirs", application_name="bank"),
        workflow("unowned", application_name=None),
    )

    found = await desk.workflows.search("shop", WorkflowFilter(), Listing())

    assert [row.workflow_id for row in found] == ["ours", "unowned"]


async def test_private_searches_ask_for_no_payload_and_show_none(desk: Desk) -> None:
    await desk.set(private_mode=True)
    desk.executors.answers["list_workflows"] = (workflow(),)

    [found] = await desk.workflows.search("shop", WorkflowFilter(), EVERYTHING)

    [asked] = desk.executors.of("list_workflows")
    assert (asked.request.load_input, asked.request.load_output) == (False, False)
    assert (found.input, found.output, found.error) == (None, None, None)
    assert found.status == "SUCCESS"


async def test_one_workflow_comes_with_its_payloads(desk: Desk) -> None:
    desk.executors.answers["get_workflow"] = workflow()

    found = await desk.workflows.get("shop", "w1")

    assert (found.input, found.output) == ("in", "out")
    [asked] = desk.executors.of("get_workflow")
    assert (asked.request.load_input, asked.request.load_output) == (True, True)


async def test_one_workflow_in_private_mode_has_none(desk: Desk) -> None:
    await desk.set(private_mode=True)
    desk.executors.answers["get_workflow"] = workflow()

    found = await desk.workflows.get("shop", "w1")

    assert (found.input, found.output, found.error) == (None, None, None)
    [asked] = desk.executors.of("get_workflow")
    assert (asked.request.load_input, asked.request.load_output) == (False, False)


@pytest.mark.parametrize("answer", [None, workflow(application_name="bank")])
async def test_an_unknown_workflow_and_anothers_do_not_exist(
    desk: Desk, answer: object
) -> None:
    """Nor do their steps, and nobody is asked for them."""
    desk.executors.answers["get_workflow"] = answer

    with pytest.raises(NotFoundError, match="workflow 'w1' does not exist"):
        await desk.workflows.get("shop", "w1")
    for read in (
        desk.workflows.list_steps("shop", "w1"),
        desk.workflows.list_events("shop", "w1"),
        desk.workflows.list_notifications("shop", "w1"),
        desk.workflows.list_streams("shop", "w1"),
        desk.workflows.export("shop", "w1", with_children=False),
    ):
        with pytest.raises(NotFoundError):
            await read
    assert {asked.request.message_type for asked in desk.executors.asked} == {
        "get_workflow"
    }


async def test_an_unknown_application_asks_nobody(desk: Desk) -> None:
    with pytest.raises(NotFoundError, match="application 'bank'"):
        await desk.workflows.get("bank", "w1")

    assert desk.executors.asked == []


async def test_steps_come_with_their_payloads_unless_private(desk: Desk) -> None:
    desk.executors.answers |= {"get_workflow": workflow(), "list_steps": (step(),)}

    [open_step] = await desk.workflows.list_steps("shop", "w1", limit=3, offset=1)
    await desk.set(private_mode=True)
    [private_step] = await desk.workflows.list_steps("shop", "w1")

    first, second = (asked.request for asked in desk.executors.of("list_steps"))
    assert (first.limit, first.offset, first.load_output) == (3, 1, True)
    assert (second.limit, second.offset, second.load_output) == (None, None, False)
    assert (open_step.output, open_step.error) == ("out", "why")
    assert (private_step.output, private_step.error) == (None, None)


async def test_payload_operations_are_refused_in_private_mode(desk: Desk) -> None:
    """Before anybody is asked."""
    await desk.set(private_mode=True)

    for read in (
        desk.workflows.list_events("shop", "w1"),
        desk.workflows.list_notifications("shop", "w1"),
        desk.workflows.list_streams("shop", "w1"),
        desk.workflows.export("shop", "w1", with_children=True),
    ):
        with pytest.raises(PermissionDeniedError, match="private mode"):
            await read
    assert desk.executors.asked == []


async def test_events_are_those_of_the_workflow(desk: Desk) -> None:
    events = (EventRow(key="status", value="packed"),)
    desk.executors.answers |= {
        "get_workflow": workflow(),
        "get_workflow_events": events,
    }

    assert await desk.workflows.list_events("shop", "w1") == events
    [asked] = desk.executors.of("get_workflow_events")
    assert asked.request.workflow_id == "w1"


async def test_an_export_has_the_long_time_limit(desk: Desk) -> None:
    desk.executors.answers |= {"get_workflow": workflow(), "export_workflow": "text"}

    text = await desk.workflows.export("shop", "w1", with_children=True)

    assert text == "text"
    [asked] = desk.executors.of("export_workflow")
    assert asked.options["within"] == SLOW
    assert asked.request.export_children is True
