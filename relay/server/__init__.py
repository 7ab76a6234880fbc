"""
Assembly: what a running server consists of, and the order in which it opens.

::

    settings ─▶ database ─▶ the right to be its only server ─▶ migrate ─▶ store ─▶ audit
             ─▶ hub ─▶ dispatcher ─▶ recovery engine ─▶ monitor ─▶ registry ─▶ retention
             ─▶ census ─▶ collection ─▶ operations ─▶ diagnosis
             ─▶ what the last run left behind is put in order (`monitor.start`)
             ─▶ loops ─▶ sockets may come

It closes in reverse. Whatever acts on executors stops first; then the hub says goodbye
to its sockets while the monitor still listens, so that each loss is recorded as one
that Relay caused; then the monitor writes what is left; the database goes last.

Invariants

- Nothing here decides: each room gets its collaborators and is started.
- While the database is away the start waits, and says so; it never goes on without.
- One server runs on a database (`lock`). A second one waits, or is refused on SQLite;
  one that finds itself replaced sets `Server.replaced`, and is closed like any other.
- A loop that fails is logged and started again: a server whose recovery has silently
  ended would be worse than none.

`open_offline` is the same house without sockets and loops, for commands that work on
the database while a server may be running on it; they neither lock nor migrate it, and
only those that may come before the first start of a server make a missing one.
"""

from relay.server.assembly import Server, open_server, open_server_on
from relay.server.database import open_migrated
from relay.server.offline import Offline, open_offline

__all__ = [
    "Offline",
    "Server",
    "open_migrated",
    "open_offline",
    "open_server",
    "open_server_on",
]
