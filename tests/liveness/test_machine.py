"""Each line of the liveness table, and the stale news next to it."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from relay.ids import ConnectionId, Epoch
from relay.liveness.effects import (
    CloseConnection,
    ExtendGrace,
    OpenRecovery,
    RecordDead,
    RecordDisconnected,
    RecordHealthy,
    ReportCollision,
    ReportUnseen,
    ReturnFromRecovery,
)
from relay.liveness.events import (
    ConnectionLost,
    Event,
    ExecutorConnected,
    GraceElapsed,
    OwnerLost,
)
from relay.liveness.machine import Step, step
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import Dead, Disconnected, Grace, Healthy, State, Unknown
from relay.testing.playbook import Playbook

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
POLICY = LivenessPolicy(grace=30 * SECOND, fault_grace=60 * SECOND)
OLD = ConnectionId("old")
NEW = ConnectionId("new")
ONE = Epoch(1)
TWO = Epoch(2)

GRACE = Grace(started_at=NOON, deadline=NOON + 30 * SECOND, is_fault=False)
HEALTHY = Healthy(epoch=ONE, connection_id=OLD)
DISCONNECTED = Disconnected(epoch=ONE, connection_id=OLD, grace=GRACE, unseen_starts=0)
DEAD = Dead(epoch=ONE, connection_id=OLD)


def connected(connection: ConnectionId, *, is_collision: bool = False) -> Event:
    return ExecutorConnected(
        at=NOON, connection_id=connection, is_collision=is_collision
    )


def lost(connection: ConnectionId, *, is_fault: bool = False) -> Event:
    return ConnectionLost(at=NOON, connection_id=connection, is_fault=is_fault)


def test_a_first_connection_is_healthy() -> None:
    """Whoever is unknown starts at epoch 1, and an ordered recovery of it ends."""
    with Playbook(POLICY) as play:
        play.feed(connected(OLD))
        play.expect(RecordHealthy(epoch=ONE, connection_id=OLD), ReturnFromRecovery())
        play.believe(HEALTHY)


def test_a_newer_connection_supersedes_the_older() -> None:
    """The newest connection wins; its row is written before the old one is closed."""
    with Playbook(POLICY, HEALTHY) as play:
        play.feed(connected(NEW))
        play.expect(
            RecordHealthy(epoch=TWO, connection_id=NEW),
            CloseConnection(connection_id=OLD),
        )
        play.believe(Healthy(epoch=TWO, connection_id=NEW))


def test_a_collision_is_reported_and_nothing_closed() -> None:
    """Two living processes with one id are not made to fight for it."""
    with Playbook(POLICY, HEALTHY) as play:
        play.feed(connected(NEW, is_collision=True))
        play.expect(RecordHealthy(epoch=TWO, connection_id=NEW), ReportCollision())
        play.believe(Healthy(epoch=TWO, connection_id=NEW))


def test_a_lost_connection_starts_the_grace() -> None:
    """The grace is the application's own, counted from the loss."""
    with Playbook(POLICY, HEALTHY) as play:
        play.feed(lost(OLD))
        play.expect(RecordDisconnected(grace=GRACE, unseen_starts=0))
        play.believe(DISCONNECTED)


def test_a_fault_of_relay_gives_the_longer_grace() -> None:
    """A loss that Relay caused gets the floor, when the floor is the longer one."""
    grace = Grace(started_at=NOON, deadline=NOON + 60 * SECOND, is_fault=True)

    with Playbook(POLICY, HEALTHY) as play:
        play.feed(lost(OLD, is_fault=True))
        play.expect(RecordDisconnected(grace=grace, unseen_starts=0))


def test_a_fault_of_relay_does_not_shorten_a_long_grace() -> None:
    """The floor is a floor: an application with a longer grace keeps it."""
    policy = LivenessPolicy(grace=300 * SECOND, fault_grace=60 * SECOND)
    grace = Grace(started_at=NOON, deadline=NOON + 300 * SECOND, is_fault=True)

    with Playbook(policy, HEALTHY) as play:
        play.feed(lost(OLD, is_fault=True))
        play.expect(RecordDisconnected(grace=grace, unseen_starts=0))


def test_a_return_within_the_grace_needs_no_recovery() -> None:
    """Nothing is recovered for an executor that is back in time."""
    with Playbook(POLICY, DISCONNECTED) as play:
        play.feed(connected(NEW))
        play.expect(RecordHealthy(epoch=TWO, connection_id=NEW))
        play.believe(Healthy(epoch=TWO, connection_id=NEW))


def test_an_elapsed_grace_is_death_and_opens_one_recovery() -> None:
    """The recovery is opened together with the death, in the same epoch."""
    with Playbook(POLICY, DISCONNECTED) as play:
        play.feed(GraceElapsed(at=GRACE.deadline, deadline=GRACE.deadline))
        play.expect(RecordDead(epoch=ONE), OpenRecovery(epoch=ONE))
        play.believe(DEAD)
        play.feed(GraceElapsed(at=GRACE.deadline, deadline=GRACE.deadline))
        play.believe(DEAD)


def test_a_return_of_the_dead_ends_the_recovery() -> None:
    """An executor that is on line again is nobody's work to recover."""
    with Playbook(POLICY, DEAD) as play:
        play.feed(connected(NEW))
        play.expect(RecordHealthy(epoch=TWO, connection_id=NEW), ReturnFromRecovery())
        play.believe(Healthy(epoch=TWO, connection_id=NEW))


def test_a_start_of_relay_gives_everybody_a_fresh_grace() -> None:
    """Whoever was on line or in its grace may redial, with the floor of a fault."""
    later = NOON + 10 * SECOND
    grace = Grace(started_at=later, deadline=later + 60 * SECOND, is_fault=True)

    with Playbook(POLICY, HEALTHY) as play:
        play.feed(OwnerLost(at=later, epoch=ONE))
        play.expect(RecordDisconnected(grace=grace, unseen_starts=1))
    with Playbook(POLICY, DISCONNECTED) as play:
        play.feed(OwnerLost(at=later, epoch=ONE))
        play.expect(ExtendGrace(grace=grace, unseen_starts=1))


def test_a_start_of_relay_leaves_the_dead_dead() -> None:
    """A restart neither revives nor kills."""
    with Playbook(POLICY, DEAD) as play:
        play.feed(OwnerLost(at=NOON, epoch=ONE))
        play.believe(DEAD)


def test_three_starts_in_a_row_are_enough() -> None:
    """An executor that does not show up cannot live on Relay's restarts for ever."""
    with Playbook(POLICY, HEALTHY) as play:
        for start in range(1, 4):
            at = NOON + start * 50 * SECOND
            grace = POLICY.open_grace(at, is_fault=True)
            play.feed(OwnerLost(at=at, epoch=ONE))
            effect = RecordDisconnected if start == 1 else ExtendGrace
            play.expect(effect(grace=grace, unseen_starts=start))
        before = play.state
        play.feed(OwnerLost(at=NOON + 200 * SECOND, epoch=ONE))
        play.expect(ReportUnseen(unseen_starts=3))
        play.believe(before)


def test_a_connection_starts_the_count_of_starts_anew() -> None:
    """Only starts in a row count: being seen once resets them."""
    with Playbook(POLICY, HEALTHY) as play:
        play.feed(OwnerLost(at=NOON, epoch=ONE))
        grace = POLICY.open_grace(NOON, is_fault=True)
        play.expect(RecordDisconnected(grace=grace, unseen_starts=1))
        play.feed(connected(NEW))
        play.expect(RecordHealthy(epoch=TWO, connection_id=NEW))
        play.feed(lost(NEW))
        play.expect(RecordDisconnected(grace=GRACE, unseen_starts=0))


EARLY = GraceElapsed(at=GRACE.deadline - SECOND, deadline=GRACE.deadline)
OTHER_DEADLINE = GraceElapsed(at=NOON + 300 * SECOND, deadline=NOON + 20 * SECOND)
ELAPSED = GraceElapsed(at=GRACE.deadline, deadline=GRACE.deadline)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pytest.param(HEALTHY, connected(OLD), id="healthy: repeated connection"),
        pytest.param(DISCONNECTED, connected(OLD), id="off line: repeated connection"),
        pytest.param(DEAD, connected(OLD), id="dead: repeated connection"),
        pytest.param(Unknown(), lost(OLD), id="unknown: loss"),
        pytest.param(HEALTHY, lost(NEW), id="healthy: loss of another"),
        pytest.param(DISCONNECTED, lost(OLD), id="off line: repeated loss"),
        pytest.param(DISCONNECTED, lost(NEW), id="off line: loss of another"),
        pytest.param(DEAD, lost(OLD), id="dead: loss"),
        pytest.param(Unknown(), ELAPSED, id="unknown: deadline"),
        pytest.param(HEALTHY, ELAPSED, id="healthy: deadline"),
        pytest.param(DISCONNECTED, EARLY, id="off line: not yet"),
        pytest.param(DISCONNECTED, OTHER_DEADLINE, id="off line: another deadline"),
        pytest.param(Unknown(), OwnerLost(at=NOON, epoch=ONE), id="unknown: owner"),
        pytest.param(HEALTHY, OwnerLost(at=NOON, epoch=TWO), id="healthy: epoch"),
        pytest.param(DISCONNECTED, OwnerLost(at=NOON, epoch=TWO), id="off line: epoch"),
    ],
)
def test_stale_news_changes_nothing(state: State, event: Event) -> None:
    """News about something that is no longer current neither changes nor orders."""
    assert step(state, event, POLICY) == Step(state)


@pytest.mark.parametrize(
    "event",
    [
        connected(OLD),
        lost(OLD),
        ELAPSED,
        OwnerLost(at=NOON, epoch=ONE),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_state_outside_the_union_is_refused(event: Event) -> None:
    """A state that nobody thought of stops the machine instead of passing through."""
    with pytest.raises(AssertionError):
        step(cast(State, object()), event, POLICY)


def test_an_event_outside_the_union_is_refused() -> None:
    """An event that nobody thought of stops the machine instead of passing through."""
    with pytest.raises(AssertionError):
        step(HEALTHY, cast(Event, object()), POLICY)
