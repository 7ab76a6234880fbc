"""Pages of what does not move: nothing is hidden, and little is asked."""

from dataclasses import replace
from typing import Any

import pytest

from relay.diagnosis import Code
from relay.errors import NoExecutorError
from relay.ids import AppName
from relay.liveness.states import ExecutorStatus
from relay.protocol.queues import Limits
from tests.diagnosis.cases import SECOND, bounded, enqueued, limits_of, pending
from tests.diagnosis.office import Office, later
from tests.diagnosis.peers import NOW
from tests.recovery.records import dead_ref, make_executor, make_recovery


async def page(office: Office, *, limit: int = 100, offset: int = 0) -> Any:
    return await office.diagnosis.list_attention("shop", limit=limit, offset=offset)


def ids(found: Any) -> list[str]:
    return [each.workflow.workflow_id for each in found.items]


async def test_nothing_unfinished_is_an_empty_last_page(office: Office) -> None:
    found = await page(office)

    assert (found.items, found.scanned, found.moving) == ([], 0, 0)
    assert found.next_offset is None


async def test_what_moves_is_left_out_and_counted(office: Office) -> None:
    office.peers.connect("e1")
    office.hold(
        pending(workflow_id="runs"),
        enqueued("waits"),
        enqueued("sleeps", status="DELAYED"),
        pending(workflow_id="orphan", executor_id="nobody"),
        pending(workflow_id="done", status="SUCCESS"),
    )

    found = await page(office)

    assert ids(found) == ["waits", "sleeps", "orphan"]
    assert (found.scanned, found.moving, found.next_offset) == (4, 1, None)


async def test_the_oldest_come_first_and_every_page_leads_to_the_next(
    office: Office,
) -> None:
    office.peers.connect("e1")
    office.hold(*(later(enqueued(f"w{n}"), n) for n in (4, 2, 0, 3, 1)))

    first = await page(office, limit=2)
    second = await page(office, limit=2, offset=2)
    third = await page(office, limit=2, offset=4)

    assert [ids(each) for each in (first, second, third)] == [
        ["w0", "w1"],
        ["w2", "w3"],
        ["w4"],
    ]
    assert [each.next_offset for each in (first, second, third)] == [2, 4, None]
    assert [each.scanned for each in (first, second, third)] == [2, 2, 1]


async def test_a_page_that_ends_with_the_last_workflow_has_no_next(
    office: Office,
) -> None:
    office.hold(enqueued("a"), enqueued("b"))

    assert (await page(office, limit=2)).next_offset is None


async def test_what_another_application_owns_is_looked_at_and_not_shown(
    office: Office,
) -> None:
    office.hold(enqueued("theirs", application_name="bank"), enqueued("ours"))

    found = await page(office)

    assert (ids(found), found.scanned, found.moving) == (["ours"], 2, 0)


async def test_places_go_on_from_page_to_page(office: Office) -> None:
    """Each page counts what is before it once, and the rest by itself."""
    office.peers.connect("e1")
    office.hold(
        *(later(enqueued(f"jobs-{n}"), n) for n in range(4)),
        *(later(enqueued(f"mail-{n}", queue_name="mail"), n + 0.5) for n in range(4)),
    )

    found = await page(office, limit=4, offset=4)

    places = {each.workflow.workflow_id: each.finding.details for each in found.items}
    assert {name: details["ahead"] for name, details in places.items()} == {
        "jobs-2": 2,
        "mail-2": 2,
        "jobs-3": 3,
        "mail-3": 3,
    }


async def test_of_workflows_of_one_moment_none_is_ahead(office: Office) -> None:
    """Some databases date to the second; which of them goes first, nobody knows."""
    office.peers.connect("e1")
    office.hold(later(enqueued("older"), -1), enqueued("a"), enqueued("b"))

    whole = await page(office)
    rest = await page(office, offset=2)
    alone = await office.diagnosis.explain("shop", "b")

    places = [each.finding.details["ahead"] for each in (*whole.items, *rest.items)]
    assert places == [0, 1, 1, 1]
    assert alone.finding.details["ahead"] == 1


async def test_a_page_of_everything_takes_nine_questions_at_most(
    office: Office,
) -> None:
    """However many workflows, queues and executors there are on it."""
    office.peers.connect("e1")
    office.executors.queues = [
        _named(limits_of(Limits(concurrency=1), Limits(concurrency=1)), "jobs"),
        *(
            _named(bounded(rate_max=1, rate_period_secs=float(n + 1)), f"q{n}")
            for n in range(9)
        ),
    ]
    office.hold(
        *(
            later(enqueued(f"w{n}", queue_name=f"q{n % 9}", app_version=None), n)
            for n in range(90)
        ),
        *(enqueued(f"p{n}", queue_partition_key=f"k{n}") for n in range(9)),
        *(pending(workflow_id=f"r{n}", executor_id=f"x{n}") for n in range(90)),
    )

    found = await page(office, limit=1000)

    assert found.scanned == 189
    assert len(office.executors.asked) <= 9
    doubts = [each.finding.details.get("unknown") for each in found.items]
    assert any("different rate limits on one page" in str(doubt) for doubt in doubts)


def _named(limits: Any, name: str) -> Any:
    return replace(limits, name=name)


async def test_each_owner_is_told_as_it_stands(office: Office) -> None:
    office.peers.connect("silent", last_seen_at=NOW - SECOND, is_responsive=False)
    away, dead = dead_ref("away"), dead_ref("dead")
    await office.add(
        make_executor(away, status=ExecutorStatus.DISCONNECTED),
        make_executor(dead),
        make_recovery(dead),
    )
    office.hold(
        *(
            later(pending(workflow_id=name, executor_id=name), number)
            for number, name in enumerate(("silent", "away", "dead", "ghost"))
        )
    )

    found = await page(office)

    assert [each.finding.code for each in found.items] == [
        Code.OWNER_UNRESPONSIVE,
        Code.OWNER_DISCONNECTED,
        Code.RECOVERY_SCHEDULED,
        Code.OWNER_UNKNOWN,
    ]
    assert len(office.executors.asked) == 1


async def test_payloads_are_neither_asked_for_nor_shown(office: Office) -> None:
    office.hold(enqueued(input="secret"))

    [item] = (await page(office)).items

    [asked] = office.executors.of("list_workflows")
    assert (asked.load_input, asked.load_output) == (False, False)
    assert item.workflow.input is None


async def test_without_an_executor_there_is_no_page(office: Office) -> None:
    office.executors.failures["list_workflows"] = NoExecutorError(AppName("shop"))

    with pytest.raises(NoExecutorError):
        await page(office)
