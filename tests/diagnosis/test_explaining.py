"""One workflow, asked about: what is gathered, and what is missing."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from relay.diagnosis import Code
from relay.diagnosis.findings import Gap
from relay.diagnosis.questions import Questions
from relay.errors import InvalidInputError, NoExecutorError, NotFoundError
from relay.ids import ApplicationId, ApplicationRef, AppName, OrgName
from relay.liveness.states import ExecutorStatus
from relay.protocol.queues import Limits
from relay.protocol.rows import EPOCH
from relay.protocol.versions import ListApplicationVersionsRequest
from relay.records import Owner, OwnerKind, TombstoneRecord
from relay.recovery.opening import dead_row
from relay.tasks import TaskSet
from tests.diagnosis.cases import MINUTE, SECOND, bounded, enqueued, limits_of, pending
from tests.diagnosis.office import TIMEOUT, Office
from tests.diagnosis.peers import NOW
from tests.recovery.records import (
    SHOP,
    V1,
    dead_ref,
    make_application,
    make_executor,
    make_recovery,
)

LOST = dead_ref("e1")


async def explain(office: Office) -> Any:
    return (await office.diagnosis.explain("shop", "w1")).finding


def running(count: int, **changes: Any) -> Sequence[Any]:
    """So many workflows of the queue `jobs` in `e2`."""
    return [
        pending(
            workflow_id=f"running-{number}",
            queue_name="jobs",
            executor_id="e2",
            dequeued_at=NOW - (number + 1) * SECOND,
            **changes,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("rows", [[], [pending(application_name="bank")]])
async def test_an_unknown_workflow_and_anothers_do_not_exist(
    office: Office, rows: list[Any]
) -> None:
    office.hold(*rows)

    with pytest.raises(NotFoundError, match="workflow"):
        await explain(office)
    assert len(office.executors.asked) == 1


async def test_an_unknown_application_does_not_exist(office: Office) -> None:
    with pytest.raises(NotFoundError, match="application"):
        await office.diagnosis.explain("bank", "w1")


async def test_no_payload_is_asked_for_or_shown(office: Office) -> None:
    office.peers.connect("e1")
    office.hold(pending(input="secret"))

    diagnosed = await office.diagnosis.explain("shop", "w1")

    [asked] = office.executors.asked
    assert (asked.load_input, asked.load_output) == (False, False)
    row = diagnosed.workflow
    assert (row.input, row.output, row.error) == (None, None, None)


async def test_without_an_executor_nobody_can_say_what_it_is(office: Office) -> None:
    office.executors.failures["get_workflow"] = NoExecutorError(AppName("shop"))

    with pytest.raises(NoExecutorError):
        await explain(office)


async def test_a_running_workflow_costs_one_question(office: Office) -> None:
    office.peers.connect("e1", last_seen_at=NOW - SECOND)
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.RUNNING
    assert finding.details["lastSeenAt"] == NOW - SECOND
    assert len(office.executors.asked) == 1


async def test_a_silent_and_a_colliding_socket_are_seen(office: Office) -> None:
    office.peers.colliding.add(office.peers.connect("e1", is_responsive=False))
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.OWNER_UNRESPONSIVE
    assert finding.details["collision"] is True


async def test_a_disconnected_owner_shows_the_deadline_of_its_row(
    office: Office,
) -> None:
    await office.add(make_executor(LOST, status=ExecutorStatus.DISCONNECTED))
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.OWNER_DISCONNECTED
    record = make_executor(LOST, status=ExecutorStatus.DISCONNECTED)
    assert finding.details["deadAfter"] == record.dead_after
    assert finding.since == record.status_since


async def test_a_dead_owner_shows_its_open_recovery(office: Office) -> None:
    await office.add(make_executor(LOST), make_recovery(LOST))
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.RECOVERY_SCHEDULED
    assert finding.details["recoveryId"] == "r-1"


async def test_the_same_executor_of_another_application_is_somebody_else(
    office: Office,
) -> None:
    bank = ApplicationRef(ApplicationId("app-bank"), OrgName("local"), AppName("bank"))
    office.peers.connect("e1", application=bank)
    async with office.store.write() as work:
        await work.applications.insert(make_application(bank))
        await work.executors.insert(make_executor(dead_ref("e1", bank)))
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.OWNER_UNKNOWN
    assert "another application only" in finding.sentence


async def test_a_forgotten_owner_is_known_by_its_tombstone(office: Office) -> None:
    closed = make_recovery(LOST)
    async with office.store.write() as work:
        await work.tombstones.insert(
            TombstoneRecord(
                executor=LOST, app_version=V1, recovery_id=closed.id, deleted_at=NOW
            )
        )
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.RECOVERY_ENDED
    assert finding.since == NOW


@pytest.mark.parametrize("was_ordered", [False, True])
async def test_an_owner_that_the_census_lists_is_unknown_since_then(
    office: Office, was_ordered: bool
) -> None:
    async with office.store.write() as work:
        if was_ordered:
            await work.executors.insert(dead_row(LOST, V1, work.now))
        owner = Owner(LOST.executor_id, V1)
        await work.unknown_owners.note(SHOP.id, {owner: (OwnerKind.UNKNOWN, 1)})
    office.hold(pending())

    finding = await explain(office)

    assert finding.code is Code.OWNER_UNKNOWN
    assert finding.since is not None


async def test_a_queue_at_its_limit_is_found(office: Office) -> None:
    office.peers.connect("e2")
    office.executors.queues = [bounded(concurrency=2)]
    office.hold(enqueued(), *running(2))

    finding = await explain(office)

    assert finding.code is Code.QUEUE_FULL
    assert finding.details["runningIn"] == [{"executorId": "e2", "count": 2}]


async def test_what_runs_in_other_queues_fills_none(office: Office) -> None:
    office.peers.connect("e2")
    office.executors.queues = [bounded(concurrency=2)]
    others = [with_fields(row, queue_name="mail") for row in running(2)]
    office.hold(enqueued(), *others)

    assert (await explain(office)).code is Code.QUEUE_WAITING


async def test_only_the_partition_of_the_workflow_counts(office: Office) -> None:
    office.peers.connect("e2")
    office.executors.queues = [limits_of(Limits(), Limits(concurrency=2))]
    office.hold(
        enqueued(queue_partition_key="a"),
        *running(1, queue_partition_key="a"),
        with_fields(
            running(1, queue_partition_key="b")[0], workflow_id="other-partition"
        ),
    )

    assert (await explain(office)).code is Code.QUEUE_WAITING

    office.hold(pending(workflow_id="more", queue_name="jobs", queue_partition_key="a"))
    finding = await explain(office)
    assert (finding.code, finding.details["running"]) == (Code.QUEUE_FULL, 2)


async def test_a_spent_rate_is_found_with_the_moment_of_the_next_start(
    office: Office,
) -> None:
    """Three were started 1, 2 and 3 s ago and two may be: the second oldest counts."""
    office.peers.connect("e2")
    office.executors.queues = [bounded(rate_max=2, rate_period_secs=10.0)]
    office.hold(enqueued(), *running(3))

    finding = await explain(office)

    assert finding.code is Code.RATE_LIMITED
    assert finding.details["started"] == 3
    assert finding.details["until"] == NOW - 2 * SECOND + timedelta(seconds=10)


async def test_a_start_at_the_end_of_all_time_does_not_break_the_calendar(
    office: Office,
) -> None:
    office.peers.connect("e2")
    office.executors.queues = [bounded(rate_max=1, rate_period_secs=10.0)]
    [row] = running(1)
    never = datetime.max.replace(tzinfo=UTC)
    office.hold(enqueued(), with_fields(row, dequeued_at=never))

    finding = await explain(office)

    assert finding.code is Code.RATE_LIMITED
    assert finding.details["until"] == NOW + timedelta(seconds=20)


async def test_what_was_started_before_the_period_spends_nothing(
    office: Office,
) -> None:
    office.peers.connect("e2")
    office.executors.queues = [bounded(rate_max=2, rate_period_secs=2.0)]
    office.hold(enqueued(), *running(1), *running(3)[2:])

    assert (await explain(office)).code is Code.QUEUE_WAITING


async def test_a_place_counts_what_is_older_of_its_queue_and_version(
    office: Office,
) -> None:
    """Those without a version are taken by the same executors."""
    office.peers.connect("e2")
    office.executors.queues = [bounded()]
    earlier = NOW - 2 * MINUTE
    office.hold(
        enqueued(),
        enqueued("older", created_at=earlier),
        enqueued("older-of-any", created_at=earlier, app_version=None),
        enqueued("older-of-another", created_at=earlier, app_version="v0"),
        enqueued("older-elsewhere", created_at=earlier, queue_name="mail"),
        enqueued("younger", created_at=NOW),
    )

    finding = await explain(office)

    assert finding.details["ahead"] == 2


async def test_a_workflow_without_a_version_asks_which_is_the_latest(
    office: Office,
) -> None:
    office.peers.connect("e2")
    office.executors.versions = ["v2", "v1"]
    office.hold(enqueued(app_version=None))

    finding = await explain(office)

    assert finding.code is Code.VERSION_ABSENT
    assert finding.details["appVersion"] == "v2"


TOO_OLD = InvalidInputError("body.dequeuedAfter", "the connected SDK would ignore it")


@pytest.mark.parametrize(
    ("message_type", "failure", "words"),
    [
        ("list_queues", TIMEOUT, "did not answer within 10 s"),
        ("get_workflow_aggregates", TOO_OLD, "the connected SDK would ignore it"),
    ],
)
async def test_what_an_executor_does_not_tell_is_missing_with_the_reason(
    office: Office, message_type: str, failure: Exception, words: str
) -> None:
    office.peers.connect("e2")
    office.executors.queues = [bounded(concurrency=1, rate_max=1, rate_period_secs=1.0)]
    office.executors.failures[message_type] = failure
    office.hold(enqueued())

    finding = await explain(office)

    assert finding.code is Code.QUEUE_WAITING
    assert words in finding.sentence
    assert finding.details["unknown"]


@pytest.mark.parametrize("created_at", [EPOCH, datetime.min.replace(tzinfo=UTC)])
async def test_a_workflow_without_a_moment_of_creation_has_no_place(
    office: Office, created_at: datetime
) -> None:
    office.peers.connect("e2")
    office.hold(enqueued(created_at=created_at))

    finding = await explain(office)

    assert "ahead" not in finding.details
    assert "does not say when it was created" in finding.sentence


async def test_a_queue_of_ones_own_comes_before_one_that_is_nobodys(
    office: Office,
) -> None:
    office.peers.connect("e2")
    own = bounded(concurrency=1)
    office.executors.queues = [
        own,
        replace(bounded(), application_name=None),
        replace(bounded(), application_name="bank"),
    ]
    office.hold(enqueued(), *running(1))

    assert (await explain(office)).code is Code.QUEUE_FULL


async def test_all_questions_share_one_time(office: Office) -> None:
    """What is left unasked is a gap, and fails nothing."""
    questions = Questions(
        office.executors, make_application(), office.clock, timedelta(seconds=25)
    )
    await office.clock.advance(timedelta(seconds=25))

    found = await questions.find(ListApplicationVersionsRequest())

    assert found == Gap("there was no time left to ask")
    assert office.executors.asked == []


async def test_a_question_ends_with_the_time_of_all(office: Office) -> None:
    questions = Questions(
        office.executors, make_application(), office.clock, timedelta(seconds=25)
    )
    office.executors.pause = asyncio.Event()

    async with TaskSet("test") as tasks:
        request = ListApplicationVersionsRequest()
        asking = tasks.spawn(questions.find(request), name="asking")
        await office.clock.advance(timedelta(seconds=25))
        await asyncio.wait({asking})

    assert asking.result() == Gap("no executor answered in time")


async def test_an_unknown_latest_version_is_no_reason_to_call_it_absent(
    office: Office,
) -> None:
    office.peers.connect("e2")
    office.executors.failures["list_application_versions"] = TIMEOUT
    office.hold(enqueued(app_version=None))

    assert (await explain(office)).code is Code.QUEUE_WAITING


async def test_partitions_that_cannot_be_listed_are_told(office: Office) -> None:
    office.peers.connect("e2")
    office.executors.queues = [limits_of(Limits(), Limits(concurrency=1))]
    office.executors.failures["list_workflows"] = TIMEOUT
    office.hold(enqueued(queue_partition_key="a"))

    finding = await explain(office)

    assert "how many of its partition run" in finding.sentence


async def test_a_rate_whose_starts_cannot_be_listed_has_a_latest_moment(
    office: Office,
) -> None:
    office.peers.connect("e2")
    office.executors.queues = [bounded(rate_max=1, rate_period_secs=10.0)]
    office.executors.failures["list_workflows"] = TIMEOUT
    office.hold(enqueued(), *running(1))

    finding = await explain(office)

    assert finding.details["until"] == NOW + timedelta(seconds=10)


async def test_pending_work_that_names_no_executor_is_told(office: Office) -> None:
    office.hold(pending(executor_id=None))

    assert (await explain(office)).code is Code.OWNER_UNKNOWN
