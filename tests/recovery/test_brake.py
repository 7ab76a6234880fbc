"""Which workflows become suspects, and how the rows that hold them are spaced."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relay.ids import ExecutorId, WorkflowId
from relay.records import RecoveryRecord, RecoveryState, WorkflowLossRecord
from relay.recovery import brake, transitions
from relay.recovery.policy import (
    Acknowledged,
    BackOff,
    Hold,
    Order,
    OrderOutcome,
    Rest,
    Strand,
    Undelivered,
    Wait,
    Withdrawn,
)
from tests.recovery.records import ME, NOW, SHOP, V1, make_recovery

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
POISON, OTHER = WorkflowId("poison"), WorkflowId("other")
ORDER = Order(ExecutorId("peer"), V1, is_foreign=False)
REASON = "why"


def at(seconds: float) -> datetime:
    return NOW + seconds * SECOND


class Counting:
    """Counters that live through losses and orders, as the store keeps them."""

    def __init__(self) -> None:
        self.known: dict[WorkflowId, WorkflowLossRecord] = {}

    def lose(self, when: float, *pending: WorkflowId) -> None:
        """An executor with this work was lost for good."""
        row = replace(make_recovery(lost_at=at(when)), pending_ids=pending or (POISON,))
        self.known.update(brake.count_loss(row, {}, self.known))

    def hand_on(self, when: float) -> None:
        """An order to take the work over is written or acknowledged."""
        for id_, counter in self.known.items():
            self.known[id_] = replace(counter, handed_on_at=at(when))

    def losses(self, id_: WorkflowId = POISON) -> int:
        return self.known[id_].losses

    def suspects(self) -> tuple[WorkflowId, ...]:
        return brake.find_suspects(self.known)


@pytest.fixture
def counting() -> Counting:
    """Nothing has been lost yet."""
    return Counting()


def counter(
    losses: int, *, id_: WorkflowId = POISON, last: float = 0
) -> WorkflowLossRecord:
    return WorkflowLossRecord(
        application_id=SHOP.id,
        workflow_id=id_,
        name=None,
        losses=losses,
        last_lost_at=at(last),
        handed_on_at=None,
    )


# --- counting ------------------------------------------------------------------------


def test_three_losses_in_a_row_make_a_suspect(counting: Counting) -> None:
    """The first has no order before it; each of the others follows one closely."""
    counting.lose(0)
    counting.hand_on(60)
    counting.lose(65)
    counting.hand_on(125)
    assert counting.suspects() == ()

    counting.lose(130)

    assert counting.suspects() == (POISON,)
    assert counting.losses() == 3


@pytest.mark.parametrize(("after", "losses"), [(120, 2), (121, 1)])
def test_a_late_loss_is_the_first_of_a_new_row(
    counting: Counting, after: float, losses: int
) -> None:
    """Two minutes after the order was acknowledged still count, a second more not."""
    counting.lose(0)
    counting.hand_on(60)

    counting.lose(60 + after)

    assert counting.losses() == losses


@pytest.mark.parametrize(("apart", "losses"), [(10, 1), (11, 2)])
def test_losses_close_together_are_one(
    counting: Counting, apart: float, losses: int
) -> None:
    """A machine takes all its executors with it within moments."""
    counting.lose(0)
    counting.hand_on(1)

    counting.lose(apart)

    assert counting.losses() == losses


def test_an_executor_dying_every_ten_seconds_is_counted(counting: Counting) -> None:
    """The moment of one loss is that of the first: it cannot be put off for ever."""
    for when in range(0, 45, 9):
        counting.lose(when)
        counting.hand_on(when + 1)

    assert counting.losses() == 3


def test_the_same_loss_counts_once(counting: Counting) -> None:
    """A question is repeated, and a restart of Relay repeats all of them."""
    counting.lose(0)
    counting.hand_on(60)
    counting.lose(65)
    once = dict(counting.known)

    counting.lose(65)

    assert counting.known == once


def test_an_old_loss_that_is_found_late_changes_nothing(counting: Counting) -> None:
    """Grace periods differ, so deaths need not come in the order of the losses."""
    counting.lose(65)

    counting.lose(0)

    assert counting.known[POISON].last_lost_at == at(65)
    assert counting.losses() == 1


def test_a_loss_needs_an_order_of_its_own(counting: Counting) -> None:
    """Work that somebody else has moved says nothing about being handed on."""
    counting.lose(0)
    counting.hand_on(60)
    counting.lose(75)

    counting.lose(90)

    assert counting.losses() == 1


def test_a_loss_before_the_answer_counts(counting: Counting) -> None:
    """It died of an order written at 60 whose answer is noted at 64."""
    counting.lose(0)
    counting.hand_on(60)
    counting.hand_on(64)

    counting.lose(62)

    assert counting.losses() == 2


def test_a_loss_without_the_workflow_does_not_touch_it(counting: Counting) -> None:
    """Healthy executors that die in between neither count nor break the row."""
    counting.lose(0)
    counting.hand_on(60)
    counting.lose(65)
    counting.lose(90, OTHER)
    counting.hand_on(125)

    counting.lose(130)

    assert counting.suspects() == (POISON,)
    assert counting.losses(OTHER) == 1


def test_a_rolling_restart_looks_the_same(counting: Counting) -> None:
    """Work long enough to meet three replaced executors is suspected with the rest."""
    for replaced in (0, 90, 180):
        counting.lose(replaced, POISON, OTHER)
        counting.hand_on(replaced + 61)

    assert counting.suspects() == (POISON, OTHER)


def test_a_suspect_that_lives_long_is_forgiven(counting: Counting) -> None:
    """The next loss after a quiet time starts a new row."""
    counting.known = {POISON: counter(5)}
    counting.hand_on(60)

    counting.lose(600)

    assert counting.suspects() == ()


def test_a_recovery_by_hand_loses_nobody() -> None:
    """Nobody knows when its executor was lost; what was counted is looked up only."""
    row = replace(make_recovery(lost_at=None), pending_ids=(POISON, OTHER))
    known = {POISON: counter(3)}

    assert brake.count_loss(row, {}, known) == known


def test_a_workflow_whose_id_fits_into_no_index_is_not_counted(
    counting: Counting,
) -> None:
    """Its row would be refused, and with it the recovery of all that is pending."""
    endless = WorkflowId("x" * (brake.COUNTED_ID_BYTES + 1))

    counting.lose(0, endless, POISON)

    assert counting.known.keys() == {POISON}


def test_names_are_kept_as_far_as_they_were_told() -> None:
    """For the operator, who knows workflows by their names."""
    row = replace(make_recovery(lost_at=at(0)), pending_ids=(POISON, OTHER))

    counters = brake.count_loss(row, {POISON: "charge"}, {})

    assert [counters[id_].name for id_ in (POISON, OTHER)] == ["charge", None]


# --- braking -------------------------------------------------------------------------


def claimed(**changes: object) -> RecoveryRecord:
    return replace(
        make_recovery(),
        claimed_by=ME,
        pending_ids=(POISON,),
        **changes,  # type: ignore[arg-type]  # any field of the record
    )


def braked(level: int = 0) -> RecoveryRecord:
    """A row whose rest is over and that has been claimed for its order."""
    return claimed(state=RecoveryState.BRAKED, suspect_ids=(POISON,), brake_level=level)


def ordered(level: int = 0) -> RecoveryRecord:
    return transitions.ordered(braked(level), ORDER, timeout=5 * MINUTE, now=NOW)


@pytest.mark.parametrize(
    ("losses", "level", "rest"), [(3, 0, 1), (4, 1, 2), (5, 2, 5), (9, 2, 5)]
)
def test_the_first_suspect_puts_a_row_to_rest(
    losses: int, level: int, rest: int
) -> None:
    """The longer the more executors were lost to it, at most five minutes."""
    after = brake.applied(claimed(), {POISON: counter(losses)}, now=NOW)

    assert after.state is RecoveryState.BRAKED
    assert after.claimed_by is None
    assert after.suspect_ids == (POISON,)
    assert (after.brake_level, after.next_attempt_at) == (level, NOW + rest * MINUTE)
    assert after.reason == (
        f"workflow poison was pending in {losses} executors lost in a row"
    )


def test_the_worst_of_several_suspects_sets_the_rest() -> None:
    """All are shown."""
    counters = {POISON: counter(3), OTHER: counter(4, id_=OTHER)}

    after = brake.applied(claimed(), counters, now=NOW)

    assert after.suspect_ids == (POISON, OTHER)
    assert after.next_attempt_at == NOW + 2 * MINUTE
    assert after.reason is not None
    assert after.reason.startswith("workflow poison and 1 more were pending in 4")


@pytest.mark.parametrize("counters", [{}, {POISON: counter(2)}])
def test_a_row_without_suspects_goes_on(
    counters: Mapping[WorkflowId, WorkflowLossRecord],
) -> None:
    """Two losses are bad luck."""
    assert brake.applied(claimed(), counters, now=NOW) == claimed()


def test_a_row_that_has_rested_may_be_ordered() -> None:
    """It goes on under its claim, with the suspects it has now."""
    counters = {OTHER: counter(3, id_=OTHER)}

    after = brake.applied(braked(1), counters, now=NOW)

    assert after == replace(braked(1), suspect_ids=(OTHER,))


def test_a_row_whose_suspect_is_gone_is_released() -> None:
    """It was finished, cancelled or dead-lettered; the rest is like any other work."""
    after = brake.applied(braked(2), {OTHER: counter(1, id_=OTHER)}, now=NOW)

    assert (after.suspect_ids, after.brake_level) == ((), 0)
    assert after.claimed_by == ME


# --- spacing -------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "rest"), [(0, 2), (1, 5), (2, 5), (7, 5)])
@pytest.mark.parametrize(
    "decision", [BackOff(SECOND, REASON), Wait(REASON), Strand(MINUTE, REASON)]
)
def test_each_order_is_followed_by_a_longer_rest(
    level: int, rest: int, decision: Rest
) -> None:
    """Whatever became of it: one, two, then five minutes."""
    record = transitions.settled(ordered(level), braked(level), Acknowledged())

    after = transitions.rested(record, decision, now=NOW)

    assert after.state is RecoveryState.BRAKED
    assert after.claimed_by is None
    assert after.next_attempt_at == NOW + rest * MINUTE
    assert after.brake_level == level + 1
    assert after.reason == REASON


@pytest.mark.parametrize("outcome", [Undelivered(REASON), Withdrawn()])
def test_an_order_that_never_left_does_not_lengthen_the_rest(
    outcome: OrderOutcome,
) -> None:
    """It has killed nobody."""
    record = transitions.settled(ordered(1), braked(1), outcome)

    after = transitions.rested(record, BackOff(SECOND, REASON), now=NOW)

    assert after.next_attempt_at == NOW + 2 * MINUTE
    assert after.brake_level == 1


@pytest.mark.parametrize("decision", [BackOff(SECOND, REASON), Hold(SECOND, REASON)])
def test_a_braked_row_that_was_not_ordered_stays_braked(decision: Rest) -> None:
    """Its rest is over, so what kept it from its order is tried again soon."""
    after = transitions.rested(braked(), decision, now=NOW)

    assert after.state is RecoveryState.BRAKED
    assert after.next_attempt_at == NOW + SECOND
    assert after.suspect_ids == (POISON,)


def test_a_braked_row_waits_for_executors_like_any_other() -> None:
    """One that connects wakes it."""
    waiting = transitions.rested(braked(), Wait(REASON), now=NOW)
    stranded = transitions.rested(braked(), Strand(5 * MINUTE, REASON), now=NOW)

    assert waiting.state is RecoveryState.WAITING
    assert stranded.state is RecoveryState.STRANDED
    assert stranded.suspect_ids == waiting.suspect_ids == (POISON,)


def test_a_withdrawn_order_is_looked_at_again_at_once() -> None:
    """The executor is back, which ends the row."""
    record = transitions.settled(ordered(), braked(), Withdrawn())

    after = transitions.rested(record, Hold(SECOND, REASON), now=NOW)

    assert after.next_attempt_at == NOW + SECOND


def test_an_order_that_relay_did_not_survive_is_spaced_too() -> None:
    """It may have been carried out, so the next one comes no sooner."""
    after = transitions.orphaned(ordered(), now=NOW)

    assert after.state is RecoveryState.BRAKED
    assert after.next_attempt_at == NOW + 2 * MINUTE
    assert after.claimed_by is None


def test_retry_releases_the_brake() -> None:
    """An operator knows better: it is due now, without suspects."""
    after = transitions.released(replace(braked(2), claimed_by=None), now=NOW)

    assert after.state is RecoveryState.READY
    assert after.next_attempt_at == NOW
    assert (after.suspect_ids, after.brake_level) == ((), 0)


def test_an_acknowledgement_settles_the_order() -> None:
    """The moment is kept."""
    after = transitions.acknowledged(ordered(), now=at(1))

    assert (after.acknowledged_at, after.order_deadline) == (at(1), None)
