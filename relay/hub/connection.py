"""One executor's connection: what is asked over it, in which order, and who waits."""

from asyncio import wrap_future
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import structlog

from relay.clock import Clock, take_breaths
from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
    RequestWithdrawnError,
    UnknownMessageError,
)
from relay.hub.events import Loss
from relay.hub.handshake import Admission
from relay.hub.intake import (
    LARGE_FRAME_BYTES,
    Head,
    Intake,
    may_be_read_here,
    read_head,
)
from relay.hub.link import Link
from relay.hub.outcomes import name_outcome
from relay.hub.reading import BudgetSpentError, ReadingThread
from relay.hub.replies import EXPORT, SLOW_MESSAGES, SLOW_SPAN, Pending, Replies
from relay.ids import (
    ApplicationRef,
    ConnectionId,
    ExecutorId,
    ExecutorRef,
    KeyId,
    KeyName,
    RequestId,
    new_id,
)
from relay.protocol import (
    Envelope,
    FrameError,
    NotTextError,
    Request,
    is_unknown_message,
)
from relay.protocol.long_requests import encode_in_steps
from relay.protocol.messages import ExecutorInfo
from relay.protocol.sdk import Capabilities, Sdk, capabilities_of
from relay.protocol.steps import read_in_steps
from relay.telemetry import Metrics

ReplyT = TypeVar("ReplyT")

OUTBOX_FRAMES = 1_000
OUTBOX_BYTES = 64 * 1024 * 1024
TIMEOUTS_TO_UNRESPONSIVE = 2

logger = structlog.get_logger(__name__)

_NOBODY: Final = ExecutorId("(unknown)")


class Connection:
    """
    One open socket of one executor.

    Requests wait in one queue, in order, until the executor may be given another one:
    its SDK says how many it bears at a time. `ref`, `info` and `capabilities` are the
    executor's own from the handshake on, which is before the hub hands it out.
    """

    __slots__ = (
        "_clock",
        "_intake",
        "_link",
        "_metrics",
        "_outbox",
        "_outbox_bytes",
        "_reader",
        "_replies",
        "_timeouts_in_row",
        "application",
        "capabilities",
        "id",
        "info",
        "key_id",
        "key_name",
        "last_seen_at",
        "max_message_bytes",
        "peer_address",
        "pinged_at",
        "ref",
        "unread_bytes",
    )

    info: ExecutorInfo
    ref: ExecutorRef

    def __init__(
        self,
        link: Link,
        admission: Admission,
        *,
        peer_address: str,
        max_message_bytes: int,
        clock: Clock,
        metrics: Metrics,
        reader: ReadingThread,
    ) -> None:
        """
        An open socket of somebody who has not said yet who it is.

        Args:
            reader: where messages are read that take long.
        """
        self.id = ConnectionId(new_id())
        self.application: ApplicationRef = admission.application
        self.key_id: KeyId | None = admission.key_id
        self.key_name: KeyName | None = admission.key_name
        self.peer_address = peer_address
        self.max_message_bytes = max_message_bytes
        self.capabilities: Capabilities = capabilities_of(Sdk(None, None))
        self.last_seen_at: datetime = clock.now()
        self.pinged_at = float("-inf")
        self.unread_bytes = 0
        self._clock = clock
        self._metrics = metrics
        self._link: Link | None = link
        # A mapping in order of arrival: who gives up is found at once, and an empty
        # one is a tenth of an empty deque.
        self._outbox: dict[RequestId, Pending] = {}
        self._outbox_bytes = 0
        self._replies = Replies(clock)
        self._reader = reader
        self._intake: Intake | None = None
        self._timeouts_in_row = 0

    def __repr__(self) -> str:
        return f"<Connection {self.id} of {self.application.name}/{self._executor}>"

    @property
    def link(self) -> Link | None:
        """The socket; `None` once the connection has ended."""
        return self._link

    @property
    def is_identified(self) -> bool:
        """Whether the executor has said who it is."""
        return hasattr(self, "ref")

    @property
    def in_flight(self) -> int:
        """Requests the executor has still to answer, those waiting to be sent too."""
        return len(self._replies) + len(self._outbox)

    @property
    def is_responsive(self) -> bool:
        """False after two time-outs in a row, until the executor answers anything."""
        return self._timeouts_in_row < TIMEOUTS_TO_UNRESPONSIVE

    @property
    def is_deaf(self) -> bool:
        """Whether the socket is left unread, because a large message is being read."""
        return self._intake is not None

    def identify(self, info: ExecutorInfo) -> None:
        """Note who is at the other end."""
        self.info = info
        self.ref = ExecutorRef(self.application, info.executor_id)
        self.capabilities = capabilities_of(Sdk(info.language, info.dbos_version))

    def is_asked(self, message_type: str) -> bool:
        """Whether a request of that type is out and not answered."""
        return self._replies.holds_type(message_type)

    async def ask(
        self,
        request: Request[ReplyT],
        timeout: timedelta,  # noqa: ASYNC109 - the queue shares it with the reply
        *,
        still_wanted: Callable[[], bool] | None = None,
    ) -> ReplyT:
        """
        Send `request` and wait for its reply, for `timeout` from now.

        A request whose asker gives up, by time-out or cancellation, is not sent any
        more; if it was sent, its reply is dropped when it comes.

        Args:
            still_wanted: asked in the same turn of the loop in which the frame is
                handed to the transport; False withdraws the request. An error that it
                raises reaches the asker.

        Raises:
            ConnectionLostError: the socket ended; ask another executor.
            ExecutorBusyError: too many requests wait for it; ask another executor.
            ReplyTimeoutError: no answer in time; ask another executor.
            ReplyTooLargeError: the socket was closed because some reply broke the
                limit, most likely this one; ask for less.
            ReplyInvalidError: an answer that cannot be used.
            ExecutorFailedError: it answered with an error message.
            UnknownMessageError: its SDK does not know this request.
            RequestWithdrawnError: `still_wanted` said no; nothing was sent.
            InvalidInputError: the request must not be sent to any executor.
        """
        began = self._clock.monotonic()
        name = request.message_type
        try:
            reply = await self._exchange(request, timeout, still_wanted)
        except DispatchError as error:
            self._metrics.requests.labels(name, name_outcome(error)).inc()
            raise
        self._metrics.requests.labels(name, "ok").inc()
        self._metrics.request_seconds.labels(name).observe(
            self._clock.monotonic() - began
        )
        return reply

    def receive(self, frame: bytes) -> None:
        """
        Take one complete message of the executor.

        The head of a large one is read in a thread. What comes behind it waits, and
        what is still to come stays with the system: memory is bounded by one reading
        of the socket.
        """
        if self._intake is None and len(frame) < LARGE_FRAME_BYTES:
            self._take(frame, read_head(frame))
            return
        if self._intake is None:
            self._intake = Intake(
                self._take_guarded,
                self._end_intake,
                threads=self._reader.share_of(self.application.id),
            )
            if self._link is not None:
                self._link.pause_reading()
        self._intake.add(frame)

    def write_waiting(self) -> None:
        """Write as many waiting requests as the executor may have now."""
        # One turn of the loop from `still_wanted` to the transport: an await between
        # them would let the executor that an order names come back on line.
        while self._outbox:
            pending = next(iter(self._outbox.values()))
            link = self._find_room(pending)
            if link is None:
                return
            self._take_out(pending)
            if pending.answer.done() or not self._is_still_wanted(pending):
                continue
            frame, pending.frame = pending.frame, ()
            pending.is_sent = True
            self._replies.expect(pending)
            link.send(*frame)

    def end(self, loss: Loss) -> None:
        """Fail everybody who waits; nothing is sent or received from here on."""
        link, self._link = self._link, None
        intake, self._intake = self._intake, None
        if intake is not None:
            if link is not None:
                # Or nobody would see the peer's part in closing.
                link.resume_reading()
            # What had arrived whole before the end is an answer.
            intake.finish()
        outbox, self._outbox = self._outbox, {}
        self._outbox_bytes = 0
        for pending in self._replies.take_all():
            if loss is Loss.TOO_LARGE:
                # The head of a frame does not say which question it answers.
                pending.fail(ReplyTooLargeError(self._executor, self.max_message_bytes))
            else:
                pending.fail(ConnectionLostError(self._executor, delivered=True))
        for pending in outbox.values():
            pending.fail(ConnectionLostError(self._executor, delivered=False))

    @property
    def _executor(self) -> ExecutorId:
        return self.ref.executor_id if self.is_identified else _NOBODY

    def _take(self, frame: bytes, head: Head) -> None:
        if isinstance(head, NotTextError):
            if self._link is not None:
                self._link.refuse_text()
            return
        if isinstance(head, Exception) and not isinstance(head, FrameError):
            raise head
        if isinstance(head, FrameError) or not self._replies.settle(
            frame, head, self._executor
        ):
            self._metrics.replies_dropped.inc()
            return
        if not self.is_responsive:
            self._log("executor_answered_again")
        self._timeouts_in_row = 0
        self.write_waiting()

    def _take_guarded(self, frame: bytes, head: Head) -> None:
        try:
            self._take(frame, head)
        except Exception:
            logger.exception("frame_failed", connection_id=self.id)
            if self._link is not None:
                self._link.fail()

    def _end_intake(self) -> None:
        self._intake = None
        if self._link is not None:
            self._link.resume_reading()

    async def _exchange(
        self,
        request: Request[ReplyT],
        span: timedelta,
        still_wanted: Callable[[], bool] | None,
    ) -> ReplyT:
        pending = Pending(
            RequestId(new_id()),
            request.message_type,
            still_wanted,
            is_slow=request.message_type in SLOW_MESSAGES or span > SLOW_SPAN,
        )
        try:
            async with self._clock.timeout(span):
                await self._write(request, pending)
                self._enqueue(pending)
                envelope, frame = await pending.answer
                return await self._read_answer(request, envelope, frame)
        except TimeoutError:
            if not pending.is_answered:
                self._count_timeout(pending)
            raise ReplyTimeoutError(
                self._executor, span, delivered=pending.is_sent
            ) from None
        finally:
            self._let_go(pending)

    async def _write(self, request: Request[Any], pending: Pending) -> None:
        if self._link is None:
            raise ConnectionLostError(self._executor, delivered=False)
        # A long one is not ready in this turn of the loop.
        pending.frame = await take_breaths(
            self._clock, encode_in_steps(request, pending.request_id)
        )

    async def _read_answer(
        self, request: Request[ReplyT], envelope: Envelope, frame: bytes
    ) -> ReplyT:
        if envelope.error_message is not None:
            if is_unknown_message(envelope.error_message):
                raise UnknownMessageError(self._executor, envelope.error_message)
            raise ExecutorFailedError(self._executor, envelope.error_message)
        try:
            if may_be_read_here(frame):
                return request.decode_reply(frame)
            steps = read_in_steps(request, frame)
            return await wrap_future(
                self._reader.submit_steps(self.application.id, steps)
            )
        except (FrameError, BudgetSpentError) as error:
            raise ReplyInvalidError(self._executor, str(error)) from None

    def _enqueue(self, pending: Pending) -> None:
        if self._link is None:
            raise ConnectionLostError(self._executor, delivered=False)
        # One that waits alone may be as large as it is.
        if self._outbox and (
            len(self._outbox) >= OUTBOX_FRAMES
            or self._outbox_bytes + pending.size_bytes > OUTBOX_BYTES
        ):
            raise ExecutorBusyError(self._executor, len(self._outbox))
        pending.is_behind_silence = self._replies.holds_unanswered()
        self._outbox[pending.request_id] = pending
        self._outbox_bytes += pending.size_bytes
        self.write_waiting()

    def _find_room(self, pending: Pending) -> Link | None:
        """The socket, if the executor may be given `pending` now."""
        if self._link is None or not self._link.is_writable:
            return None
        limit = self.capabilities.max_in_flight
        if pending.message_type == EXPORT or self.is_asked(EXPORT):
            limit = min(limit, self.capabilities.max_in_flight_during_export)
        if len(self._replies) >= limit:
            self._replies.drop_held()
        return self._link if len(self._replies) < limit else None

    def _is_still_wanted(self, pending: Pending) -> bool:
        if pending.still_wanted is None:
            return True
        try:
            if pending.still_wanted():
                return True
        except Exception as error:
            # It belongs to the asker; the others in the queue go on.
            pending.fail(error)
            return False
        pending.fail(RequestWithdrawnError(self._executor))
        return False

    def _count_timeout(self, pending: Pending) -> None:
        # Who was never asked is not silent, unless it has owed an answer for so long
        # that it could not be asked; nor is who works on something that takes minutes,
        # or whose answer we have and not read.
        is_silent = pending.is_sent or pending.is_behind_silence
        if is_silent and not (self.is_deaf or self._replies.holds_slow()):
            self._timeouts_in_row += 1
            if self._timeouts_in_row == TIMEOUTS_TO_UNRESPONSIVE:
                self._log("executor_stopped_answering")

    def _let_go(self, pending: Pending) -> None:
        if pending.answer.done() and not pending.answer.cancelled():
            # Whoever was cancelled in the turn in which it failed never looks at it.
            pending.answer.exception()
        if pending.is_sent:
            self._replies.hold(pending)
        elif pending.request_id in self._outbox:
            self._take_out(pending)

    def _take_out(self, pending: Pending) -> None:
        del self._outbox[pending.request_id]
        self._outbox_bytes -= pending.size_bytes

    def _log(self, event: str) -> None:
        logger.warning(
            event,
            application=self.application.name,
            executor_id=self._executor,
            connection_id=self.id,
        )
