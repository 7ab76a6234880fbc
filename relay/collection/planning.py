"""Which window an application is asked for next, and what is kept of it; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from relay.ids import ApplicationId, ExecutorId
from relay.protocol.statistics import MetricRow
from relay.records import MetricRecord, MetricType

SETTLING: Final = timedelta(seconds=5)
"""
Between the end of a window and the question about it.

Rows appear in a database a moment after the time that stands in them, and the clocks of
executors differ: what came too late would be in no window at all.
"""

LONGEST_WINDOW: Final = timedelta(days=1)
"""What an executor is asked to count at most; older than that is never counted."""

KEPT_FOR: Final = timedelta(days=30)
"""How long counts can be read."""

MOST_NAMES: Final = 1000
"""Of one type kept of a window, the most frequent; a stranger may invent millions."""

MOST_ROWS: Final = 20_000
"""Of an answer that are looked at at all: tens of milliseconds."""

LONGEST_NAME_CHARS: Final = 512
"""An index entry holds little more."""

_MARGIN: Final = timedelta(milliseconds=250)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_COUNTED: Final = 2**53 - 1
_ASKED: Final = (MetricType.WORKFLOWS, MetricType.STEPS)


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time, in whole seconds; `end` is not in it."""

    start: datetime
    end: datetime


def find_end(now: datetime, period: timedelta) -> datetime:
    """Where the last window ends that can be asked for."""
    return _round_down(now - SETTLING, period)


def is_set_back(now: datetime, period: timedelta, last_end: datetime | None) -> bool:
    """
    Whether the clock was set back by more than a period since the last window.

    Less than that is waited for: it is over before anybody misses a window.
    """
    return last_end is not None and last_end > now + period


def plan_window(
    *,
    now: datetime,
    period: timedelta,
    last_end: datetime | None,
    registered_at: datetime,
    kept: Window | None = None,
) -> Window | None:
    """
    What to ask now, if there is anything.

    Windows end at multiples of the period, whenever a round happens to come. Each
    begins where the last one ended, however long ago that is, up to `LONGEST_WINDOW`.
    None overlaps another: the one that is planned replaces all that begin in it or
    after it.

    Args:
        now: by the database's clock.
        period: whole seconds.
        last_end: where the application's last window ended; `None` before the first.
        registered_at: when the application was registered: there the first window
            begins, if that is no more than `LONGEST_WINDOW` ago.
        kept: where the clock was set back, the last window with counts that begins
            before `find_end`; `None` if there is none.
    """
    end = find_end(now, period)
    begin = registered_at if last_end is None else last_end
    if begin > now + period:
        # The clock was set back. Waiting until it has caught up might take years; what
        # was counted by the wrong time is counted again, and replaced.
        begin = _find_beginning(end, period, kept)
    start = max(_round_down(begin, timedelta(seconds=1)), end - LONGEST_WINDOW)
    return Window(start, end) if start < end else None


def _find_beginning(end: datetime, period: timedelta, kept: Window | None) -> datetime:
    """Where a window begins whose `end` lies before windows that are counted."""
    if kept is None:
        return end - period
    # One that reaches beyond is counted anew, as far as it is over.
    return kept.end if kept.end <= end else kept.start


def next_pause(now: datetime, period: timedelta) -> timedelta:
    """How long to wait until the next window can be asked for."""
    settled = now - SETTLING - _MARGIN
    return _round_down(settled, period) + period - settled


def tally(
    application_id: ApplicationId,
    window: Window,
    rows: Iterable[MetricRow],
    recoveries: Mapping[ExecutorId, int],
) -> Sequence[MetricRecord]:
    """
    What is kept of a window: one record a type and name, the types in their order.

    Counts of nothing, and types that nobody asked for, are left out. Names that are the
    same once they are cut are counted together; no more than `MOST_NAMES` of a type are
    kept.

    Args:
        rows: what an executor counted.
        recoveries: what Relay counted itself.
    """
    counts: dict[MetricType, Counter[str]] = {type_: Counter() for type_ in MetricType}
    for row in islice(rows, MOST_ROWS):
        if row.metric_type in _ASKED:
            _count(counts[MetricType(row.metric_type)], row.metric_name, row.value)
    for executor_id, number in recoveries.items():
        _count(counts[MetricType.RECOVERIES], executor_id, number)
    return [
        MetricRecord(
            application_id=application_id,
            time_bucket=window.start,
            granularity=window.end - window.start,
            metric_type=type_,
            metric_name=name,
            value=min(value, _MOST_COUNTED),
        )
        for type_, named in counts.items()
        for name, value in sorted(named.items(), key=lambda item: (-item[1], item[0]))[
            :MOST_NAMES
        ]
    ]


def _count(named: Counter[str], name: str, value: int) -> None:
    if value > 0:
        named[name[:LONGEST_NAME_CHARS]] += value


def _round_down(instant: datetime, span: timedelta) -> datetime:
    return _EPOCH + (instant - _EPOCH) // span * span
