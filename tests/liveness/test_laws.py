"""What holds for every story of an executor, whatever happens in whichever order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from relay.ids import ConnectionId, Epoch
from relay.liveness.effects import (
    CloseConnection,
    Effect,
    ExtendGrace,
    OpenRecovery,
    RecordDead,
    RecordDisconnected,
    RecordHealthy,
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
from relay.liveness.states import Dead, Disconnected, Healthy, State, Unknown

START = datetime(2026, 1, 1, tzinfo=UTC)
SPANS = st.integers(0, 120).map(lambda seconds: timedelta(seconds=seconds))
GRACES = st.integers(1, 100).map(lambda seconds: timedelta(seconds=seconds))


class OneExecutor(RuleBasedStateMachine):
    """
    One executor under an adversary who owns the time and the order of news.

    The adversary also repeats any piece of news it has seen before.
    """

    news = Bundle("news")

    @initialize(grace=GRACES, fault_grace=GRACES)
    def begin(self, grace: timedelta, fault_grace: timedelta) -> None:
        self.policy = LivenessPolicy(grace=grace, fault_grace=fault_grace)
        self.state: State = Unknown()
        self.origin: State = self.state
        self.at = START
        self.opened = 0
        self.story: list[tuple[Event, LivenessPolicy]] = []
        self.deaths: list[Epoch] = []
        self.recoveries: list[Epoch] = []

    @rule(span=SPANS)
    def let_time_pass(self, span: timedelta) -> None:
        self.at += span

    @rule(grace=GRACES)
    def change_the_timeout(self, grace: timedelta) -> None:
        """A PATCH moves an open deadline, as the store does."""
        self.policy = replace(self.policy, grace=grace)
        if isinstance(self.state, Disconnected):
            old = self.state.grace
            grace_now = self.policy.open_grace(old.started_at, is_fault=old.is_fault)
            self.state = replace(self.state, grace=grace_now)
            self.story.clear()
            self.origin = self.state

    @rule(target=news, is_collision=st.booleans())
    def connect(self, is_collision: bool) -> Event:
        self.opened += 1
        return self.feed(
            ExecutorConnected(
                at=self.at,
                connection_id=ConnectionId(f"c{self.opened}"),
                is_collision=is_collision,
            )
        )

    @precondition(lambda self: self.opened > 0)
    @rule(target=news, back=st.integers(0, 2), is_fault=st.booleans())
    def lose(self, back: int, is_fault: bool) -> Event:
        connection = ConnectionId(f"c{max(1, self.opened - back)}")
        return self.feed(
            ConnectionLost(at=self.at, connection_id=connection, is_fault=is_fault)
        )

    @precondition(lambda self: isinstance(self.state, Disconnected))
    @rule(target=news)
    def let_the_grace_elapse(self) -> Event:
        assert isinstance(self.state, Disconnected)
        deadline = self.state.grace.deadline
        self.at = max(self.at, deadline)
        return self.feed(GraceElapsed(at=self.at, deadline=deadline))

    @precondition(lambda self: isinstance(self.state, Disconnected))
    @rule(target=news, early=SPANS)
    def fire_a_timer(self, early: timedelta) -> Event:
        """A timer may fire for another deadline, or before its own."""
        assert isinstance(self.state, Disconnected)
        deadline = self.state.grace.deadline - early
        return self.feed(GraceElapsed(at=self.at, deadline=deadline))

    @rule(target=news, back=st.integers(0, 1))
    def restart_relay(self, back: int) -> Event:
        epoch = getattr(self.state, "epoch", Epoch(1))
        return self.feed(OwnerLost(at=self.at, epoch=Epoch(epoch - back)))

    @precondition(lambda self: isinstance(self.state, Dead))
    @rule()
    def forget(self) -> None:
        """The ledger has verified the recovery and deleted the record."""
        self.state = Unknown()
        self.story.clear()
        self.origin = self.state

    @rule(target=news, event=news)
    def repeat(self, event: Event) -> object:
        """Old news may come again, at any time."""
        if isinstance(event, ExecutorConnected) and not is_current(self.state, event):
            # The one kind of news that is believed by its order: each connection is
            # announced once, through one inbox.
            return multiple()
        self.feed(event)
        return multiple()

    @invariant()
    def the_story_can_be_told_again(self) -> None:
        """The same events give the same state."""
        state = self.origin
        for event, policy in self.story:
            state = step(state, event, policy).state
        assert state == self.state

    @invariant()
    def each_death_has_one_recovery(self) -> None:
        """As many recoveries were opened as deaths were recorded."""
        assert self.deaths == self.recoveries

    def feed(self, event: Event) -> Event:
        before = self.state
        result = step(before, event, self.policy)
        self.state = result.state
        self.story.append((event, self.policy))
        self.check(before, event, result)
        return event

    def check(self, before: State, event: Event, result: Step) -> None:
        after, effects = result.state, result.effects
        if is_stale(before, event):
            assert result == Step(before)
        if after == before:
            assert not any(isinstance(effect, RECORDS) for effect in effects)
        else:
            assert isinstance(effects[0], RECORDS)
        for effect in effects:
            assert may_follow(before, effect, after)

        if isinstance(after, Dead) and not isinstance(before, Dead):
            assert isinstance(before, Disconnected)
            assert before.grace.deadline <= event.at
            self.deaths.append(after.epoch)
        self.recoveries += [
            effect.epoch for effect in effects if isinstance(effect, OpenRecovery)
        ]
        if not isinstance(before, Unknown):
            assert after != Unknown()
        if isinstance(before, Dead) and isinstance(after, Healthy):
            assert ReturnFromRecovery() in effects
        if not isinstance(before, Unknown) and not isinstance(after, Unknown):
            grew = after.epoch - before.epoch
            assert grew == (after.connection_id != before.connection_id)


RECORDS = (
    RecordHealthy,
    RecordDisconnected,
    ExtendGrace,
    RecordDead,
)


def is_current(state: State, event: ExecutorConnected) -> bool:
    return not isinstance(state, Unknown) and state.connection_id == event.connection_id


def is_stale(state: State, event: Event) -> bool:
    """Whether `event` is about something that is not, or no longer, so."""
    match event:
        case ExecutorConnected():
            return is_current(state, event)
        case ConnectionLost():
            return not (
                isinstance(state, Healthy)
                and state.connection_id == event.connection_id
            )
        case GraceElapsed():
            return not (
                isinstance(state, Disconnected)
                and state.grace.deadline == event.deadline
                and event.deadline <= event.at
            )
        case OwnerLost():
            return isinstance(state, Unknown | Dead) or state.epoch != event.epoch


def may_follow(before: State, effect: Effect, after: State) -> bool:
    """Whether the table knows `effect` for this change of mind."""
    match effect:
        case RecordHealthy():
            return after == Healthy(
                epoch=effect.epoch, connection_id=effect.connection_id
            )
        case RecordDisconnected():
            return isinstance(before, Healthy) and isinstance(after, Disconnected)
        case ExtendGrace():
            return isinstance(before, Disconnected) and isinstance(after, Disconnected)
        case RecordDead() | OpenRecovery():
            return (
                isinstance(before, Disconnected)
                and isinstance(after, Dead)
                and effect.epoch == after.epoch
            )
        case CloseConnection():
            return (
                isinstance(before, Healthy)
                and effect.connection_id == before.connection_id
                and before != after
            )
        case ReturnFromRecovery():
            return isinstance(before, Unknown | Dead) and isinstance(after, Healthy)
        case _:
            return True


OneExecutor.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None
)
test_one_executor_keeps_the_laws = OneExecutor.TestCase
