"""
What the ledger cannot see: pending work that no death has put into it.

The ledger knows deaths. Work can be left behind without one: an executor that was cut
off from Relay, declared dead, recovered and forgotten goes on claiming workflows and
dies unseen; another never connected at all. So every few minutes (a setting), one
executor of each application is asked who owns how many pending workflows of which
version, and each owner is judged::

    connected with that version, in its grace, being recovered ─▶ left alone
    known once, not on line, nothing being done                ─▶ its ledger is reopened
    known with another version, and on line                    ─▶ shown (OTHER_VERSION)
    given up by an operator                                    ─▶ shown (ABANDONED)
    never seen                                                 ─▶ shown (UNKNOWN_OWNER)

An operator who has work of a stranger recovered makes nobody known: what it owns after
that is shown again.

What is shown is never ordered by itself: nobody knows whether a stranger is alive, and
recovering a living executor runs its steps twice. `Ledger.order` does it on an
operator's word. A row vanishes from what is shown when its work is no longer pending,
when its owner connects, or when a recovery of it is opened.

All of this, and every deletion, rests on executors of one application reading one
database. The `Comparison` watches that: each new connection is shown a few workflows
that another one has just named (`witnesses`). Where two disagree, the application is in
dispute: told once, written down, and no record of it is deleted until the dispute is
over (`sides` says when).

Rooms within: `policy` (pure: verdicts), `counting` (whom to ask, when), `reopening`
(the ledger's side of a verdict), `witnesses` (comparing two), `comparison` (whom to
compare), `sides` (pure: when a dispute is over), `disputes` (their rows), `reports`
(what an operator reads).

Invariants:

- **Nobody on line is named**, here as in `relay.recovery`: a reopened ledger row is
  guarded by a DEAD row, the socket is looked at under its lock, and the recovery then
  asks its own question before it orders anything.
- An executor's ledger is reopened once in 15 minutes at most, whatever the version, and
  not within 15 minutes of an operator's order.
- A count is older than what happened since it was asked for: an executor whose recovery
  ended meanwhile is left to the next census.
- A disagreement is never a matter of timing; see `witnesses`.
- What is missing in an incomplete count, or in one of a disputed application, is not
  taken for finished.

On failure: an executor that does not answer, or a store that does not, costs this
application this census; the next comes. Where no SDK can count, the oldest pending
workflows are listed instead. A dispute that cannot be written counts all the same, and
is written at the next look; after a restart it is known again before anything is
deleted.

What it does not do: it cannot compare an executor that is alone, orders nothing, knows
nothing of work that is queued and not pending, and cannot say which of two databases is
the right one.
"""

from relay.census.comparison import Comparison
from relay.census.counting import Census
from relay.census.reports import CensusReport, CensusReports

__all__ = ["Census", "CensusReport", "CensusReports", "Comparison"]
