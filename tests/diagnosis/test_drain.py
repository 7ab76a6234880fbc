"""Which versions may be retired, case by case."""

from collections.abc import Mapping
from typing import Any

import pytest

from relay.diagnosis.drain import (
    DrainFacts,
    VersionCrew,
    VersionStanding,
    VersionWork,
    judge_versions,
)
from relay.diagnosis.findings import Gap
from relay.ids import AppVersion
from relay.liveness.states import ExecutorStatus
from tests.diagnosis.peers import NOW

V1, V2 = AppVersion("v1"), AppVersion("v2")
CREW = VersionCrew(by_status={ExecutorStatus.HEALTHY: 2}, last_seen_at=NOW)


def judge(**changes: Any) -> Mapping[str, VersionStanding]:
    """The standings of `v1`, which is empty, and of `v2`, the latest, with changes."""
    fields: dict[str, Any] = {
        "crews": {V1: CREW},
        "work": {V2: VersionWork(pending=1)},
        "names": [V2, V1],
        "recovering": (),
        "is_disputed": False,
    }
    standings = judge_versions(DrainFacts(**{**fields, **changes}))
    return {standing.version: standing for standing in standings}


def test_a_version_without_work_may_be_retired() -> None:
    standing = judge(crews={})[V1]

    assert standing.is_safe
    assert standing.reason == "Nothing of it is pending, enqueued or delayed."
    assert (standing.work, standing.is_latest) == (VersionWork(), False)


def test_executors_that_are_still_called_are_spoken_of() -> None:
    """Relay cannot see who starts work in them directly."""
    standing = judge()[V1]

    assert standing.is_safe
    assert "still calls its 2 executors directly" in standing.reason


OBSTACLES: list[tuple[dict[str, Any], str]] = [
    (
        {"work": {V1: VersionWork(pending=1)}},
        "It has 1 unfinished workflow: 1 pending.",
    ),
    (
        {"work": {V1: VersionWork(enqueued=2, delayed=3)}},
        "It has 5 unfinished workflows: 2 enqueued, 3 delayed.",
    ),
    ({"work": Gap("nobody is there")}, "could not be counted: nobody is there."),
    ({"recovering": [V1]}, "A recovery of one of its executors is not over yet."),
    ({"is_disputed": True}, "read different databases"),
    ({"names": [V1, V2]}, "It is the latest version: new work goes to it."),
    ({"names": Gap("the SDK is too old")}, "is not known: the SDK is too old."),
    ({"names": []}, "is not known: the application lists no version."),
]


@pytest.mark.parametrize(("changes", "words"), OBSTACLES)
def test_whatever_is_left_or_not_known_speaks_against_it(
    changes: dict[str, Any], words: str
) -> None:
    standing = judge(**changes)[V1]

    assert not standing.is_safe
    assert words in standing.reason


def test_counts_that_nobody_gave_are_not_shown_as_none() -> None:
    standing = judge(work=Gap("nobody"), names=Gap("nobody"))[V1]

    assert (standing.work, standing.is_latest) == (None, None)
    assert standing.crew == CREW


def test_a_version_is_listed_wherever_it_is_known_from() -> None:
    """Executors, work, the application's own list, the ledger; by name."""
    standings = judge(
        crews={AppVersion("a"): CREW},
        work={AppVersion("b"): VersionWork(), None: VersionWork(enqueued=1)},
        names=[AppVersion("d")],
        recovering=[AppVersion("c")],
    )

    assert list(standings) == ["a", "b", "c", "d"]
