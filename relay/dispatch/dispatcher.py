"""Ask any executor of an application, the likeliest to answer first."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import chain, count, islice
from typing import Final, TypeVar

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
from relay.ids import ApplicationRef, ExecutorId, ExecutorRef
from relay.protocol.envelope import Request

ReplyT = TypeVar("ReplyT")

COMPARED_AT_ONCE: Final = 64
"""Executors among whom the likeliest is found; of more, a part after the other."""


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
        first: ExecutorId | None = None,
    ) -> tuple[Peer, ReplyT]:
        """
        The first usable answer, and who gave it.

        Responsive executors come first, then the preferred ones, then those with the
        fewest requests in flight; equal ones take turns. Where there are hundreds, only
        so many of them are compared for that, each time others. Only the executors
        connected at the call are tried, each once.

        Args:
            request: may reach several executors, so it must be safe to repeat.
            timeout: for all tries together.
            attempt_timeout: for one try; default: all that is left.
            prefer: a rank an executor, lowest first; default: all alike.
            first: who comes before all others, if it is connected and responsive.

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
        for peer in self._rank(application, prefer, first):
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
        self,
        application: ApplicationRef,
        prefer: Callable[[Peer], int] | None,
        first: ExecutorId | None,
    ) -> Iterator[Peer]:
        """The executors as they are to be asked; most are never looked at."""
        peers = self._peers.list_peers(application.id)
        wanted = self._peers.find(ExecutorRef(application, first)) if first else None
        if wanted is not None and wanted.is_responsive:
            yield wanted
        else:
            wanted = None
        start = next(self._turns) % max(1, len(peers))
        others = (
            peer
            for peer in chain(islice(peers, start, None), islice(peers, start))
            if peer is not wanted
        )
        silent: list[Peer] = []
        while compared := list(islice(others, COMPARED_AT_ONCE)):
            silent += [peer for peer in compared if not peer.is_responsive]
            yield from _sorted([p for p in compared if p.is_responsive], prefer)
        yield from _sorted(silent, prefer)


def _sorted(
    peers: Sequence[Peer], prefer: Callable[[Peer], int] | None
) -> Sequence[Peer]:
    return sorted(
        peers, key=lambda peer: (prefer(peer) if prefer else 0, peer.in_flight)
    )
