"""
Moving stranded work to another version.

A recovery is STRANDED when no executor of its version is connected: SDKs take over work
of their own version only. An operator may say which other version is to finish it::

    plan ──▶ begin: MIGRATING, and the items ──▶ each item ──▶ end: READY
     │         in one transaction                                │
     └ a dry run ends here          the engine asks what is left ┘

    REWIND   PLANNED ◀─▶ CANCELLING ──▶ REWINDING ──▶ MOVED
    FORK     PLANNED ◀─▶ FORKING ──▶ CANCELLING ──▶ MOVED

    It is PLANNED again if its first message certainly has not arrived. SKIPPED (no
    longer there to be moved), REFUSED (it would lose something) and FAILED (the
    executors would not, or it was changed behind Relay's back) end an item as well.

Where the SDK can, a workflow keeps its id: it is cancelled, and rewound to where it
was. Else a copy is made from there, and the original cancelled once the copy exists.

Rooms within: `planning` (pure: what is moved, in which order, what must not be),
`steps` (pure: what to do next about one workflow), `reading` (what executors tell),
`books` (short transactions), `mover` (one workflow), `runner` (plans, begins, and
carries on), `reports` (what is told), `ports` (what is needed of the hub).

Invariants:

- **Nobody else works on it.** A MIGRATING row is never due and never woken: an executor
  of the old version that connects meanwhile is not ordered. Before a workflow is
  touched, a transaction sees the row MIGRATING and the executor DEAD, under its lock.
- **Record, then act; look, then act.** A state is committed before its message leaves,
  and each step begins with what the executors tell now. An executor's yes counts for
  nothing, only what is read afterwards does. So a crash at any point loses nothing and
  does nothing twice.
- **Once begun, an item is finished,** whatever becomes of the recovery: nothing is left
  cancelled and not moved. It is not begun as long as its first message certainly has
  not arrived, nor while no executor of the new version is connected.
- **Families move whole or not at all.** Children go first, for a parent that runs again
  must not meet its child cancelled; if one is refused, all of its family are.
- **Nothing recorded is run again,** as in an ordinary recovery, and messages that were
  not received yet are not lost: their workflow is refused. Where nobody could look for
  them, the item says so, to its end.

On failure: where nobody can be asked, it pauses and goes on, for as long as it takes. A
no is taken three times; then the item is FAILED and says what is left behind, and a
workflow that was cancelled already is put back for its old version.

What it does not do: it moves nothing by itself, nothing that is not pending in a dead
executor, except for the waiting children of such work, and it interprets no payload.
"""

from relay.migration.reports import MigrationReport, MigrationState
from relay.migration.runner import Migrations

__all__ = ["MigrationReport", "MigrationState", "Migrations"]
