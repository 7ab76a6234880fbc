"""
Making sure that the pending workflows of a dead executor run elsewhere.

The monitor opens a row in the ledger in the transaction that makes an executor DEAD.
From there on this room owns it::

    READY ──▶ question ──▶ nothing pending ─────────────────────────────▶ DONE
      ▲          │  work remains                                            ▲
      │          ├──▶ ORDERED ──▶ success ──▶ question again ──▶ nothing ───┤
      │          │        └──▶ error, silence, loss ──▶ BACKOFF             │
      │          │                                        work remains ──▶ BACKOFF
      │          ├──▶ BRAKED     a suspect; ordered, alone, after 1, 2, then every 5 min
      │          ├──▶ STRANDED   nobody of its version; looked at every 5 min
      │          └──▶ WAITING    nobody there, or nobody answers
      └── due, woken by an executor that connects, or by an operator

    RETURNED (it came back) and ABANDONED (an operator gave a reason) end any of them.
    STRANDED ──▶ MIGRATING ──▶ READY: `relay.migration` has the row meanwhile.

Two facts rule: an SDK recovers only work of its own version, and its `success: true`
says nothing about how much. So a row ends with the answer to a *question* ("does the
dead executor own pending work of this version?"), which any executor on the same
database answers truly, never with the answer to an order.

Rooms within: `policy` (pure: what to do), `transitions` (pure: how a row changes),
`brake` (pure: which workflows kill executors), `losses` (the brake's books),
`inquiry` (the question), `pacing` (how many of them at once), `orders` (the order, of
one row or of many), `bookkeeping` (rows, in short transactions), `writing` (many rows
in one of them), `reports` (what is told), `attempt` (one go at one row), `engine`
(which rows, when), `survey` (what no event brings), `ledger` (the operator's side),
`suspects` (what it shows of the brake).

An attempt is about one row from the claim to the end; only in two places does it meet
others. An order may name up to a hundred dead executors of one version if the SDK of
its target only re-enqueues: attempts that decide on the same target within 50 ms share
it, in one record and one frame, and each goes on with its own outcome. And what many
attempts have to write gathers while a transaction is under way, and is the next one.

Invariants:

- **Nobody on line is named.** The order's transaction checks under lock that the row of
  the executor is DEAD at the ledger's epoch, and the socket is checked again in the
  turn of the loop in which the frame is written.
- **Record, then act.** ORDERED is committed before a byte is sent.
- **One order a death is outstanding,** and none is repeated before the question was
  asked again. Where an SDK starts work on the spot, an order without an answer also
  blocks the next one until its target has answered something later, or is DEAD.
- **An order is shared once.** One bad row fails the call for all that it names, so
  whoever was ordered before, with whatever outcome, is ordered alone, as are rows with
  a suspect of the crash brake and orders to another version. Targets that start work on
  the spot are always given one id.
- **Unknown is not "nothing".** A record is deleted only on "nothing is pending". When
  no connected SDK can tell, the row ends DONE with `is_verified` False after an
  acknowledged order, and the executor's record stays.
- **The crash brake spaces, it never stops.** A BRAKED row has a next attempt like any
  other, and no other row waits for it.
- Every write is guarded by the revision that was read. A late outcome for a row that
  somebody else closed changes nothing.

On failure: while the store does not answer, an attempt holds its outcome and tries to
write it again; nothing is ordered meanwhile. An attempt that dies, with the process or
in an error, leaves a claimed row, which goes to BACKOFF at the next start or survey.

What it does not do: it declares nobody dead (`relay.liveness`), wakes nothing when an
executor connects (the monitor does, in its own transaction), compares databases (it
asks an `Agreement`, see `ports`, before it deletes anything), finds work that no death
accounts for (`relay.census`), or moves work between versions (`relay.migration` does),
except for one order a version under `VersionPolicy.ANY`.
"""

from relay.recovery.engine import RecoveryEngine
from relay.recovery.ledger import Ledger, RecoveryStory
from relay.recovery.suspects import Suspect

__all__ = ["Ledger", "RecoveryEngine", "RecoveryStory", "Suspect"]
