"""
The shell of liveness: it turns what the hub sees into rows, and time into deaths.

::

    hub: connected, lost ──▶ inbox ─┐     one transaction a batch      afterwards
    start: orphaned rows ───────────┤
    sweep: elapsed deadlines ───────┼──▶ lock rows, liveness.step, ─▶ close superseded,
    reconcile: what was missed ─────┘    save rows, ledger, audit     wake recovery

Purpose
    `relay.liveness` decides; this room brings it the facts, one executor's after one
    another, and carries out what it orders.

Rooms within
    `monitor` (the inbox and the loops), `news` (what is told, and what it means),
    `belief` and `draft` (from a row to a state and back), `recorder` and `rows` (one
    transaction a batch), `sweep` (deadlines), `timekeeper` (the database's clock),
    `flush` (last-seen times, reconciliation), `flapping` and `wording` (what is
    audited), `ports` (what is needed of the hub and the registry).

Invariants
    * Record, then act: sockets are closed and the recovery engine is woken when the
      transaction is certain, never before.
    * Death and the opening of its recovery are one transaction, as are return and the
      recovery's end.
    * A deadline is a row. The sweep looks every second at most; what happens is decided
      on the locked row, by the database's clock.
    * A verdict is only believed when we were watching: after a start, an outage of the
      store, a standstill of this process or a jump of the database's clock, open
      deadlines are moved first. It waits while somebody of the application is on the
      way in, for as long as a handshake may take.
    * An application that was let in while the store was away gets its row in the
      transaction that records the first news of its executors.
    * What is said too often is said once: three cuts within two minutes are one entry
      `executor.flapping`, until five minutes have passed without one. Rows and figures
      stay as they are.

On failure
    While the store does not answer, news waits in the inbox and nobody becomes dead.
    News that cannot be written although the store answers is dropped with a traceback
    after its batch was tried executor by executor; if it was the news of a connection,
    the next reconciliation of rows and sockets makes up for it.

What it does not do
    It does not watch sockets for silence (the hub does) and recovers nobody (the engine
    does). Last-seen times live in the hub's memory; the rows follow every half minute.
"""

from relay.monitor.monitor import Monitor
from relay.monitor.ports import LiveConnection, Sockets

__all__ = ["LiveConnection", "Monitor", "Sockets"]
