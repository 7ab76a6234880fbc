"""What the rooms above the hub see of its connections."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from relay.ids import ApplicationId, ApplicationRef, ExecutorRef
from relay.protocol.envelope import Request
from relay.protocol.messages import ExecutorInfo
from relay.protocol.sdk import Capabilities

ReplyT = TypeVar("ReplyT")


class Peer(Protocol):
    """One connected executor that has said who it is."""

    @property
    def ref(self) -> ExecutorRef:
        """Which executor this is."""
        ...

    @property
    def info(self) -> ExecutorInfo:
        """What it said about itself; its application version is in here."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What its SDK can do."""
        ...

    @property
    def in_flight(self) -> int:
        """How many requests wait for it, queued ones included."""
        ...

    @property
    def is_responsive(self) -> bool:
        """False after two time-outs in a row, until it answers again."""
        ...

    async def ask(
        self,
        request: Request[ReplyT],
        timeout: timedelta,  # noqa: ASYNC109 - the span is measured by our Clock
        *,
        still_wanted: Callable[[], bool] | None = None,
    ) -> ReplyT:
        """
        Send `request` and wait for its reply, for `timeout` from now.

        Args:
            still_wanted: asked in the same turn of the loop in which the frame is
                written; False withdraws the request.

        Raises:
            ConnectionLostError: the socket ended; ask another.
            ExecutorBusyError: too much waits for it already; ask another.
            ReplyTimeoutError: no answer in time; ask another.
            ReplyInvalidError: an answer that cannot be used.
            ReplyTooLargeError: an answer beyond the limit; do not repeat.
            ExecutorFailedError: it answered with an error message.
            UnknownMessageError: its SDK does not know this request.
            RequestWithdrawnError: `still_wanted` said no; nothing was sent.
        """
        ...


class Peers(Protocol):
    """The connected executors, by application."""

    def list_peers(self, application_id: ApplicationId) -> Sequence[Peer]:
        """Those of one application, one an executor, in no certain order."""
        ...

    def find(self, ref: ExecutorRef) -> Peer | None:
        """That executor, if it is connected."""
        ...

    def is_online(self, ref: ExecutorRef) -> bool:
        """Whether any socket of that executor is open."""
        ...

    def is_anybody_arriving(self, application: ApplicationRef) -> bool:
        """Whether a socket of that application was let in and is not on line yet."""
        ...
