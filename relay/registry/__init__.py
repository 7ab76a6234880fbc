"""
Applications, keys and who may use them.

The registry is the shell around the rules of `relay.access`: it finds the principal
behind a credential, decides on upgrade requests, and holds the use-cases that change
applications and keys. The REST edge and the command line call it; the hub asks it
through its `Gatekeeper` protocol::

    relay_api.routes ──┐
    relay.cli ─────────┼─▶ Registry ─▶ Applications, Keys ─────▶ store + audit
    hub.handshake ─────┘      │  Gate ─▶ Directory ─▶ Breaker ──▲
                              │             └▶ Memory           │
                              │  Newcomers ─────────────────────┤
                              │  ApplicationLookup ─────────────┘
                              └─▶ hub: close the sockets of what is gone

Invariants

- A change and its audit entry are one transaction. A mutation that was refused or
  failed is written by itself, because its transaction is gone (`record_failure`).
- The text of a key exists in `MintedKey` and in the request that carries it. The store
  holds a hash; log lines, audit entries and errors hold the key's name.
- A deleted application takes its sockets, executors and open recoveries with it. Its
  name comes back by PUT only, and a key scoped to it covers nothing afterwards.
- A revoked key is refused from the commit on, and its open sockets are closed: at once
  where the revocation was made, within `POLL_INTERVAL` elsewhere.
- While the store answers, what is taken from memory, by the gate and for requests (the
  lookup, keys), is a second old at most, and never that a key or an application is not
  there. What this process has changed counts at once.

When the store does not answer, the gate judges by its `Memory`: every application, name
and key that this server has read or changed. Who is known comes in, who was revoked or
deleted stays out, and a key that nobody has heard of is refused with 503 (the executor
keeps dialling). In local mode an application that nobody has heard of comes in too, as
one of the `Newcomers`: its row is written before the first news of its executors. Every
other use-case raises `StoreUnavailableError`, and sockets that are open stay open. A
store that hangs counts as away after 2 s, and is asked once a second from then on.

It does not judge liveness, does not order recoveries, and knows no HTTP.
"""

from relay.registry.actor import LOCAL_ORGANIZATION, SHELL_ACTOR, Actor
from relay.registry.applications import Applications, ApplicationView
from relay.registry.audit_log import AuditQuery
from relay.registry.browsers import FOREIGN_HOST, BrowserRules
from relay.registry.changes import KEEP, ApplicationChange, Keep
from relay.registry.executors import ExecutorView
from relay.registry.keys import NO_APPLICATION, Keys, MintedKey
from relay.registry.ports import LiveExecutor, Sockets
from relay.registry.registry import Registry, check_organization

__all__ = [
    "FOREIGN_HOST",
    "KEEP",
    "LOCAL_ORGANIZATION",
    "NO_APPLICATION",
    "SHELL_ACTOR",
    "Actor",
    "ApplicationChange",
    "ApplicationView",
    "Applications",
    "AuditQuery",
    "BrowserRules",
    "ExecutorView",
    "Keep",
    "Keys",
    "LiveExecutor",
    "MintedKey",
    "Registry",
    "Sockets",
    "check_organization",
]
