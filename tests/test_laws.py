"""The laws of liveness and recovery together, whatever happens in whichever order."""

from collections.abc import Sequence
from typing import TypeVar
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from relay.liveness.states import Dead, Disconnected, Healthy, Unknown
from relay.records import RecoveryState
from relay.recovery import brake
from tests.laws_world import SECOND, World

_T = TypeVar("_T")

VERSIONS = {"a": "v1", "b": "v1", "c": "v1", "d": "v2"}
NAMES = st.sampled_from(sorted(VERSIONS))
OUTCOMES = st.sampled_from(["yes", "yes", "yes", "no", "nothing"])
PLACES = st.integers(0, 9)
OFTEN = st.sampled_from([True, True, True, False])


class Story(RuleBasedStateMachine):
    """
    Four executors of two versions on one database, and one Relay.

    The laws about a single moment (nobody on line is ordered, nothing is deleted that
    is pending or unknown, one order a death) are asserted in the world, where that
    moment is; those about all moments are below. At the end the adversary lets go, and
    all work has to find its way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World(VERSIONS)

    @initialize(dying=st.lists(NAMES, unique=True, max_size=2), works=OFTEN)
    def begin(self, *, dying: list[str], works: bool) -> None:
        """Some have died already, others live: chance alone seldom gets that far."""
        for name in dying:
            self.world.connect(name)
            self.world.read_inbox()
            if works:
                self.world.start_work(name)
            self.world.lose(name)
            self.world.read_inbox()
            self.world.let_grace_elapse(name)
        for name in sorted(VERSIONS.keys() - dying):
            self.world.connect(name)
            self.world.read_inbox()

    @rule(name=NAMES)
    def connect(self, name: str) -> None:
        self.world.connect(name)

    @precondition(lambda self: bool(self.world.sockets))
    @rule(place=PLACES)
    def lose(self, place: int) -> None:
        self.world.lose(pick(list(self.world.sockets), place))

    @precondition(lambda self: bool(self.world.sockets))
    @rule(place=PLACES)
    def start_work(self, place: int) -> None:
        self.world.start_work(pick(list(self.world.sockets), place))

    @precondition(lambda self: bool(self.world.inbox))
    @rule()
    def read_inbox(self) -> None:
        self.world.read_inbox()

    @precondition(lambda self: bool(waiting_for_death(self.world)))
    @rule(place=PLACES)
    def let_grace_elapse(self, place: int) -> None:
        self.world.let_grace_elapse(pick(waiting_for_death(self.world), place))

    @rule(roll=PLACES)
    def kill_relay(self, roll: int) -> None:
        if roll < 8:
            return
        dead = dead_ones(self.world)
        self.world.restart()
        assert dead_ones(self.world) <= dead

    @precondition(lambda self: has_open_row(self.world))
    @rule(
        place=PLACES,
        steps=st.integers(1, 7),
        answers=OFTEN,
        takes_over=st.booleans(),
        outcome=OUTCOMES,
    )
    def recover(
        self, place: int, *, steps: int, answers: bool, takes_over: bool, outcome: str
    ) -> None:
        """Go on with an attempt for some steps, or begin one."""
        world = self.world
        if not world.attempts:
            world.survey()
            world.at += 300 * SECOND
            for record in world.list_due():
                world.begin(record)
        if not world.attempts:
            return
        attempt = pick(list(world.attempts.values()), place)
        for _ in range(steps):
            if world.attempts.get(attempt.record.id) is attempt:
                world.go_on(
                    attempt, answers=answers, takes_over=takes_over, outcome=outcome
                )

    @invariant()
    def an_executor_is_dead_exactly_while_its_recovery_is_open(self) -> None:
        """Death opens the row, return and confirmation end it, and nothing else."""
        for name, belief in self.world.beliefs.items():
            row = self.world.open_row(name)
            if isinstance(belief, Dead):
                assert row is not None
                assert row.epoch == belief.epoch
            else:
                assert row is None

    @invariant()
    def every_open_row_has_something_that_moves_it(self) -> None:
        """A time, somebody's claim, or an executor that connects."""
        for row in self.world.ledger.values():
            if row.closed_at is None:
                assert (
                    row.next_attempt_at is not None
                    or row.claimed_by is not None
                    or row.state is RecoveryState.WAITING
                )

    def teardown(self) -> None:
        """With executors of each version and no more trouble, all work moves on."""
        world = self.world
        while world.inbox:
            world.read_inbox()
        for name, version in (("y", "v1"), ("z", "v2")):
            world.versions[name] = version
            world.beliefs[name] = Unknown()
            world.connect(name)
            world.read_inbox()
        for _ in range(20):
            for name in waiting_for_death(world):
                world.let_grace_elapse(name)
            world.survey()
            world.at += 300 * SECOND
            for record in world.list_due():
                world.begin(record)
            while world.attempts:
                attempt = next(iter(world.attempts.values()))
                world.go_on(attempt, answers=True, takes_over=True, outcome="yes")

        assert set(world.work.values()) <= world.sockets.keys()
        assert not dead_ones(world)
        for name, belief in world.beliefs.items():
            expected = Healthy if name in world.sockets else Unknown
            assert isinstance(belief, expected)


def pick(things: Sequence[_T], place: int) -> _T:
    return things[place % len(things)]


def waiting_for_death(world: World) -> list[str]:
    return [
        name
        for name, belief in world.beliefs.items()
        if isinstance(belief, Disconnected) and name not in world.sockets
    ]


def has_open_row(world: World) -> bool:
    return any(row.closed_at is None for row in world.ledger.values())


def dead_ones(world: World) -> set[str]:
    return {name for name, belief in world.beliefs.items() if isinstance(belief, Dead)}


class NervousStory(Story):
    """The same where one loss makes a suspect: the crash brake stops no work."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = patch.object(brake, "SUSPECT_LOSSES", 1)
        self.patch.start()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.patch.stop()


Story.TestCase.settings = NervousStory.TestCase.settings = settings(
    max_examples=400, stateful_step_count=40, deadline=None
)
test_laws_of_liveness_and_recovery = Story.TestCase
test_laws_under_the_crash_brake = NervousStory.TestCase
