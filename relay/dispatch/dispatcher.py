"""Ask any executor of an application, the likeliest to answer first."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from enum import Enum
from itertools import chain, count, islice
from typing import Final, TypeAlias, TypeVar, assert_never

from relay.clock import Clock
from relay.dispatch.peers import Peer, Peers
from relay.errors import (
    ConnectionLostError,
    ExecutorBusyError,
    NoExecutorError,
    RelayError,
    ReplyTimeoutError,
    UnknownMessageError,
)
from relay.ids import ApplicationRef, ExecutorId, ExecutorRef
from relay.protocol.envelope import Request

ReplyT = TypeVar("ReplyT")
Failure: TypeAlias = ConnectionLostError | ExecutorBusyError | ReplyTimeoutError
"""Why one executor gave no answer; another one may."""

COMPARED_AT_ONCE: Final = 64
"""Executors among whom the likeliest is found; of more, a part after the other."""

ARRIVAL_PATIENCE: Final = timedelta(seconds=2)
"""For an executor that is just arriving, when nobody else is there."""

_LOOK_INTERVAL: Final = timedelta(milliseconds=50)


class Repeat(Enum):
    """When a request may be put to a second executor."""

    ALWAYS = "always"
    """To do it twice is to do it once."""

    UNDELIVERED = "undelivered"
    """Only when the first one has certainly not got it."""

    NEVER = "never"
    """One executor is asked, whatever becomes of it."""


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
        is_last_patient: bool = False,
        prefer: Callable[[Peer], int] | None = None,
        first: ExecutorId | None = None,
        repeat: Repeat = Repeat.ALWAYS,
        suits: Callable[[Peer], RelayError | None] | None = None,
    ) -> tuple[Peer, ReplyT]:
        """
        The first usable answer, and who gave it.

        Responsive executors come first, then the preferred ones, then those with the
        fewest requests in flight; equal ones take turns. Where there are hundreds, only
        so many of them are compared for that, each time others. Only the executors
        connected at the call are tried, each once; when there is none and one is just
        arriving, it is waited for, for `ARRIVAL_PATIENCE` at most.

        Args:
            timeout: for all tries together, the wait for an arrival included.
            attempt_timeout: for one try; default: all that is left.
            is_last_patient: whether the last one to try has all that is left.
            prefer: a rank an executor, lowest first; default: all alike.
            first: who comes before all others, if it is connected and responsive.
            repeat: whether the request may reach a second executor after it was lost
                on the way to the first. One that does not know the message has done
                nothing, and never keeps another from being asked.
            suits: why an executor must not be asked; `None` for one that may be. Who
                does not suit is passed over.

        Raises:
            NoExecutorError: none is connected.
            UnknownMessageError: every one of them answered, and none knows the request.
            ConnectionLostError, ExecutorBusyError, ReplyTimeoutError: what befell the
                last of those that did not answer; another one may know the request.
                Also when the time is spent before one of them could be asked. If the
                last one was late, it says how many did not answer in which time.
            DispatchError: an executor answered, unusably; it is not asked of another,
                which would most likely say the same.
            RelayError: nobody suits; why the first one does not.
        """
        begun_at = self._clock.monotonic()
        deadline = begun_at + timeout.total_seconds()
        await self._await_arrival(application, min(timeout, ARRIVAL_PATIENCE))
        failures: list[Failure] = []
        unknown: UnknownMessageError | None = None
        refusals: list[RelayError] = []
        candidates = _filter(self._rank(application, prefer, first), suits, refusals)
        following = next(candidates, None)
        while (peer := following) is not None:
            following = next(candidates, None)
            left = timedelta(seconds=deadline - self._clock.monotonic())
            if left <= timedelta(0):
                if not failures:
                    # Nobody has said that it cannot; there was no time to ask.
                    spent = max(timeout, timedelta(0))
                    failures.append(
                        ReplyTimeoutError(peer.ref.executor_id, spent, delivered=False)
                    )
                break
            span = left
            if attempt_timeout is not None and not (is_last_patient and not following):
                span = min(left, attempt_timeout)
            try:
                return peer, await peer.ask(request, span)
            except UnknownMessageError as error:
                unknown = error
            except (ConnectionLostError, ExecutorBusyError, ReplyTimeoutError) as error:
                failures.append(error)
                if not _may_repeat(error, repeat):
                    break
        if failures:
            elapsed = timedelta(seconds=self._clock.monotonic() - begun_at)
            raise _sum_up(failures, elapsed)
        raise unknown or (
            refusals[0] if refusals else NoExecutorError(application.name)
        )

    async def _await_arrival(
        self, application: ApplicationRef, patience: timedelta
    ) -> None:
        """Wait as long as nobody is there and somebody is on the way in."""
        until = self._clock.monotonic() + patience.total_seconds()
        while (
            not self._peers.list_peers(application.id)
            and self._peers.is_anybody_arriving(application)
            and self._clock.monotonic() < until
        ):
            await self._clock.sleep(_LOOK_INTERVAL)

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


def _filter(
    peers: Iterator[Peer],
    suits: Callable[[Peer], RelayError | None] | None,
    refusals: list[RelayError],
) -> Iterator[Peer]:
    """Those that suit; why the others do not is added to `refusals`."""
    for peer in peers:
        reason = suits(peer) if suits is not None else None
        if reason is None:
            yield peer
        else:
            refusals.append(reason)


def _sum_up(failures: Sequence[Failure], elapsed: timedelta) -> Failure:
    """The last failure; if that is a time-out, one that is about all of them."""
    last = failures[-1]
    if len(failures) == 1 or not isinstance(last, ReplyTimeoutError):
        return last
    return ReplyTimeoutError(
        last.executor,
        elapsed,
        delivered=any(
            not isinstance(failure, ExecutorBusyError) and failure.delivered
            for failure in failures
        ),
        asked=len(failures),
    )


def _may_repeat(error: Failure, repeat: Repeat) -> bool:
    match repeat:
        case Repeat.ALWAYS:
            return True
        case Repeat.UNDELIVERED:
            # A busy one has not queued it.
            return isinstance(error, ExecutorBusyError) or not error.delivered
        case Repeat.NEVER:
            return False
        case _:
            assert_never(repeat)
