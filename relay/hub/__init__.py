"""
The sockets of executors: who is on line, asking one of them, and noticing its end.

A connection, from the upgrade request to its end::

    upgrade ──▶ admitting ──▶ handshaking ──▶ on line ──▶ closing ──▶ gone
      │             │             │              │           │
      │ 404 400     │ 401 403     │ no usable    │           └ 5 s, then aborted
      │ 503         │ 404 503     │ answer:      │
      ▼             ▼             │ 1008         ├ closed by the peer, or reset
    refused (HTTP, problem document)             ├ 25 s without a byte: aborted
                                                 ├ does not read for 10 s: aborted
                                                 ├ protocol broken: 1002, 1007, 1009
                                                 └ hung up: superseded, deleted,
                                                   revoked, drained (1012)

*Handshaking* begins with the upgrade and ends with the answer to `executor_info`;
listeners hear of a connection from then on. *Closing* is only the socket's business:
the connection has already left every index.

Rooms within, from the wire up: `socket` (bytes to frames; the one file that knows
uvicorn), `handshake`, `admission` and `refusals` (who comes in), `connection` and
`replies` (asking), `deadlines`, `keepalive` and `pulse` (time), `seats` (which socket
speaks for an executor), `switchboard` (what sockets tell and what follows), `hub` (what
the rooms above see) and `events` (what they are told).

Invariants:

- **Any byte is life**, also one of a frame that is still arriving, and nothing delays
  its being seen: reading is paused only while a socket is admitted.
- **The end is one turn.** In the turn of the loop in which a connection is lost it
  leaves the index, those who wait for a reply fail, and the listener is told. Later
  bytes of its socket change nothing.
- **Every event names its connection.** A late end of an old socket carries its own id.
- **An executor is on line while any socket of it is.** When the newest ends and an
  older one is open, the listener hears of an arrival on the older one instead of a
  loss.
- **From the last look to the write nothing else runs**: `still_wanted` is asked in the
  turn in which the frame goes to the transport.
- **Everything is bounded**: messages, outboxes, write buffers, admissions, closings.
- **An idle connection costs no task and no timer.** All share three deadline watchers,
  one paced pinger and one prober.
- **The key is read once**, handed to the gatekeeper, and not kept, logged or counted.

What happens on failure: a defect while handling a frame costs that connection (1011)
and is logged; a gatekeeper that fails refuses with 503; a listener that fails is logged
and hurts nobody; a watcher that fails ends `Hub.run`. A loop that stood still lets the
bytes that have arrived be read before anybody is given up, and says that the loss may
be Relay's fault.

What it does not do: it knows no keys and no applications (the gatekeeper does), decides
nothing about DISCONNECTED or DEAD and supersedes nobody (the monitor does), chooses no
executor (the dispatcher does), repeats no request, and stores nothing.
"""
