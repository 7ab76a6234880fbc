"""Why an enqueued workflow is not started, and what is not pending: case by case."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relay.diagnosis.facts import Facts, Running
from relay.diagnosis.findings import Code, Finding, Gap, say_span
from relay.diagnosis.policy import diagnose
from relay.diagnosis.queueing import UNLIMITED
from relay.ids import AppVersion, ExecutorId
from relay.protocol.queues import Limits
from tests.diagnosis.cases import (
    LIVE,
    MINUTE,
    SECOND,
    bounded,
    enqueued,
    limits_of,
    queued,
)
from tests.diagnosis.peers import NOW

SOME = Gap("the SDK is too old")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("SUCCESS", "with success"),
        ("ERROR", "with an error"),
        ("CANCELLED", "cancelled"),
        ("MAX_RECOVERY_ATTEMPTS_EXCEEDED", "recovered more often than it may be"),
    ],
)
def test_what_has_ended_says_how(status: str, words: str) -> None:
    finding = diagnose(enqueued(status=status, completed_at=NOW), queued())

    assert finding.code is Code.FINISHED
    assert words in finding.sentence
    assert (finding.since, finding.details) == (NOW, {"status": status})


def test_a_status_that_nobody_knows_is_said_to_be_unknown() -> None:
    finding = diagnose(enqueued(status="PAUSED"), queued())

    assert finding.code is Code.UNKNOWN
    assert "PAUSED, which Relay does not know" in finding.sentence


@pytest.mark.parametrize("status", ["DELAYED", "ENQUEUED"])
def test_a_delay_names_its_end(status: str) -> None:
    row = enqueued(status=status, delay_until=NOW + MINUTE)

    finding = diagnose(row, queued())

    assert finding.code is Code.DELAYED
    assert finding.sentence == "It is delayed until 2026-01-01T12:01:00Z."
    assert finding.details["until"] == NOW + MINUTE


def test_a_delay_that_has_ended_is_one_no_more_where_it_was_enqueued() -> None:
    finding = diagnose(enqueued(delay_until=NOW), queued())

    assert finding.code is Code.QUEUE_WAITING


def test_a_delay_that_has_ended_and_was_not_noticed_says_so() -> None:
    finding = diagnose(enqueued(status="DELAYED", delay_until=NOW), queued())

    assert finding.code is Code.DELAYED
    assert "no executor has put it into its queue yet" in finding.sentence


def test_a_delay_of_unknown_length_says_so() -> None:
    finding = diagnose(enqueued(status="DELAYED"), queued())

    assert "do not say until when" in finding.sentence
    assert "until" not in finding.details


def test_work_of_a_version_that_nobody_has_names_those_that_live() -> None:
    finding = diagnose(enqueued(app_version="v0"), queued())

    assert finding.code is Code.VERSION_ABSENT
    assert "no executor of its version v0 is connected" in finding.sentence
    assert finding.details["liveVersions"] == ["v1"]


def test_work_without_a_version_waits_for_the_latest() -> None:
    facts = replace(queued(), latest=AppVersion("v2"))

    finding = diagnose(enqueued(app_version=None), facts)

    assert finding.code is Code.VERSION_ABSENT
    assert "no executor of the latest version v2 is connected" in finding.sentence


@pytest.mark.parametrize("latest", [AppVersion("v1"), SOME, None])
def test_work_without_a_version_waits_in_its_queue_where_somebody_may_take_it(
    latest: Any,
) -> None:
    """Also where the latest version is not known: any may be it."""
    finding = diagnose(enqueued(app_version=None), replace(queued(), latest=latest))

    assert finding.code is Code.QUEUE_WAITING


def test_nobody_at_all_is_told_as_such() -> None:
    finding = diagnose(enqueued(app_version=None), replace(queued(), live={}))

    assert finding.code is Code.VERSION_ABSENT
    assert finding.sentence == "No executor of the application is connected."


def test_an_enqueued_workflow_without_a_queue_is_not_guessed_about() -> None:
    finding = diagnose(enqueued(queue_name=None), Facts(now=NOW, live=LIVE))

    assert finding.code is Code.UNKNOWN


@pytest.mark.parametrize(
    ("running", "code"), [(9, Code.QUEUE_WAITING), (10, Code.QUEUE_FULL)]
)
def test_a_queue_is_full_at_its_limit(running: int, code: Code) -> None:
    facts = queued(
        limits=bounded(concurrency=10), running=Running({"e2": running - 1, "gone": 1})
    )

    assert diagnose(enqueued(), facts).code is code


def test_a_full_queue_says_who_holds_it() -> None:
    facts = queued(
        limits=bounded(concurrency=3), running=Running({"e2": 1, "gone": 2}), ahead=7
    )

    finding = diagnose(enqueued(), facts)

    assert finding.sentence == "Queue 'jobs' is at its limit: 3 of 3 run."
    assert finding.details == {
        "queueName": "jobs",
        "limit": "global",
        "most": 3,
        "running": 3,
        "runningIn": [
            {"executorId": "gone", "count": 2},
            {"executorId": "e2", "count": 1},
        ],
        "ahead": 7,
    }


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"e2": 2, "e3": 1}, Code.QUEUE_WAITING),
        ({"e2": 2, "gone": 9}, Code.QUEUE_WAITING),
        ({"e2": 2, "e3": 3}, Code.QUEUE_FULL),
    ],
)
def test_workers_are_full_when_each_that_may_take_it_is(
    counts: dict[str, int], code: Code
) -> None:
    """What a dead executor holds fills no other one."""
    facts = queued(limits=bounded(worker_concurrency=2), running=Running(counts))

    finding = diagnose(enqueued(), facts)

    assert finding.code is code
    assert code is Code.QUEUE_WAITING or finding.details["limit"] == "worker"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["e2"], "Executor e2, the only one that may take it from queue 'jobs', runs"),
        (
            ["e2", "e3"],
            "Each of the 2 executors that may take it from queue 'jobs' runs",
        ),
    ],
)
def test_full_workers_are_counted_or_named(names: list[str], words: str) -> None:
    facts = queued(
        limits=bounded(worker_concurrency=1), running=Running({"e2": 1, "e3": 1})
    )
    live = {AppVersion("v1"): [ExecutorId(name) for name in names]}

    finding = diagnose(enqueued(), replace(facts, live=live))

    assert finding.sentence.startswith(words)


def test_executors_of_other_versions_do_not_take_it() -> None:
    live = {**LIVE, AppVersion("v2"): [ExecutorId("idle")]}
    facts = queued(
        limits=bounded(worker_concurrency=1), running=Running({"e2": 1, "e3": 1})
    )

    finding = diagnose(enqueued(), replace(facts, live=live))

    assert finding.code is Code.QUEUE_FULL


@pytest.mark.parametrize(
    ("count", "is_complete", "code", "doubts"),
    [
        (2, True, Code.QUEUE_FULL, False),
        (2, False, Code.QUEUE_FULL, False),
        (1, True, Code.QUEUE_WAITING, False),
        (1, False, Code.QUEUE_WAITING, True),
    ],
)
def test_a_partition_is_full_at_its_limit(
    count: int, is_complete: Any, code: Code, doubts: Any
) -> None:
    """A count of some is enough to say that it is full, and not that it is not."""
    facts = queued(
        limits=limits_of(Limits(), Limits(concurrency=2)),
        partition_running=Running({"e2": count}, is_complete),
    )

    finding = diagnose(enqueued(queue_partition_key="p"), facts)

    assert finding.code is code
    assert ("unknown" in finding.details) is doubts
    assert code is Code.QUEUE_WAITING or finding.details["limit"] == "partition"


def test_workers_may_be_full_of_one_partition() -> None:
    facts = queued(
        limits=limits_of(Limits(), Limits(worker_concurrency=1)),
        partition_running=Running({"e2": 1, "e3": 1}),
    )

    finding = diagnose(enqueued(queue_partition_key="p"), facts)

    assert (finding.details["limit"], finding.details["scope"]) == (
        "worker",
        "partition",
    )


@pytest.mark.parametrize(
    ("started", "code"), [(4, Code.QUEUE_WAITING), (5, Code.RATE_LIMITED)]
)
def test_a_rate_is_spent_at_its_limit(started: int, code: Code) -> None:
    facts = queued(limits=bounded(rate_max=5, rate_period_secs=60.0), started=started)

    assert diagnose(enqueued(), facts).code is code


@pytest.mark.parametrize(
    ("slot_at", "until", "words"),
    [
        (NOW + SECOND, NOW + SECOND, "may start at 2026-01-01T12:00:01Z"),
        (None, NOW + MINUTE, "left that time by 2026-01-01T12:01:00Z"),
    ],
)
def test_a_spent_rate_says_until_when(slot_at: Any, until: Any, words: str) -> None:
    facts = queued(
        limits=bounded(rate_max=5, rate_period_secs=60.0), started=6, slot_at=slot_at
    )

    finding = diagnose(enqueued(), facts)

    assert words in finding.sentence
    assert finding.details["until"] == until
    assert (finding.details["started"], finding.details["rateLimitMax"]) == (6, 5)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_rate_without_a_span_is_no_limit(seconds: float) -> None:
    facts = queued(limits=bounded(rate_max=0, rate_period_secs=seconds), started=9)

    assert diagnose(enqueued(), facts).code is Code.QUEUE_WAITING


def test_a_rate_over_an_age_does_not_break_the_calendar() -> None:
    facts = queued(limits=bounded(rate_max=1, rate_period_secs=1e300), started=9)

    assert diagnose(enqueued(), facts).code is Code.RATE_LIMITED


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, "in queue 'jobs', where none is older"),
        (1, "behind 1 older workflow."),
        (12, "behind 12 older workflows."),
    ],
)
def test_a_place_in_the_queue_is_told(ahead: int, words: str) -> None:
    finding = diagnose(enqueued(), queued(ahead=ahead))

    assert finding.code is Code.QUEUE_WAITING
    assert words in finding.sentence
    assert finding.details["ahead"] == ahead
    assert finding.since == NOW - MINUTE


@pytest.mark.parametrize(
    ("priority", "words"),
    [(0, "before those that have a priority number"), (3, "smaller priority number")],
)
def test_a_queue_with_priorities_says_what_they_change(
    priority: int, words: str
) -> None:
    limits = replace(bounded(), priority_enabled=True)

    finding = diagnose(enqueued(priority=priority), queued(limits=limits, ahead=2))

    assert words in finding.sentence


GAPS: list[tuple[dict[str, Any], str]] = [
    ({"limits": SOME}, "the limits of the queue"),
    ({"limits": None}, "its limits stand in the code"),
    ({"ahead": SOME}, "how many are ahead of it"),
    ({"limits": bounded(concurrency=1), "running": SOME}, "how many of the queue run"),
    (
        {"limits": bounded(worker_concurrency=1), "running": SOME},
        "what runs in each executor",
    ),
    (
        {"limits": bounded(rate_max=1, rate_period_secs=1.0), "started": SOME},
        "whether the rate limit is spent",
    ),
    (
        {"limits": limits_of(Limits(), Limits(rate_max=1, rate_period_secs=1.0))},
        "whether the rate limit of its partition is spent",
    ),
]


@pytest.mark.parametrize(("changes", "words"), GAPS)
def test_what_cannot_be_checked_is_said_beside_the_place(
    changes: dict[str, Any], words: str
) -> None:
    finding = diagnose(enqueued(queue_partition_key="p"), queued(**changes))

    assert finding.code is Code.QUEUE_WAITING
    assert "Not known: " in finding.sentence
    assert any(words in doubt for doubt in finding.details["unknown"])  # type: ignore[attr-defined]  # a list


def test_the_queue_that_every_sdk_has_is_known_to_have_no_limit() -> None:
    finding: Finding = diagnose(
        enqueued(queue_name=UNLIMITED), queued(name=UNLIMITED, limits=None)
    )

    assert "unknown" not in finding.details


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=119.4), "119 s"),
        (timedelta(seconds=120), "2 min"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=2), "2 h"),
    ],
)
def test_spans_are_said_in_one_unit(span: timedelta, words: str) -> None:
    assert say_span(span) == words
