"""Why a pending workflow does not move: its owner, case by case."""

from dataclasses import replace
from typing import Any

import pytest

from relay.diagnosis.facts import Facts
from relay.diagnosis.findings import Code
from relay.diagnosis.policy import diagnose
from relay.ids import AppVersion, ExecutorId, WorkflowId
from relay.liveness.states import ExecutorStatus
from relay.records import OPEN_STATES, OwnerFacts, RecoveryState
from tests.diagnosis.cases import LIVE, MINUTE, SECOND, owned, pending, sight
from tests.diagnosis.peers import NOW
from tests.recovery.records import dead_ref, make_recovery

DEAD = OwnerFacts(status=ExecutorStatus.DEAD, app_version=AppVersion("v1"))


def recovering(state: RecoveryState, **changes: Any) -> Facts:
    """The owner is dead since a minute, and its recovery stands so."""
    recovery = make_recovery(dead_ref("e1"), lost_at=NOW - MINUTE, now=NOW)
    return owned(DEAD, recovery=replace(recovery, state=state, **changes))


def test_a_workflow_in_an_executor_that_answers_runs() -> None:
    row = pending(dequeued_at=NOW - SECOND)

    finding = diagnose(row, owned(live=sight()))

    assert finding.code is Code.RUNNING
    assert finding.sentence == (
        "It runs in executor e1, which is connected and answers."
    )
    assert finding.since == NOW - SECOND
    assert finding.details == {"executorId": "e1", "lastSeenAt": NOW - SECOND}


def test_a_workflow_that_was_never_in_a_queue_runs_since_its_creation() -> None:
    assert diagnose(pending(), owned(live=sight())).since == NOW - MINUTE


def test_a_socket_is_believed_before_a_row() -> None:
    """Its recovery is still open in the rows, and will be closed."""
    facts = recovering(RecoveryState.READY)
    assert facts.owner is not None

    finding = diagnose(
        pending(), replace(facts, owner=replace(facts.owner, live=sight()))
    )

    assert finding.code is Code.RUNNING


def test_of_an_id_that_several_processes_use_nothing_is_guessed() -> None:
    """It may run, or not, and so is not left out of what needs attention."""
    finding = diagnose(pending(), owned(live=sight(is_colliding=True)))

    assert finding.code is Code.UNKNOWN
    assert "which of them runs it, if one does, is not known" in finding.sentence
    assert finding.details["collision"] is True


@pytest.mark.parametrize(
    ("silence", "words"), [(45 * SECOND, "45 s"), (3 * MINUTE, "3 min")]
)
def test_an_executor_that_does_not_answer_is_silent_for_so_long(
    silence: Any, words: str
) -> None:
    live = sight(is_responsive=False, last_seen_at=NOW - silence)

    finding = diagnose(pending(), owned(live=live))

    assert finding.code is Code.OWNER_UNRESPONSIVE
    assert f"is {words} old" in finding.sentence
    assert finding.details["lastSeenAt"] == NOW - silence


@pytest.mark.parametrize(
    "facts",
    [
        owned(live=sight("v2")),
        owned(
            OwnerFacts(status=ExecutorStatus.DISCONNECTED, app_version=AppVersion("v2"))
        ),
    ],
)
def test_an_executor_of_another_version_runs_it_no_more(facts: Facts) -> None:
    """Connected or in its grace: an id that is there is not recovered."""
    finding = diagnose(pending(), facts)

    assert finding.code is Code.OWNER_OTHER_VERSION
    assert finding.details == {
        "executorId": "e1",
        "appVersion": "v1",
        "executorVersion": "v2",
    }


def test_a_row_without_a_version_may_be_of_any() -> None:
    finding = diagnose(pending(app_version=None), owned(live=sight("v2")))

    assert finding.code is Code.RUNNING


def test_a_disconnected_owner_has_until_its_deadline() -> None:
    facts = owned(
        OwnerFacts(status=ExecutorStatus.DISCONNECTED, app_version=AppVersion("v1")),
        status_since=NOW - SECOND,
        dead_after=NOW + MINUTE,
    )

    finding = diagnose(pending(), facts)

    assert finding.code is Code.OWNER_DISCONNECTED
    assert "unless it is back by 2026-01-01T12:01:00Z" in finding.sentence
    assert finding.since == NOW - SECOND
    assert finding.details["deadAfter"] == NOW + MINUTE


def test_a_healthy_row_without_a_socket_is_not_guessed_about() -> None:
    facts = owned(
        OwnerFacts(status=ExecutorStatus.HEALTHY, app_version=AppVersion("v1"))
    )

    finding = diagnose(pending(), facts)

    assert finding.code is Code.UNKNOWN
    assert "Ask again" in finding.sentence


def test_a_recovery_that_is_due_names_the_moment() -> None:
    facts = recovering(RecoveryState.READY, next_attempt_at=NOW + SECOND)

    finding = diagnose(pending(), facts)

    assert finding.code is Code.RECOVERY_SCHEDULED
    assert "is due at 2026-01-01T12:00:01Z" in finding.sentence
    assert finding.since == NOW - MINUTE
    assert finding.details["recoveryId"] == "r-1"


def test_a_recovery_that_failed_says_why() -> None:
    facts = recovering(
        RecoveryState.BACKOFF, next_attempt_at=NOW + SECOND, reason="work remains"
    )

    finding = diagnose(pending(), facts)

    assert finding.code is Code.RECOVERY_SCHEDULED
    assert finding.sentence.endswith("The last attempt: work remains.")
    assert finding.details["state"] == "BACKOFF"


def test_a_recovery_that_waits_for_anybody() -> None:
    finding = diagnose(pending(), recovering(RecoveryState.WAITING))

    assert finding.code is Code.RECOVERY_WAITING
    assert "no executor of the application that answers" in finding.sentence


@pytest.mark.parametrize(
    ("acknowledged_at", "words"),
    [
        (None, "has not answered yet"),
        (NOW - MINUTE, "has not answered yet"),
        (NOW, "this is being verified"),
    ],
)
def test_an_order_that_is_out_names_its_target(
    acknowledged_at: Any, words: str
) -> None:
    """An acknowledgement of an earlier order is none of this one."""
    facts = recovering(
        RecoveryState.ORDERED,
        target=ExecutorId("e2"),
        ordered_at=NOW - SECOND,
        acknowledged_at=acknowledged_at,
    )

    finding = diagnose(pending(), facts)

    assert finding.code is Code.RECOVERY_ORDERED
    assert "e2 was ordered to take over at 2026-01-01T11:59:59Z" in finding.sentence
    assert words in finding.sentence
    assert finding.details["target"] == "e2"


@pytest.mark.parametrize(
    ("suspect", "words", "is_suspect"),
    [
        ("w1", "this workflow seems to kill its executors", True),
        ("w9", "a workflow beside it seems to kill executors (w9)", False),
    ],
)
def test_a_brake_names_the_suspects(suspect: str, words: str, is_suspect: Any) -> None:
    facts = recovering(
        RecoveryState.BRAKED,
        suspect_ids=[WorkflowId(suspect)],
        next_attempt_at=NOW + MINUTE,
        brake_level=2,
    )

    finding = diagnose(pending(), facts)

    assert finding.code is Code.RECOVERY_BRAKED
    assert words in finding.sentence
    assert finding.details["suspectIds"] == [suspect]
    assert finding.details["isSuspect"] is is_suspect
    assert finding.details["brakeLevel"] == 2


def test_stranded_work_names_its_version_and_those_that_live() -> None:
    facts = replace(
        recovering(RecoveryState.STRANDED), live={AppVersion("v2"): [ExecutorId("e2")]}
    )

    finding = diagnose(pending(), facts)

    assert finding.code is Code.RECOVERY_STRANDED
    assert "no executor of its version v1 is connected" in finding.sentence
    assert finding.details["liveVersions"] == ["v2"]


def test_stranded_work_whose_version_has_just_come_is_not_said_to_have_nobody() -> None:
    finding = diagnose(pending(), recovering(RecoveryState.STRANDED))

    assert AppVersion("v1") in LIVE
    assert "could not be handed to one of its version v1 yet" in finding.sentence


def test_work_that_is_being_moved_says_so() -> None:
    finding = diagnose(pending(), recovering(RecoveryState.MIGRATING))

    assert finding.code is Code.RECOVERY_MIGRATING


@pytest.mark.parametrize("state", sorted(OPEN_STATES))
def test_every_open_state_of_the_ledger_is_told(state: RecoveryState) -> None:
    finding = diagnose(pending(), recovering(state))

    assert finding.code.value.startswith("recovery_")
    assert {"executorId", "recoveryId", "state", "attempts"} <= set(finding.details)


@pytest.mark.parametrize("facts", [DEAD, OwnerFacts(deleted_at=NOW - MINUTE)])
def test_a_recovery_of_another_version_comes_before_this_work(
    facts: OwnerFacts,
) -> None:
    """Of one executor, one version is recovered at a time."""
    recovery = make_recovery(dead_ref("e1"), app_version=AppVersion("v0"), now=NOW)

    finding = diagnose(pending(), owned(facts, recovery=recovery))

    assert finding.code is Code.RECOVERY_SCHEDULED
    assert "its work of version v0 is recovered first" in finding.sentence


def test_a_recovery_ordered_for_another_version_of_a_stranger_is_not_its_own() -> None:
    recovery = make_recovery(dead_ref("e1"), app_version=AppVersion("v0"), now=NOW)

    finding = diagnose(pending(), owned(recovery=recovery))

    assert finding.code is Code.OWNER_UNKNOWN


@pytest.mark.parametrize("is_open", [False, True])
def test_a_row_without_a_socket_makes_nobody_seen(is_open: bool) -> None:
    """An operator ordered work of it once, or does so now, of another version."""
    recovery = make_recovery(dead_ref("e1"), app_version=AppVersion("v0"), now=NOW)
    facts = replace(DEAD, is_placeholder=True, last_closed_at=NOW - MINUTE)

    finding = diagnose(pending(), owned(facts, recovery=recovery if is_open else None))

    assert finding.code is Code.OWNER_UNKNOWN


def test_a_recovery_that_was_ordered_for_somebody_unseen_counts() -> None:
    recovery = make_recovery(dead_ref("e1"), now=NOW)

    finding = diagnose(pending(), owned(recovery=recovery))

    assert finding.code is Code.RECOVERY_SCHEDULED
    assert finding.since == NOW


def test_work_that_an_operator_gave_up_says_so() -> None:
    facts = replace(DEAD, is_abandoned=True, last_closed_at=NOW - MINUTE)

    finding = diagnose(pending(), owned(facts))

    assert finding.code is Code.RECOVERY_ABANDONED
    assert finding.since == NOW - MINUTE


@pytest.mark.parametrize(
    "facts",
    [
        replace(DEAD, last_closed_at=NOW - MINUTE),
        OwnerFacts(deleted_at=NOW - MINUTE),
    ],
)
def test_work_of_an_executor_whose_recovery_is_over_is_the_next_census(
    facts: OwnerFacts,
) -> None:
    """Dead and with a record, or forgotten with a tombstone."""
    finding = diagnose(pending(), owned(facts))

    assert finding.code is Code.RECOVERY_ENDED
    assert "ended at 2026-01-01T11:59:00Z" in finding.sentence
    assert finding.since == NOW - MINUTE


def test_an_owner_whom_nobody_has_seen_is_told_with_the_time_it_was_found() -> None:
    finding = diagnose(pending(), owned(listed_at=NOW - MINUTE))

    assert finding.code is Code.OWNER_UNKNOWN
    assert "has never seen its executor e1" in finding.sentence
    assert finding.since == NOW - MINUTE


def test_an_owner_of_another_application_is_not_called_unseen() -> None:
    finding = diagnose(pending(), owned(OwnerFacts(is_elsewhere=True)))

    assert finding.code is Code.OWNER_UNKNOWN
    assert "in another application only" in finding.sentence


def test_pending_work_without_an_owner_says_so() -> None:
    finding = diagnose(pending(executor_id=None), Facts(now=NOW, live=LIVE))

    assert finding.code is Code.OWNER_UNKNOWN
    assert "names no executor" in finding.sentence
