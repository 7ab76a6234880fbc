"""How a row of the ledger changes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.ids import ExecutorId, WorkflowId
from relay.records import OPEN_STATES, RecoveryRecord, RecoveryState
from relay.recovery import transitions
from relay.recovery.policy import (
    Acknowledged,
    BackOff,
    Finding,
    Finish,
    Hold,
    NoAnswer,
    NobodyResponsive,
    NobodyToAsk,
    NothingPending,
    Order,
    OrderOutcome,
    Refused,
    Strand,
    Unanswerable,
    Unanswered,
    Undelivered,
    Wait,
    Withdrawn,
    WorkRemains,
)
from tests.recovery.records import ME, NOW, V1, V2, make_recovery

PEER = ExecutorId("peer")
LATER = NOW + timedelta(seconds=30)
TIMEOUT = timedelta(minutes=5)
OWN = Order(PEER, V1, is_foreign=False)


def claimed(record: RecoveryRecord | None = None) -> RecoveryRecord:
    return replace(record or make_recovery(), claimed_by=ME, revision=1)


def ordered(order: Order = OWN) -> RecoveryRecord:
    return transitions.ordered(claimed(), order, timeout=TIMEOUT, now=LATER)


def test_new_recovery_is_due_at_once() -> None:
    """The death opens a row that nobody has to wake."""
    record = make_recovery()

    assert record.state is RecoveryState.READY
    assert record.next_attempt_at == NOW
    assert record.claimed_by is None


def test_finding_work_is_noted() -> None:
    """The row shows how much is pending, and the first ids."""
    ids = (WorkflowId("w-1"),)

    record = transitions.noted(claimed(), WorkRemains(PEER, 1, ids))

    assert (record.pending_count, record.pending_ids) == (1, ids)


def test_finding_nothing_is_noted() -> None:
    """What was pending before is pending no more."""
    before = replace(claimed(), pending_count=1, pending_ids=(WorkflowId("w-1"),))

    record = transitions.noted(before, NothingPending(PEER))

    assert (record.pending_count, record.pending_ids) == (0, ())


@pytest.mark.parametrize(
    "finding", [Unanswerable(), NoAnswer("x"), NobodyToAsk(), NobodyResponsive()]
)
def test_finding_that_says_nothing_changes_nothing(finding: Finding) -> None:
    """The last known figures stay."""
    before = replace(claimed(), pending_count=1)

    assert transitions.noted(before, finding) == before


def test_ordered_row_keeps_its_claim_and_has_a_deadline() -> None:
    """Until it is settled the order belongs to the attempt."""
    record = ordered()

    assert record.state is RecoveryState.ORDERED
    assert record.claimed_by == ME
    assert (record.target, record.attempts) == (PEER, 1)
    assert record.order_deadline == LATER + TIMEOUT
    assert record.next_attempt_at is None
    assert record.tried_versions == ()


def test_foreign_version_counts_as_tried() -> None:
    """One order a version, whatever becomes of it."""
    assert ordered(Order(PEER, V2, is_foreign=True)).tried_versions == (V2,)


@pytest.mark.parametrize("outcome", [Acknowledged(), Refused("why")])
def test_answer_settles_an_order(outcome: OrderOutcome) -> None:
    """Nothing is outstanding any more."""
    record = transitions.settled(ordered(), claimed(), outcome)

    assert record == replace(ordered(), order_deadline=None)


def test_order_without_an_answer_stays_outstanding() -> None:
    """Its target may still carry it out."""
    assert transitions.settled(ordered(), claimed(), Unanswered("x")) == ordered()


@pytest.mark.parametrize("outcome", [Undelivered("why"), Withdrawn()])
def test_order_that_never_left_does_not_count(outcome: OrderOutcome) -> None:
    """Neither as an attempt nor as a try of its version; the row stays claimed."""
    foreign = Order(PEER, V2, is_foreign=True)

    record = transitions.settled(ordered(foreign), claimed(), outcome)

    assert (record.attempts, record.target) == (0, None)
    assert (record.ordered_at, record.order_deadline) == (None, None)
    assert record.tried_versions == ()
    assert record.state is RecoveryState.ORDERED
    assert record.claimed_by == ME


def test_waiting_row_has_no_next_attempt() -> None:
    """An executor wakes it, not the time."""
    record = transitions.rested(ordered(), Wait("nobody"), now=LATER)

    assert record.state is RecoveryState.WAITING
    assert (record.next_attempt_at, record.claimed_by) == (None, None)
    assert record.reason == "nobody"


def test_stranded_row_is_looked_at_again() -> None:
    """Somebody may have migrated or cancelled the work."""
    delay = timedelta(minutes=5)

    record = transitions.rested(ordered(), Strand(delay, "no v1"), now=LATER)

    assert record.state is RecoveryState.STRANDED
    assert record.next_attempt_at == LATER + delay
    assert record.claimed_by is None


def test_failures_add_up_until_something_else_happens() -> None:
    """They set the next delay; waiting or stranding starts over."""
    why = BackOff(timedelta(seconds=1), "why")

    once = transitions.rested(claimed(), why, now=LATER)
    twice = transitions.rested(once, why, now=LATER)

    assert once.state is RecoveryState.BACKOFF
    assert once.next_attempt_at == LATER + timedelta(seconds=1)
    assert (once.failures, twice.failures) == (1, 2)
    assert transitions.rested(twice, Wait("x"), now=LATER).failures == 0


def test_hold_is_no_failure() -> None:
    """The row is as ready as before, only later."""
    before = replace(claimed(), failures=3)

    record = transitions.rested(before, Hold(timedelta(seconds=9), "x"), now=LATER)

    assert record.state is RecoveryState.READY
    assert record.failures == 3
    assert record.next_attempt_at == LATER + timedelta(seconds=9)


@pytest.mark.parametrize("is_verified", [True, False])
def test_finished_row_is_closed(is_verified: bool) -> None:
    """An unverified end says why it is one."""
    record = transitions.finished(ordered(), Finish(is_verified=is_verified), now=LATER)

    assert record.state is RecoveryState.DONE
    assert record.is_verified is is_verified
    assert (record.reason is None) is is_verified
    assert_closed(record)
    assert record.target == PEER


def test_an_end_without_an_order_says_of_which_version_nothing_was_pending() -> None:
    """No death has told that version: a slip looks the same."""
    finish = Finish(is_verified=True)
    after_death = replace(claimed(), lost_at=NOW)

    record = transitions.finished(claimed(), finish, now=LATER)

    assert record.is_verified is True
    assert record.reason == (
        "nothing of version v1 is pending; nobody was asked about other versions"
    )
    assert transitions.finished(after_death, finish, now=LATER).reason is None
    assert transitions.finished(ordered(), finish, now=LATER).reason is None


def test_returned_row_is_closed() -> None:
    """Its executor is alive; nothing is to be done."""
    record = transitions.returned(ordered(), now=LATER)

    assert record.state is RecoveryState.RETURNED
    assert_closed(record)


def test_abandoned_row_keeps_the_operators_reason() -> None:
    """It is final."""
    record = transitions.abandoned(ordered(), "lost cause", now=LATER)

    assert record.state is RecoveryState.ABANDONED
    assert record.reason == "lost cause"
    assert_closed(record)


def test_released_row_starts_over() -> None:
    """An operator's retry forgets delays and tried versions, not the history."""
    before = replace(
        make_recovery(),
        state=RecoveryState.STRANDED,
        attempts=4,
        failures=7,
        tried_versions=(V2,),
        next_attempt_at=NOW + timedelta(minutes=5),
    )

    record = transitions.released(before, now=LATER)

    assert record.state is RecoveryState.READY
    assert record.next_attempt_at == LATER
    assert (record.failures, record.tried_versions) == (0, ())
    assert record.attempts == 4


def test_orphaned_order_stays_outstanding() -> None:
    """It may have been carried out; the next attempt asks first."""
    record = transitions.orphaned(ordered(), now=LATER)

    assert record.state is RecoveryState.BACKOFF
    assert record.next_attempt_at == LATER
    assert record.order_deadline is not None
    assert record.claimed_by is None


def test_orphaned_claim_is_only_lifted() -> None:
    """A row that was claimed and not yet ordered is as it was."""
    assert transitions.orphaned(claimed(), now=LATER) == replace(
        claimed(), claimed_by=None
    )


def assert_closed(record: RecoveryRecord) -> None:
    assert record.state not in OPEN_STATES
    assert record.closed_at == LATER
    assert (record.claimed_by, record.next_attempt_at) == (None, None)
    assert record.order_deadline is None


def test_what_is_moved_to_another_version_is_nobodys() -> None:
    """Never due, until it is over; then at once, with the question first."""
    stranded = transitions.rested(
        claimed(), Strand(timedelta(minutes=5), "none of v1"), now=NOW
    )

    moving = transitions.migrating(stranded, V2)
    assert (moving.state, moving.next_attempt_at, moving.claimed_by) == (
        RecoveryState.MIGRATING,
        None,
        None,
    )
    assert moving.reason == "its work is being moved to version v2"

    over = transitions.migrated(moving, now=LATER)
    assert (over.state, over.next_attempt_at, over.reason) == (
        RecoveryState.READY,
        LATER,
        None,
    )
