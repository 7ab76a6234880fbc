"""Stalls of the event loop: how long they were, and for how long they leave doubts."""

from datetime import timedelta

import pytest

from relay.hub.pulse import DOUBT, Pulse
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock

SECOND = timedelta(seconds=1)
TICK = SECOND / 4


@pytest.fixture
def pulse(clock: FakeClock) -> Pulse:
    """A pulse that has just beaten."""
    pulse = Pulse(clock, Metrics())
    pulse.beat(next_in=TICK)
    return pulse


async def test_nothing_has_stalled_before_the_first_beat(clock: FakeClock) -> None:
    """The time before the loop runs is no stall."""
    pulse = Pulse(clock, Metrics())
    await clock.advance(60 * SECOND)

    assert pulse.stalled_for == timedelta(0)
    assert not pulse.is_doubtful


async def test_beats_on_time_are_no_stall(clock: FakeClock, pulse: Pulse) -> None:
    """However long it goes on."""
    for _ in range(20):
        await clock.advance(TICK)
        pulse.beat(next_in=TICK)

    assert pulse.stalled_for == timedelta(0)


async def test_a_stall_counts_from_the_last_beat(
    clock: FakeClock, pulse: Pulse
) -> None:
    """It is known before the next beat, and stays known after it."""
    await clock.advance(3 * SECOND)
    assert pulse.stalled_for == 3 * SECOND

    pulse.beat(next_in=TICK)
    assert pulse.stalled_for == 3 * SECOND
    assert pulse.longest_stall == 3 * SECOND - TICK


async def test_short_stalls_are_left_out(clock: FakeClock, pulse: Pulse) -> None:
    """A beat up to a second late is not counted, nor do many add up."""
    for _ in range(10):
        await clock.advance(TICK + SECOND)
        pulse.beat(next_in=TICK)

    assert pulse.stalled_for == timedelta(0)


async def test_long_stalls_add_up(clock: FakeClock, pulse: Pulse) -> None:
    """What was given back once is told apart from what came since."""
    for _ in range(3):
        await clock.advance(2 * SECOND)
        pulse.beat(next_in=TICK)

    assert pulse.stalled_for == 6 * SECOND


@pytest.mark.parametrize(("span", "is_doubtful"), [(5, False), (6, True)])
async def test_a_long_stall_leaves_doubts(
    clock: FakeClock, pulse: Pulse, span: int, *, is_doubtful: bool
) -> None:
    """Peers may have given us up during it, and still be ending what they gave up."""
    await clock.advance(span * SECOND)
    assert pulse.is_doubtful is is_doubtful

    pulse.beat(next_in=TICK)
    await clock.advance(DOUBT - TICK / 2)
    pulse.beat(next_in=TICK)
    assert pulse.is_doubtful is is_doubtful

    await clock.advance(TICK)
    assert not pulse.is_doubtful


async def test_a_suspended_machine_leaves_doubts_and_no_stall(
    clock: FakeClock, pulse: Pulse
) -> None:
    """Its monotonic clock stood still with it; only the wall clock went on."""
    clock.jump(3600 * SECOND)
    assert pulse.is_doubtful

    pulse.beat(next_in=TICK)
    assert pulse.is_doubtful
    assert pulse.stalled_for == timedelta(0)
    assert pulse.longest_stall == timedelta(0)

    for _ in range(21):
        await clock.advance(TICK)
        pulse.beat(next_in=TICK)
    assert not pulse.is_doubtful


async def test_a_wall_clock_that_is_set_back_leaves_no_doubts(
    clock: FakeClock, pulse: Pulse
) -> None:
    """Nobody was away."""
    clock.jump(-3600 * SECOND)
    pulse.beat(next_in=TICK)

    assert not pulse.is_doubtful
