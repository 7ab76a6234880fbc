"""What is a jump of the database's clock, and what only looks like one."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.liveness.clocks import JUMP, QUICK, ClockWatch, Reading

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TICK = timedelta(milliseconds=1)
LATE = 0.01
"""How long the usual answer takes, in seconds."""


def read(at: float, *, shown: timedelta, took: float = LATE) -> Reading:
    """
    What the database showed at second `at` of the monotonic clock.

    Args:
        shown: how far its clock is from `NOON` plus `at`.
    """
    return Reading(before=at, now=NOON + timedelta(seconds=at) + shown, after=at + took)


def watch_from(reading: Reading) -> ClockWatch:
    watch = ClockWatch()
    watch.believe(reading)
    return watch


def test_first_reading_is_no_jump() -> None:
    """There is nothing yet to compare it with."""
    assert ClockWatch().find_jump(read(0, shown=timedelta(0))) is None


@pytest.mark.parametrize("seconds", [-7200, -10, -2.1, 2.1, 10, 7200])
def test_a_jump_is_found_in_both_directions(seconds: float) -> None:
    """What is found is at least what it was, and more only by what is in doubt."""
    watch = watch_from(read(5, shown=timedelta(0)))

    jump = watch.find_jump(read(6, shown=timedelta(seconds=seconds)))

    assert jump is not None
    excess = jump - timedelta(seconds=seconds)
    assert timedelta(0) <= excess <= 2 * timedelta(seconds=LATE)


@pytest.mark.parametrize("seconds", [-2, -1, 0, 1, 2])
def test_a_small_difference_is_no_jump(seconds: float) -> None:
    """Up to two seconds are within what clocks do."""
    watch = watch_from(read(5, shown=timedelta(0)))

    assert watch.find_jump(read(6, shown=timedelta(seconds=seconds))) is None


@pytest.mark.parametrize("direction", [-1, 1])
def test_small_differences_do_not_add_up(direction: int) -> None:
    """A clock that is slewed for a day is never said to have jumped."""
    watch = watch_from(read(0, shown=timedelta(0)))

    for turn in range(1, 1000):
        reading = read(turn, shown=direction * turn * SECOND / 2)
        assert watch.find_jump(reading) is None
        watch.believe(reading)


@pytest.mark.parametrize("looked_after", [0.0, 5.0, 10.0])
def test_a_slow_answer_is_no_jump(looked_after: float) -> None:
    """Whenever within its ten seconds the database looked at its clock."""
    watch = watch_from(read(5, shown=timedelta(0)))
    slow = read(6, shown=timedelta(seconds=looked_after), took=10)

    assert watch.find_jump(slow) is None


def test_a_jump_behind_a_slow_answer_is_found_by_the_next() -> None:
    """The slow answer could not tell, and is not made the measure."""
    watch = watch_from(read(5, shown=timedelta(0)))
    slow = read(6, shown=5 * SECOND, took=10)
    assert watch.find_jump(slow) is None
    watch.believe(slow)

    jump = watch.find_jump(read(17, shown=5 * SECOND))

    assert jump is not None
    assert jump >= 5 * SECOND


def test_a_jump_beyond_the_doubt_of_a_slow_answer_is_found() -> None:
    """An hour is more than ten seconds can explain."""
    watch = watch_from(read(5, shown=timedelta(0)))
    slow = read(6, shown=3600 * SECOND, took=10)

    jump = watch.find_jump(slow)

    assert jump is not None
    assert 3600 * SECOND <= jump <= 3611 * SECOND


def test_a_jump_is_found_once() -> None:
    """What was followed is the measure from then on, also when it came slowly."""
    watch = watch_from(read(5, shown=timedelta(0)))
    watch.believe(read(6, shown=3600 * SECOND, took=10))

    assert watch.find_jump(read(17, shown=3600 * SECOND)) is None


def test_a_slow_first_reading_gives_way_to_a_better_one() -> None:
    """The measure becomes better with the first quick answer."""
    watch = watch_from(read(0, shown=5 * SECOND, took=10))
    quick = read(11, shown=5 * SECOND)

    watch.believe(quick)

    assert watch.known == quick


def test_nothing_is_found_before_it_is_believed() -> None:
    """A reading that could not be followed is found again."""
    watch = watch_from(read(5, shown=timedelta(0)))
    jumped = read(6, shown=60 * SECOND)

    assert watch.find_jump(jumped) == watch.find_jump(jumped) is not None


@given(
    jump=st.integers(-(10**6), 10**6).map(lambda ms: ms * TICK),
    pause=st.floats(0, 3600),
    waits=st.tuples(*[st.floats(0, 20)] * 4),
)
def test_what_is_found_is_never_less_than_the_jump(
    jump: timedelta, pause: float, waits: tuple[float, float, float, float]
) -> None:
    """Moved deadlines are never early, and what is no jump is never called one."""
    to_first, from_first, to_second, from_second = waits
    first = Reading(
        before=0, now=NOON + timedelta(seconds=to_first), after=to_first + from_first
    )
    at = first.after + pause
    second = Reading(
        before=at,
        now=NOON + timedelta(seconds=at + to_second) + jump,
        after=at + to_second + from_second,
    )
    watch = watch_from(first)

    found = watch.find_jump(second)

    doubt = first.took + second.took
    if found is None:
        assert abs(jump) <= JUMP + doubt + TICK
    else:
        assert abs(jump) > JUMP - TICK
        assert -TICK <= found - jump <= doubt + TICK


def test_a_quick_answer_is_half_a_second() -> None:
    """The measure is replaced by an answer of that length, and by no longer one."""
    watch = watch_from(read(0, shown=timedelta(0)))

    watch.believe(read(1, shown=timedelta(0), took=QUICK.total_seconds()))
    assert watch.known is not None
    assert watch.known.before == 1

    watch.believe(read(2, shown=timedelta(0), took=QUICK.total_seconds() + 0.1))
    assert watch.known.before == 1
