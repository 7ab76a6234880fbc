"""Which window is asked for next, case by case, and what is kept of an answer."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.collection.planning import (
    LONGEST_NAME_CHARS,
    LONGEST_WINDOW,
    MOST_NAMES,
    MOST_ROWS,
    SETTLING,
    Window,
    find_end,
    is_set_back,
    next_pause,
    plan_window,
    tally,
)
from relay.ids import ApplicationId, ExecutorId
from relay.protocol.statistics import MetricRow
from relay.records import MetricType

PERIOD = timedelta(minutes=5)
APPLICATION = ApplicationId("app-shop")


def at(text: str, day: int = 2) -> datetime:
    """A time of some day in January."""
    return datetime.fromisoformat(f"2026-01-{day:02}T{text}Z")


REGISTERED = at("00:00:00", day=1)


def plan(
    now: datetime,
    last_end: datetime | None = None,
    registered_at: datetime = REGISTERED,
    *,
    period: timedelta = PERIOD,
    kept: Window | None = None,
) -> Window | None:
    return plan_window(
        now=now,
        period=period,
        last_end=last_end,
        registered_at=registered_at,
        kept=kept,
    )


def test_a_window_begins_where_the_last_one_ended() -> None:
    """Nothing falls between two of them."""
    window = plan(at("12:10:05"), last_end=at("12:05:00"))

    assert window == Window(at("12:05:00"), at("12:10:00"))


def test_a_window_ends_with_its_period_whenever_the_round_comes() -> None:
    """A late round does not make the windows after it late."""
    window = plan(at("12:13:59"), last_end=at("12:05:00"))

    assert window == Window(at("12:05:00"), at("12:10:00"))


def test_a_window_that_is_over_is_left_to_settle() -> None:
    """Rows that carry its time may still be on their way into the database."""
    assert plan(at("12:10:00"), last_end=at("12:05:00")) is None
    assert plan(at("12:10:04.999999"), last_end=at("12:05:00")) is None
    assert plan(at("12:10:05"), last_end=at("12:05:00")) is not None


def test_the_first_window_begins_at_the_registration() -> None:
    """Cut to a second, so that its length is a whole number of them."""
    window = plan(at("12:10:05"), registered_at=at("12:06:07.8"))

    assert window == Window(at("12:06:07"), at("12:10:00"))


def test_a_registration_within_the_open_window_is_asked_for_later() -> None:
    """At its end, with all that happened since."""
    assert plan(at("12:10:05"), registered_at=at("12:10:02")) is None
    assert plan(at("12:15:05"), registered_at=at("12:10:02")) == Window(
        at("12:10:02"), at("12:15:00")
    )


def test_a_registration_before_the_last_window_does_not_matter() -> None:
    """The first window was once."""
    window = plan(at("12:10:05"), at("12:05:00"), registered_at=at("01:00:00"))

    assert window == Window(at("12:05:00"), at("12:10:00"))


def test_a_gap_is_one_window() -> None:
    """Relay was stopped, or nobody was connected, for three hours."""
    window = plan(at("12:10:05"), last_end=at("09:05:00"))

    assert window == Window(at("09:05:00"), at("12:10:00"))


@pytest.mark.parametrize("is_first", [False, True])
def test_a_window_is_a_day_at_most(is_first: bool) -> None:
    """A count over months might be more than a database can do in time."""
    begin = at("12:05:00", day=2)
    window = plan(at("12:10:05", day=9), None if is_first else begin, begin)

    assert window == Window(at("12:10:00", day=8), at("12:10:00", day=9))


def test_a_period_of_a_day_misses_nothing() -> None:
    """The bound is counted from the end of the window, not from now."""
    window = plan(
        at("00:00:09", day=3), last_end=at("00:00:00"), period=timedelta(days=1)
    )

    assert window == Window(at("00:00:00", day=2), at("00:00:00", day=3))


def test_another_period_begins_where_the_old_one_ended() -> None:
    """The setting was changed: one window is odd, and those after it are not."""
    first = plan(at("12:15:05"), at("12:10:00"), period=timedelta(minutes=2))
    shorter = plan(at("12:16:05"), at("12:14:00"), period=timedelta(minutes=2))

    assert first == Window(at("12:10:00"), at("12:14:00"))
    assert shorter == Window(at("12:14:00"), at("12:16:00"))


def test_a_clock_set_back_a_little_is_waited_for() -> None:
    """Nothing is counted twice."""
    assert plan(at("12:06:00"), last_end=at("12:10:00")) is None


def test_a_clock_set_back_a_lot_begins_anew() -> None:
    """Else a server whose clock was once a year ahead would not count for a year."""
    window = plan(at("12:10:05"), last_end=at("12:10:00", day=30))

    assert window == Window(at("12:05:00"), at("12:10:00"))


def test_a_clock_set_back_goes_on_where_the_last_window_that_stays_ended() -> None:
    """What was created since then is counted, whatever the clock said meanwhile."""
    kept = Window(at("11:55:00"), at("12:00:00"))

    window = plan(at("14:00:05"), last_end=at("20:00:00"), kept=kept)

    assert window == Window(at("12:00:00"), at("14:00:00"))


def test_a_window_into_which_the_clock_is_set_back_is_counted_anew() -> None:
    """It was the jump forward: else two windows would hold the same hour."""
    jump = Window(at("12:00:00"), at("18:00:00"))

    window = plan(at("13:10:05"), last_end=at("18:30:00"), kept=jump)

    assert window == Window(at("12:00:00"), at("13:10:00"))


def test_a_clock_set_back_fills_a_day_at_most() -> None:
    """As every other gap."""
    kept = Window(at("11:55:00", day=2), at("12:00:00", day=2))

    window = plan(at("12:00:05", day=9), last_end=at("12:00:00", day=30), kept=kept)

    assert window == Window(at("12:00:00", day=8), at("12:00:00", day=9))


def test_a_clock_that_was_set_back_by_more_than_a_period_is_noticed() -> None:
    """By the end of the last window, which then lies ahead."""
    assert not is_set_back(at("12:05:00"), PERIOD, None)
    assert not is_set_back(at("12:05:00"), PERIOD, at("12:10:00"))
    assert is_set_back(at("12:05:00"), PERIOD, at("12:10:00.000001"))


def test_a_registration_in_the_future_begins_now() -> None:
    """It was written down before the clock was set right."""
    window = plan(at("12:10:05"), registered_at=at("12:10:00", day=30))

    assert window == Window(at("12:05:00"), at("12:10:00"))


def test_a_clock_set_forward_makes_one_long_window() -> None:
    """And no second one for the time that it skipped."""
    window = plan(at("18:10:05"), last_end=at("12:10:00"))

    assert window == Window(at("12:10:00"), at("18:10:00"))


seconds = st.integers(1, 86_400).map(lambda number: timedelta(seconds=number))
spans = st.timedeltas(timedelta(0), timedelta(days=3))


@given(period=seconds, waits=st.lists(spans, min_size=1, max_size=20))
def test_windows_follow_each_other_without_gap_or_overlap(
    period: timedelta, waits: list[timedelta]
) -> None:
    """However the rounds come, but for what lies more than a day back."""
    now = registered_at = at("12:34:56.789")
    last_end: datetime | None = None
    for wait in waits:
        now += wait
        window = plan(now, last_end, registered_at, period=period)
        if window is None:
            continue
        span = window.end - window.start
        begin = last_end or registered_at.replace(microsecond=0)
        assert window.start == max(begin, window.end - LONGEST_WINDOW)
        assert timedelta(0) < span <= LONGEST_WINDOW
        assert span % timedelta(seconds=1) == timedelta(0)
        assert window.end <= now - SETTLING
        last_end = window.end


jumps = st.timedeltas(timedelta(days=-5), timedelta(days=5))


def play(
    period: timedelta, turns: Iterable[tuple[timedelta, bool]]
) -> Iterator[tuple[Window, Window | None]]:
    """
    Each window and the one with counts that lies before it, as a clock turns.

    Args:
        turns: how far the clock moves, and whether what is then asked has counts: only
            windows with counts leave rows that can be found again.
    """
    now = registered_at = at("12:34:56.789", day=15)
    last_end: datetime | None = None
    rows: list[Window] = []
    for turn, has_counts in turns:
        now += turn
        kept = None
        if is_set_back(now, period, last_end):
            before = find_end(now, period)
            kept = next((row for row in rows[::-1] if row.start < before), None)
        window = plan(now, last_end, registered_at, period=period, kept=kept)
        if window is None:
            continue
        # What the store does with those that begin later.
        rows = [row for row in rows if row.start < window.start]
        yield window, rows[-1] if rows else None
        last_end = window.end
        if has_counts:
            rows.append(window)


@given(period=seconds, turns=st.lists(st.tuples(spans | jumps, st.booleans())))
def test_windows_never_overlap_however_the_clock_jumps(
    period: timedelta, turns: list[tuple[timedelta, bool]]
) -> None:
    """Nothing is counted twice."""
    for window, before in play(period, turns):
        assert window.start < window.end
        assert before is None or before.end <= window.start


@given(period=seconds, turns=st.lists(spans | jumps))
def test_windows_leave_no_gap_of_less_than_a_day_however_the_clock_jumps(
    period: timedelta, turns: list[timedelta]
) -> None:
    """Only what lay more than a day back when it was asked for is missing."""
    torn: set[datetime] = set()
    for window, before in play(period, [(turn, True) for turn in turns]):
        if before is None or window.start == window.end - LONGEST_WINDOW:
            torn.add(window.start)
        assert window.start in torn or (before and window.start == before.end)


@given(period=seconds, offset=st.timedeltas(timedelta(0), timedelta(days=2)))
def test_a_pause_ends_when_the_next_window_can_be_asked_for(
    period: timedelta, offset: timedelta
) -> None:
    """Right after it has settled: not before, and not a period later."""
    now = at("00:00:00") + offset
    pause = next_pause(now, period)

    woken = now + pause
    last_end = at("00:00:00", day=1)
    before = plan(woken - timedelta(seconds=1), last_end, period=period)
    after = plan(woken, last_end, period=period)

    assert timedelta(0) < pause <= period
    assert after is not None
    assert before is None or before.end < after.end


WINDOW = Window(at("12:05:00"), at("12:10:00"))


def row(type_: str, name: str, value: int) -> MetricRow:
    return MetricRow(metric_type=type_, metric_name=name, value=value)


def keep(
    *rows: MetricRow, recoveries: dict[ExecutorId, int] | None = None
) -> list[tuple[str, str, int]]:
    return [
        (record.metric_type.value, record.metric_name, record.value)
        for record in tally(APPLICATION, WINDOW, rows, recoveries or {})
    ]


def test_a_record_is_about_its_window() -> None:
    """Its start and its length."""
    [record] = tally(APPLICATION, WINDOW, [row("step_count", "charge", 3)], {})

    assert record.application_id == APPLICATION
    assert record.time_bucket == at("12:05:00")
    assert record.granularity == PERIOD
    assert record.metric_type is MetricType.STEPS


def test_executors_count_workflows_and_steps_and_relay_counts_recoveries() -> None:
    """A number of recoveries that an executor claims is nobody's."""
    kept = keep(
        row("step_count", "charge", 3),
        row("workflow_count", "checkout", 2),
        row("recovery_count", "e9", 5),
        row("beans", "e9", 5),
        recoveries={ExecutorId("e1"): 1},
    )

    assert kept == [
        ("workflow_count", "checkout", 2),
        ("step_count", "charge", 3),
        ("recovery_count", "e1", 1),
    ]


def test_counts_of_nothing_are_no_counts() -> None:
    """Nor are negative ones."""
    assert keep(row("step_count", "a", 0), row("step_count", "b", -1)) == []


def test_one_name_is_counted_once() -> None:
    """Given twice, or equal after the cut: the numbers are added, and fit a column."""
    long = "n" * LONGEST_NAME_CHARS

    kept = keep(
        row("workflow_count", long + "x", 2**63 - 1),
        row("workflow_count", long + "y", 2**63 - 1),
        row("step_count", "", 1),
        row("step_count", "", 2),
    )

    assert kept == [("workflow_count", long, 2**53 - 1), ("step_count", "", 3)]


def test_of_too_many_names_the_most_frequent_are_kept() -> None:
    """Of each type by itself."""
    rows = [row("step_count", f"s{n:05}", n) for n in range(1, MOST_NAMES + 3)]

    kept = keep(row("workflow_count", "rare", 1), *rows)

    assert len(kept) == MOST_NAMES + 1
    assert kept[0] == ("workflow_count", "rare", 1)
    assert ("step_count", "s00002", 2) not in kept
    assert ("step_count", "s00003", 3) in kept


def test_of_an_endless_answer_the_beginning_is_looked_at() -> None:
    """Adding up a million rows would hold everybody else up."""
    rows = [row("step_count", "charge", 1)] * (MOST_ROWS + 1)

    assert keep(*rows) == [("step_count", "charge", MOST_ROWS)]
