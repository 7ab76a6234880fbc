"""
What applications did, window by window: the rows behind `listMetrics`.

Executors can count how many workflows were created and how many steps completed between
two instants, by name. Every period (a setting), one executor of each application is
asked for the window that has just passed, and the answer is kept for 30 days, so that
it can be read when no executor is there::

   registration ─▶├──────┼──────┼──────┼───────────────┼──────┤◀─ 5 s ─▶ now
                      kept   kept   kept   nobody was      asked
                                           connected:      now
                                           one window

The executors' numbers are about workflows; how often their executors died, Relay knows
itself: recoveries opened in the window are counted from the ledger, by executor. (One
that was opened and then not needed, because the executor came back, counts too: when
the window closes, nobody knows.)

Rooms within: `planning` (pure: which window is next, what is kept of an answer),
`rounds` (whom to ask, and writing it down), `reports` (reading it).

Invariants:

- Windows of an application never overlap, and follow each other without a gap, but for
  what lies more than a day back: each begins where the last one that was written ended,
  and the row that says where that is guards the writing. A workflow is counted in the
  window of its creation, a step in that of its completion, once.
- Windows end at multiples of the period, so that one lasts as long as the period unless
  something was missed; five seconds pass before it is asked for, because rows become
  visible later than their time, and clocks differ.
- The rows of a window and its end are written in one transaction.
- At most one question an application is unanswered; a slow one holds up nobody else.

On failure: nothing was written, so that the next round asks from the same beginning. A
gap is asked for as one window, of a day at most; what is older is not counted.
Executors whose SDK does not know the question are not asked; where all are like that,
the log says so once, and recoveries are all that is counted.

When the clock of the database jumps: forward, the time it skips is one long window, of
which what is more than a day old is left out. Back by a period at most, it is waited
for, and what is created until then is not counted. Back by more, the windows that it
has not reached yet are thrown away, with the one that it stands in, and counted again
from where the last one that stays ended.

What it does not do: it sees no contents, so that private applications are counted like
others; it counts nothing from before the registration; it is no source of Prometheus
figures (`relay.telemetry`), which are Relay's own.
"""

from relay.collection.planning import KEPT_FOR
from relay.collection.reports import MetricReports
from relay.collection.rounds import MetricCollection

__all__ = ["KEPT_FOR", "MetricCollection", "MetricReports"]
