"""Schedules, queues and versions: looked up before they are changed."""

from datetime import timedelta

import pytest

from relay.dispatch import Repeat
from relay.errors import InvalidInputError, NotFoundError
from relay.protocol.messages import Acknowledgement
from relay.protocol.versions import VersionRow
from relay.records import AuditTarget
from tests.operations.desk import ANN, NOW, Desk, queue, schedule

YES = Acknowledgement(success=True)
NIGHTLY = AuditTarget(kind="schedule", id="nightly")


async def test_schedules_come_by_name_and_without_those_of_others(desk: Desk) -> None:
    desk.executors.answers["list_schedules"] = (
        schedule("b"),
        schedule("a", owner=None),
        schedule("c", owner="bank"),
    )

    found = await desk.schedules.list_all(
        "shop", status="ACTIVE", workflow_name="pack", name_prefix="n"
    )

    assert [row.schedule_name for row in found] == ["a", "b"]
    [asked] = desk.executors.asked
    request = asked.request
    assert (request.status, request.workflow_name) == (("ACTIVE",), ("pack",))
    assert request.schedule_name_prefix == ("n",)
    assert request.load_context is True


async def test_a_private_schedule_has_no_context(desk: Desk) -> None:
    await desk.set(private_mode=True)
    desk.executors.answers |= {
        "list_schedules": (schedule(),),
        "get_schedule": schedule(),
    }

    [listed] = await desk.schedules.list_all("shop")
    got = await desk.schedules.get("shop", "nightly")

    assert (listed.context, got.context) == (None, None)
    assert [asked.request.load_context for asked in desk.executors.asked] == [
        False,
        False,
    ]


@pytest.mark.parametrize("answer", [None, schedule(owner="bank")])
async def test_an_unknown_schedule_and_anothers_are_not_changed(
    desk: Desk, answer: object
) -> None:
    """Python would claim success."""
    desk.executors.answers["get_schedule"] = answer

    for change in (
        desk.schedules.pause(ANN, "shop", "nightly"),
        desk.schedules.resume(ANN, "shop", "nightly"),
        desk.schedules.trigger(ANN, "shop", "nightly"),
        desk.schedules.backfill(ANN, "shop", "nightly", NOW, NOW + timedelta(days=1)),
    ):
        with pytest.raises(NotFoundError, match="schedule 'nightly'"):
            await change
    assert {asked.how for asked in desk.executors.asked} == {"read"}
    assert await desk.audit() == []


async def test_pausing_and_resuming_are_audited(desk: Desk) -> None:
    desk.executors.answers |= {
        "get_schedule": schedule(),
        "pause_schedule": YES,
        "resume_schedule": YES,
    }

    await desk.schedules.pause(ANN, "shop", "nightly")
    await desk.schedules.resume(ANN, "shop", "nightly")

    resumed, paused = (record.entry for record in await desk.audit())
    assert (paused.operation, paused.target) == ("schedule.pause", NIGHTLY)
    assert (resumed.operation, resumed.target) == ("schedule.resume", NIGHTLY)
    changes = [asked for asked in desk.executors.asked if asked.how == "change"]
    assert {asked.options["repeat"] for asked in changes} == {Repeat.ALWAYS}


async def test_a_trigger_is_never_repeated(desk: Desk) -> None:
    desk.executors.answers |= {"get_schedule": schedule(), "trigger_schedule": "w9"}

    assert await desk.schedules.trigger(ANN, "shop", "nightly") == "w9"

    [asked] = desk.executors.of("trigger_schedule")
    assert asked.options["repeat"] is Repeat.NEVER
    [record] = await desk.audit()
    assert record.entry.operation == "schedule.trigger"
    assert record.entry.details == {"application_name": "shop", "workflow_id": "w9"}


async def test_a_backfill_is_never_repeated(desk: Desk) -> None:
    desk.executors.answers |= {
        "get_schedule": schedule(),
        "backfill_schedule": ("a", "b"),
    }
    end = NOW + timedelta(hours=2)

    found = await desk.schedules.backfill(ANN, "shop", "nightly", NOW, end)

    assert found == ("a", "b")
    [asked] = desk.executors.of("backfill_schedule")
    assert asked.options["repeat"] is Repeat.NEVER
    assert (asked.request.start_time, asked.request.end_time) == (NOW, end)
    [record] = await desk.audit()
    assert record.entry.details["workflow_count"] == 2


async def test_a_backfill_of_no_span_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidInputError, match="endTime"):
        await desk.schedules.backfill(ANN, "shop", "nightly", NOW, NOW)
    assert desk.executors.asked == []


async def test_queues_come_by_name_and_without_those_of_others(desk: Desk) -> None:
    desk.executors.answers["list_queues"] = (
        queue("b"),
        queue("a", None),
        queue("c", "bank"),
    )

    assert [row.name for row in await desk.queues.list_all("shop")] == ["a", "b"]


@pytest.mark.parametrize("answer", [None, queue(owner="bank")])
async def test_an_unknown_queue_and_anothers_do_not_exist(
    desk: Desk, answer: object
) -> None:
    desk.executors.answers["get_queue"] = answer

    with pytest.raises(NotFoundError, match="queue 'jobs'"):
        await desk.queues.get("shop", "jobs")


async def test_only_a_known_version_becomes_the_latest(desk: Desk) -> None:
    desk.executors.answers |= {
        "list_application_versions": (
            VersionRow(
                version_id="1",
                version_name="v1",
                version_timestamp=NOW,
                created_at=NOW,
            ),
        ),
        "set_latest_application_version": YES,
    }

    with pytest.raises(NotFoundError, match="version 'v2'"):
        await desk.versions.set_latest(ANN, "shop", "v2")
    assert {asked.how for asked in desk.executors.asked} == {"read"}
    await desk.versions.set_latest(ANN, "shop", "v1")

    [record] = await desk.audit()
    assert record.entry.operation == "application.set_latest_version"
    assert record.entry.target == AuditTarget(kind="application", id="shop")
    assert record.entry.details == {"application_name": "shop", "version_name": "v1"}
