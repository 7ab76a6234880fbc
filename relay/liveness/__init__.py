"""
What Relay believes about an executor, and why it changes its mind; pure.

Purpose
    Recovering an executor that lives runs its step in flight a second time; missing one
    that is dead leaves its work stuck. This package decides which is which, from facts
    that carry their own time and identity. It reads no clock and touches nothing.

The picture::

                          ExecutorConnected
         Unknown ───────────────────────────────▶ Healthy ◀─┐ another connection:
                                                  ▲  ▲  │   │ the newest wins
                                 ExecutorConnected│  │  └───┘
                                                  │  │  │ ConnectionLost, OwnerLost
                                                  │  │  ▼
                                Dead ─────────────┘  Disconnected ◀─┐ OwnerLost:
                                 ▲  ExecutorConnected   │       │   │ a fresh grace,
                                 └──────────────────────┘       └───┘ three times
                                        GraceElapsed

Four files, four kinds of thing
    `states` what is believed, `events` facts in the past tense, `effects` orders in the
    imperative, `policy` the numbers of one application. `machine.step` joins them.

Invariants
    * News about a connection, a deadline or an epoch that is no longer the current one
      changes nothing and orders nothing.
    * Nobody is dead before its own deadline has passed.
    * Each death opens one recovery. An executor that returns ends it. A verified
      recovery deletes the record: the ledger does, in the transaction that proves it
      (ADR 0010), and the executor is Unknown again.
    * The epoch grows with each connection, and only with it.
    * The same events give the same states.

Time
    Every `at` and every deadline is an instant of one clock: the database's. The shell
    reads it in the transaction that records the transition, so a deadline is never
    compared with the clock of another machine.

What it does not do
    It does not know how a recovery goes on (the ledger does), which sockets are open
    (the hub does), or when a deadline has passed (the shell asks the store).
"""
