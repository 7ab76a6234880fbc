"""Requests that have left, and the replies that settle them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from relay.clock import Clock
from relay.errors import ReplyInvalidError
from relay.ids import ExecutorId, RequestId
from relay.protocol import Envelope

EXPORT = "export_workflow"

SLOW_MESSAGES = frozenset({"retention", "import_workflow", "fork_from_failure", EXPORT})
"""Work of minutes, behind which a serial SDK lets everything else wait."""

SLOW_SPAN = timedelta(minutes=1)
"""Whose asker waits longer expects such work too: of a thousand workflows, say."""

HELD_SECONDS = 300.0
"""
How long a request that nobody waits for any more still counts as outstanding.

The executor works on it all the same, and a serial one reads nothing meanwhile. A
reply that never comes must not take the place for ever, though.
"""


@dataclass(slots=True, eq=False)
class Pending:
    """
    One request on its way.

    `frame` is one text frame in pieces, and is emptied once it is written. `is_sent`
    says that the executor may have seen it, `is_behind_silence` that it was queued
    behind one that was given up without an answer, `is_slow` that it may take minutes;
    `let_go_at` is the monotonic reading at which its asker stopped waiting.
    """

    request_id: RequestId
    message_type: str
    still_wanted: Callable[[], bool] | None
    answer: "asyncio.Future[tuple[Envelope, bytes]]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    frame: tuple[bytes, ...] = ()
    is_sent: bool = False
    is_behind_silence: bool = False
    is_slow: bool = False
    let_go_at: float | None = None

    @property
    def size_bytes(self) -> int:
        """Of what is still to be written."""
        return sum(map(len, self.frame))

    @property
    def is_answered(self) -> bool:
        """Whether a reply came while its asker waited."""
        return (
            self.answer.done()
            and not self.answer.cancelled()
            and self.answer.exception() is None
        )

    def fail(self, error: Exception) -> None:
        """Have the asker fail with `error`, unless it is gone or answered."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Replies:
    """
    The requests written to one socket and not answered, by request id.

    A request leaves by its reply, or with the socket. When its asker gives up it stays,
    *held*, until the reply or `HELD_SECONDS`.
    """

    __slots__ = ("_clock", "_pending")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def expect(self, pending: Pending) -> None:
        """Wait for the reply to a request that is being written now."""
        self._pending[pending.request_id] = pending

    def hold(self, pending: Pending) -> None:
        """Keep the place of a request whose asker stopped waiting."""
        if pending.request_id in self._pending:
            pending.let_go_at = self._clock.monotonic()

    def settle(self, frame: bytes, envelope: Envelope, executor: ExecutorId) -> bool:
        """
        Give a received frame to whoever waits for it; `envelope` is its head.

        A frame of the wrong type for its request id fails that request.

        Returns:
            Whether it answers a request that is outstanding, held ones included.
        """
        pending = self._pending.pop(envelope.request_id, None)
        if pending is None:
            return False
        if envelope.message_type != pending.message_type:
            reason = f"a reply to {pending.message_type} had another type"
            pending.fail(ReplyInvalidError(executor, reason))
        elif not pending.answer.done():
            pending.answer.set_result((envelope, frame))
        return True

    def holds_unanswered(self) -> bool:
        """Whether a request is outstanding whose asker has given up."""
        return any(pending.let_go_at is not None for pending in self._pending.values())

    def drop_held(self) -> None:
        """Forget what has been held for too long."""
        latest = self._clock.monotonic() - HELD_SECONDS
        for pending in list(self._pending.values()):
            if pending.let_go_at is not None and pending.let_go_at <= latest:
                del self._pending[pending.request_id]

    def take_all(self) -> list[Pending]:
        """Everything outstanding; nothing is any more."""
        pending, self._pending = self._pending, {}
        return list(pending.values())

    def holds_slow(self) -> bool:
        """Whether a request is outstanding that may take minutes."""
        return any(pending.is_slow for pending in self._pending.values())

    def holds_type(self, message_type: str) -> bool:
        """Whether a request of that type is outstanding."""
        return any(
            pending.message_type == message_type for pending in self._pending.values()
        )
