"""
The process around the server: descriptors, listening sockets, uvicorn, signals.

::

    raise the descriptor limit ─▶ bind ─▶ open the server ─▶ listen ─▶ serve
                                              │ signal: ends     │ signal, or replaced
                                              ▼ at once          ▼
                                             gone ◀───────── orderly stop
                                                   a second signal: at once

The application that answers HTTP is named, not imported: the engine does not depend on
the edge. Order matters here. The address is bound before anything else, so that a port
in use is told before the database is touched; but nobody is listening on it until the
server is open, so that an executor never waits on a socket that cannot answer yet.

A SIGTERM or SIGINT ends the process with status 0 after an orderly stop, within ten
seconds if the database answers: nobody is accepted any more, executors read 1012, HTTP
clients get their answer or are cut off, and what happened is written. Before the server
is open (it may be waiting for its database, or for another server to leave it) it ends
at once. So does a second signal, by which the process then dies. A server that was
replaced by another stops in the same order, and the process ends with the error.
"""

from relay.launch.address import bind, raise_descriptor_limit
from relay.launch.process import launch
from relay.launch.web import Application, WebServer, configure

__all__ = [
    "Application",
    "WebServer",
    "bind",
    "configure",
    "launch",
    "raise_descriptor_limit",
]
