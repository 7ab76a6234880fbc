"""
The one place that knows which database it talks to.

Relay speaks SQLAlchemy Core, written once for SQLite and PostgreSQL. Everything in
which the two differ is here: how an instant is stored, whose clock is read, how rows
are locked, how a transaction begins, and which of the drivers' errors mean "not there"
rather than "wrong".

::

    Database.open(url)
      ├── SQLite       one writing connection (BEGIN IMMEDIATE), several query-only ones
      └── PostgreSQL   one pool; reading transactions are READ ONLY
    Database.transaction(write=...) -> Transaction -> execute, lock_rows, insert_new ...
    Database.open_session_lock(key) -> SessionLock, PostgreSQL only

Invariants:

- Instants are aware and in UTC on both sides of this wall; a naive one is refused.
- A transaction reads the clock once, when it begins; `Transaction.now` is what every
  statement in it means by now.
- A failure to reach the database is a `StoreUnavailableError` wherever it happens:
  at the begin, in a statement, at the commit. A wrong statement or a broken constraint
  never is one. When a commit fails that way, its outcome is unknown: callers repeat,
  and the guards of the repositories make repeating safe.
- Passwords and statement parameters are in no log line and in no error.
"""

from relay.db.database import Database
from relay.db.session_lock import SessionLock
from relay.db.transaction import Transaction
from relay.db.types import Instant, Json, Span

__all__ = ["Database", "Instant", "Json", "SessionLock", "Span", "Transaction"]
