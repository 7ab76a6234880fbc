"""
What Relay knows, as rows; the only room that speaks SQL.

Use-cases open a unit of work (one transaction), ask its repositories for records and
hand changed records back::

    async with store.write() as work:
        executors = await work.executors.lock(keys)
        await work.executors.save(changed, expected_epoch=..., expected_status=...)

::

    organization ─┬─ application ─┬─ executor        what is believed now
                  │               ├─ recovery        the ledger: one row a death
                  │               ├─ tombstone       executors whose record was deleted
                  │               ├─ workflow_loss   what the crash brake counts
                  │               ├─ census          the last count of pending work
                  │               ├─ unknown_owner   whose of it nobody will recover
                  │               ├─ dispute         its executors read two databases
  │               ├─ metric          what was counted in it, window by window
  │               ├─ collection      the end of the last window
                  │               └─ api_key_application
                  ├─ deleted_application             names that need a PUT to come back
                  ├─ api_key
                  └─ audit_entry                     outlives what it tells of

Invariants:

- A write about a socket names the epoch and the status it was decided on, a write to
  the ledger names the revision; both say whether they changed a row. What was decided
  on old news changes nothing, so a transaction of unknown outcome may be repeated.
- At most one recovery of an executor is open, until it has a final state.
- Locks are taken in one order, whoever takes them: applications, then executors, then
  recoveries, then workflow losses, each by their keys; what is collected comes right
  after the application.
- Every "now" is the database's clock, read when the unit of work began: `work.now`.
- Deleting an application deletes all that hangs on it except the audit log, and never
  widens a key: a key that loses its last application covers none.

On failure: a database that does not answer is a `StoreUnavailableError`, everything of
the unit of work is undone (or, when the commit itself got no answer, perhaps done), and
the caller tries again. Nothing here retries.

What it does not do: it decides nothing, waits for no executor, and caches nothing.
"""

from relay.store.work import Store, UnitOfWork

__all__ = ["Store", "UnitOfWork"]
