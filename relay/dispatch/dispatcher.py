"""Ask any executor of an application, the likeliest to answer first."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import TypeVar

from relay.clock import Clock
from relay.dispatch.peers import Peer, Peers
from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    NoExecutorError,
    ReplyTimeoutError,
    UnknownMessageError,
)
from relay.ids import ApplicationRef
from relay.protocol.envelope import Request

ReplyT = TypeVar("ReplyT")


class Dispatcher:
    """Picks an executor, asks it, and goes to the next when it is lost or silent."""

    def __init__(self, peers: Peers, clock: Clock) -> None:
        self._peers = peers
        self._clock = clock
        self._turns = count()

    async def ask_any(
        self,
        application: ApplicationRef,
        request: Request[ReplyT],
        timeout: timedelta,  # noqa: ASYNC109 - the span is measured by our Clock
        *,
        attempt_timeout: timedelta | None = None,
        prefer: Callable[[Peer], int] | None = None,
    ) -> tuple[Peer, ReplyT]:
        """
        The first usable answer, and who gave it.

        Responsive executors come first, then the preferred ones, then those with the
        fewest requests in flight; equal ones take turns. Only the executors connected
        at the call are tried, each once.

        Args:
            request: may reach several executors, so it must be safe to repeat.
            timeout: for all tries together.
            attempt_timeout: for one try; default: all that is left.
            prefer: a rank an executor, lowest first; default: all alike.

        Raises:
            NoExecutorError: none is connected.
            UnknownMessageError: every one of them answered, and none knows the request.
            ConnectionLostError, ExecutorBusyError, ReplyTimeoutError: what befell the
                last of those that did not answer; another one may know the request.
            DispatchError: an executor answered, unusably; it is not asked of another,
                which would most likely say the same.
        """
        deadline = self._clock.monotonic() + timeout.total_seconds()
        failure: DispatchError | None = None
        unknown: UnknownMessageError | None = None
        for peer in self._rank(self._peers.list_peers(application.id), prefer):
            left = timedelta(seconds=deadline - self._clock.monotonic())
            if left <= timedelta(0):
                break
            try:
                span = left if attempt_timeout is None else min(left, attempt_timeout)
                return peer, await peer.ask(request, span)
            except UnknownMessageError as error:
                unknown = error
            except (ConnectionLostError, ExecutorBusyError, ReplyTimeoutError) as error:
                failure = error
        raise failure or unknown or NoExecutorError(application.name)

    def _rank(
        self, peers: Sequence[Peer], prefer: Callable[[Peer], int] | None
    ) -> list[Peer]:
        if not peers:
            return []
        first = next(self._turns) % len(peers)
        return sorted(
            (*peers[first:], *peers[:first]),
            key=lambda peer: (
                not peer.is_responsive,
                prefer(peer) if prefer else 0,
                peer.in_flight,
            ),
        )
