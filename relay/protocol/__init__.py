"""
What Relay and an executor say to each other, as values and text.

Relay asks and an executor answers; an executor never speaks unasked. The room turns a
request into the text of one WebSocket frame, and the bytes of a frame into an envelope
or a reply. It sends nothing, waits for nothing and keeps nothing::

    Request ── encode ──▶ frame ──▶ (hub) ──▶ executor
    reply   ◀─ decode_reply ── frame ◀─ (hub) ◀── executor
                                 └─ decode_envelope: type, request id, error

Rooms within: `envelope` (the one encoder, the envelope); a request and its reply per
type in `messages` and `aggregates` (what Relay asks for itself) and in `workflows`,
`workflow_orders`, `queues`, `schedules`, `versions` and `statistics` (what its callers
ask for); `sdk` and `support` (what each language and version can be trusted with, and
what it understands); `frames`, `rows` and `sanitising` (how bytes from outside become
harmless values), `filters` (how what is empty stays out of a frame), `steps` and
`long_requests` (how what is long leaves others their turn).

Invariants:

- **One encoder, and it is strict.** Four SDKs read what it writes, and the weakest
  decides: a malformed frame ends a TypeScript application, a null flag is refused by
  Java, an empty list is invalid SQL elsewhere. So a frame is ASCII text, starts with
  `type` and `request_id`, and holds no null that is not declared, no empty list, no
  fraction, and no integer that JavaScript would round.
- **Readers are lenient about form and strict about meaning.** A key may be absent, null
  or of a neighbouring type, and unknown keys are skipped unread. But an answer that
  decides about work (`exist_pending_workflows`, `list_workflows`) is never guessed:
  what does not say "nothing is pending" is a `FrameError`.
- **What an executor says about itself is hostile input.** An `ExecutorInfo` can be
  stored, logged and sent on: valid UTF-8, no NUL, no NaN, bounded in size and depth.
- **Errors never quote the payload.** It may hold row values and paths.

On failure: whatever is wrong with a frame is a `FrameError`; the caller decides whether
it costs the request or the socket. A value that must not be sent is an
`InvalidInputError` and nothing was sent; a type the encoder does not know is a
`TypeError`, a defect of ours.

What it does not do: it does not match replies to requests, time them, or look at
`error_message` before a result (the connection does, through the envelope), and it
never interprets a workflow's input or output.
"""

from relay.protocol.envelope import (
    REQUIRED_NULL,
    Envelope,
    JsonObject,
    Request,
    decode_envelope,
    encode,
    is_unknown_message,
)
from relay.protocol.frames import FrameError, NotTextError

__all__ = [
    "REQUIRED_NULL",
    "Envelope",
    "FrameError",
    "JsonObject",
    "NotTextError",
    "Request",
    "decode_envelope",
    "encode",
    "is_unknown_message",
]
