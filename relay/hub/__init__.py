"""
The sockets of executors: who is on line, asking one of them, and noticing its end.

A connection, from the upgrade request to its end::

    lobby ──▶ upgrade ──▶ admitting ──▶ handshaking ──▶ on line ──▶ closing ──▶ gone
      │          │            │              │             │           │
      │ 503      │ 404 400    │ 401 403      │ no usable   │           └ 5 s, then
      │          │ 503        │ 404 503      │ answer:     │             aborted
      ▼          ▼            ▼              │ 1008        ├ closed by the peer, or
    refused (HTTP, problem document)                       │ reset
                                                           ├ 25 s without a byte, does
                                                           │ not read for 10 s: aborted
                                                           ├ protocol broken: 1002,
                                                           │ 1007, 1009
                                                           ├ too much of it all: 1013
                                                           └ hung up: superseded,
                                                             deleted, revoked,
                                                             drained (1012)

In the *lobby* a socket is accepted and nothing more; see there. *Handshaking* begins
with the upgrade and ends with the answer to `executor_info`; listeners hear of a
connection from then on. Whoever is anywhere between the lobby and that answer is on the
way in: no deadline of its application should be judged (`Hub.is_handshaking`).
*Closing* is only the socket's business: the connection has already left every index.

Rooms within, from the wire up: `lobby` and `turnstile` (who comes in, how many at a
time), `descriptors` and `hangups` (what the system says of sockets), `web` and
`callers` (HTTP connections that keep us waiting), `socket` (bytes to frames; besides
`web` the only one that knows uvicorn), `unfinished` (what is held of messages),
`proxies` (whose socket it is behind them), `handshake`, `admission` and `refusals` (who
comes in), `connection`, `link`, `framing`, `intake`, `reading`, `sharing`, `replies`
and `outcomes` (asking), `reasons` (of closing) and `partings` (of many at once),
`deadlines`, `keepalive` and `pulse` (time), `seats` (which socket speaks for an
executor), `switchboard` (what sockets tell and what follows), `hub` (what the rooms
above see) and `events` (what they are told).

Invariants:

- **Any byte is life**, also one of a frame that is still arriving, and nothing delays
  its being seen: reading is paused only while a socket is admitted, and for the tenth
  of a second in which a thread reads what a large message is.
- **Messages are taken in the order in which they came**, and what has arrived whole
  before the end of its socket is an answer.
- **The end is one turn.** In the turn of the loop in which a connection is lost it
  leaves the index, those who wait for a reply fail, and the listener is told. Later
  bytes of its socket change nothing.
- **Every event names its connection.** A late end of an old socket carries its own id.
- **An executor is on line while any socket of it is.** When the newest ends and an
  older one is open, the listener hears of an arrival on the older one instead of a
  loss.
- **From the last look to the write nothing else runs**: `still_wanted` is asked in the
  turn in which the frame goes to the transport.
- **Everything is bounded**, in size and in time:

  ==================================  ==============================================
  the first byte of a socket          10 s
  waiting to be let in                4 s, then 503
  a request, 64 KiB of its body       10 s
  on the way in                       128 at once; a peer counts for 1 s
  admission                           32 at once, 4 s
  the answer to `executor_info`       10 s (setting)
  a message                           100 MiB (setting)
  reading one reply                   5 s of processor time
  all messages that are arriving      512 MiB (setting); the largest part goes
  an outbox                           1,000 frames, 64 MiB
  what a peer has not read            1 MiB, for 10 s; an HTTP client: for 10 s
  closing                             5 s
  sockets                             the limit of open files, less a reserve
  ==================================  ==============================================

- **Nobody waits for another one's reply to be read**: the thread that reads long ones
  gives each application the same share of its time, a few milliseconds in turn. What is
  long and is sent is written in pieces, with turns of the loop between them.
- **No work for who has gone.** Before a socket is let in, and again when it is
  admitted, it is asked whether its peer has hung up.
- **An idle connection costs no task and no timer.** All share a handful of deadline
  watchers, one paced pinger and one prober.
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
