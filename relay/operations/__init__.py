"""
What callers may do that only an executor can answer: workflows, queues, schedules.

Relay holds none of these things. A use-case looks the application up, asks one of its
executors, and tells the caller what that one said::

    edge ──▶ Operations ──▶ workflows, changes, queues, schedules, versions
                                │ clerk: the application; the audit entry afterwards
                                │ scope: is it this application's?
                                ▼
                            asking.Executors ──▶ dispatch ──▶ an executor
                                │ whom: who knows the message and every option in it
                                │ how often: as often as `Repeat` allows
                                │ how long: 25 s in all, 10 s for one of several
                                ▼
                            failures: its words as an error that a caller understands

Invariants:

- **A wrong answer is worse than none.** An SDK that would leave a filter out of account
  is not asked; if all would, the caller reads which filter it is.
- **Nothing is done twice that was meant once.** What may be repeated says the use-case,
  case by case; an executor that did not know the message has done nothing.
- **No caller sees across the border of an application**, though executors do: several
  may share a system database. A row that names another one does not exist here, and to
  whoever may touch only some applications it is answered exactly as if it did not.
- **Payloads stay away from private applications' callers, and from Relay.** They are
  not asked for; what comes all the same is dropped.
- **What was done is audited, and what is audited was done.** The entry is written after
  the executor's yes; if the store is away then, the log has it.

On failure: nobody connected, or nobody who could, is told as such; an executor that was
lost or silent is followed by the next, within the time; one that answered with an error
is believed, for the others read the same database. Its whole text, which may hold row
values, goes into the log at debug; the caller gets one line.

What it does not do: it keeps nothing of what executors say (the application's settings
may be a second old, see `relay.registry.lookup`), interprets no payload, and knows no
permissions (the edge does) and no HTTP. Refused and failed changes are audited by the
edge, which knows what the caller was told.
"""

from relay.operations.clerk import TARGET_LIMIT_CHARS, name_workflows
from relay.operations.operations import Operations
from relay.operations.workflows import Listing

__all__ = ["TARGET_LIMIT_CHARS", "Listing", "Operations", "name_workflows"]
