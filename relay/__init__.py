"""
Relay: an open control plane for DBOS Transact applications.

Executors (processes that run a DBOS application) connect over WebSocket. Relay
believes something about each of them (HEALTHY, DISCONNECTED, DEAD), and when one is
DEAD it has a living peer of the same application version take its pending workflows
over, and asks afterwards whether that is true.

How the rooms relate, from the bottom up (an import contract proves it)::

    ids errors clock tasks settings telemetry     words and tools, no decisions
    protocol  liveness  access  recovery.policy   pure: what decides
    records  db  store  audit                     rows: what is true
    hub  dispatch                                 sockets: who can be asked
    recovery  monitor  registry  retention        shells: what acts
    server  launch  cli                           assembly
    testing                                       doubles that Relay ships

Three promises hold everywhere: what decides is pure, what happens is recorded before
it is done, and every write about a socket carries its epoch and reads its row count.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("relay-control-plane")
except PackageNotFoundError:  # pragma: no cover - a tree that was never installed
    __version__ = "0.0.0"
