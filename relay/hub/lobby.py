"""
From the listening sockets to uvicorn: who comes in, how many at a time, who waits.

When a server comes back, its executors dial within the same second, all of them. The
loops of asyncio and uvloop accept them in one go, and then everybody's request lies
there to be handled in one turn: seconds in which nothing else happens. So this room
accepts itself. A socket costs little until it is looked after by a protocol, and that
is what waits its turn here::

    accept ──▶ silent ──▶ first bytes ──┬─ an upgrade ──▶ waiting ──▶ let in
               10 s: closed             │                 4 s: 503
                                        └─ plain HTTP ──────────────▶ let in at once

What the first bytes say is only looked at, not taken out of the socket. They decide who
waits and nothing else: a request that looks like an upgrade and is none is answered
like any other, and the other way round.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from relay.clock import Clock
from relay.hub.deadlines import Deadlines
from relay.hub.descriptors import Descriptors
from relay.hub.handshake import Refusal
from relay.hub.hangups import has_hung_up
from relay.hub.refusals import CROWDED, NO_DESCRIPTORS, STOPPING, render_plain
from relay.hub.turnstile import Turnstile
from relay.tasks import TaskSet
from relay.telemetry import Metrics

BACKLOG = 4096
"""Sockets that the system may hold for us; it takes `somaxconn` if that is less."""

SILENCE_LIMIT = timedelta(seconds=10)
"""For the first byte of a socket."""

WAITING_LIMIT = timedelta(seconds=4)
"""For an upgrade to be let in: its client gives up after 5 s, and learns nothing."""

ACCEPTED_PER_TURN = 500
"""Each costs some 10 µs. What is left with the system gets old unseen."""

LET_IN_PER_TURN = 16
"""Each costs half a millisecond until it is on line."""

_ACCEPT_PAUSE = timedelta(seconds=1)
_PEEKED_BYTES = 512
_DISCARDED_BYTES = 64 * 1024
_UPGRADE_MARK: Final = b"/websocket/"
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

logger = structlog.get_logger(__name__)


class Lobby:
    """Accepts sockets and hands them to protocols, as fast as the server bears it."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        *,
        make_protocol: Callable[[], asyncio.Protocol],
        turnstile: Turnstile,
        descriptors: Descriptors,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """
        Listen to nothing yet.

        Args:
            listeners: bound sockets.
            make_protocol: called for each socket that is let in.
        """
        self._listeners = listeners
        self._make_protocol = make_protocol
        self._turnstile = turnstile
        self._descriptors = descriptors
        self._clock = clock
        self._metrics = metrics
        self._silent = Deadlines(SILENCE_LIMIT, clock, self._drop_silent)
        self._waiting = Deadlines(WAITING_LIMIT, clock, self._refuse_late)
        self._tasks = TaskSet("lobby")
        self._handing_over: set[asyncio.Task[None]] = set()
        self._is_filling = False

    @property
    def waiting_count(self) -> int:
        """Upgrades that wait to be let in."""
        return len(self._waiting)

    def open(self) -> None:
        """
        Listen from now on.

        Raises:
            OSError: somebody else listens there; nothing was begun.
        """
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(BACKLOG)
        self._turnstile.watch(self._fill_soon)
        self._tasks.spawn(self._silent.run(), name="silent")
        self._tasks.spawn(self._waiting.run(), name="waiting")
        for listener in self._listeners:
            self._resume(listener)

    async def close(self) -> None:
        """
        Listen no more, refuse who waits, and see those in who were being let in.

        The listening sockets are closed; nothing is accepted after the first line.
        """
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        while (waiting := self._waiting.take_oldest()) is not None:
            self._turn_away(waiting, STOPPING, "stopping")
        while (silent := self._silent.take_oldest()) is not None:
            loop.remove_reader(silent)
            silent.close()
        if self._handing_over:
            await asyncio.wait(self._handing_over)
        await self._tasks.close()

    # Accepting.

    def _resume(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                arrived, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            arrived.setblocking(False)
            if arrived.fileno() >= self._descriptors.ceilings.any_socket:
                self._descriptors.note_refusal()
                self._turn_away(arrived, NO_DESCRIPTORS, None)
            elif not self._sort(arrived):
                self._silent.touch(arrived)
                asyncio.get_running_loop().add_reader(arrived, self._greet, arrived)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Leave a listener alone for a moment: what it has cannot be taken."""
        if error.errno in _EXHAUSTED:
            self._descriptors.note_refusal()
        else:
            logger.warning("accept_failed", reason=error.strerror)
        asyncio.get_running_loop().remove_reader(listener)

        async def resume() -> None:
            await self._clock.sleep(_ACCEPT_PAUSE)
            if listener.fileno() >= 0:
                # Not closed meanwhile.
                self._resume(listener)

        self._tasks.spawn(resume(), name="resume")

    # Sorting.

    def _greet(self, arrived: socket.socket) -> None:
        """Take the first bytes of a socket that was silent."""
        asyncio.get_running_loop().remove_reader(arrived)
        self._silent.discard(arrived)
        if not self._sort(arrived):
            # Woken for nothing.
            self._silent.touch(arrived)
            asyncio.get_running_loop().add_reader(arrived, self._greet, arrived)

    def _sort(self, arrived: socket.socket) -> bool:
        """Send a socket where its first bytes say; whether there were any."""
        try:
            head = arrived.recv(_PEEKED_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            head = b""
        if not head:
            arrived.close()
        elif _UPGRADE_MARK in head.partition(b"\r\n")[0]:
            self._waiting.touch(arrived)
            self._fill_soon()
        else:
            self._let_in(arrived, self._make_protocol())
        return True

    def _drop_silent(self, arrived: socket.socket, is_late: bool) -> None:
        del is_late
        asyncio.get_running_loop().remove_reader(arrived)
        self._metrics.sockets_turned_away.labels("silent").inc()
        arrived.close()

    # Waiting, and coming in.

    def _fill_soon(self) -> None:
        if not self._is_filling and self._waiting:
            self._is_filling = True
            asyncio.get_running_loop().call_soon(self._fill)

    def _fill(self) -> None:
        self._is_filling = False
        room = min(self._turnstile.room, LET_IN_PER_TURN)
        while room > 0 and (arrived := self._waiting.take_oldest()) is not None:
            if has_hung_up(arrived):
                self._metrics.sockets_turned_away.labels("gone").inc()
                arrived.close()
                continue
            room -= 1
            protocol = self._make_protocol()
            self._turnstile.await_request(protocol)
            self._let_in(arrived, protocol)
        if self._turnstile.room > 0:
            self._fill_soon()

    def _let_in(self, arrived: socket.socket, protocol: asyncio.Protocol) -> None:
        handing_over = self._tasks.spawn(
            self._hand_over(arrived, protocol), name="hand over"
        )
        self._handing_over.add(handing_over)
        handing_over.add_done_callback(self._handing_over.discard)

    async def _hand_over(
        self, arrived: socket.socket, protocol: asyncio.Protocol
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, arrived
            )
        except OSError as error:
            # It has gone while it waited.
            logger.debug("socket_lost", reason=error.strerror)
            self._turnstile.leave(protocol)
            arrived.close()

    def _refuse_late(self, arrived: socket.socket, is_late: bool) -> None:
        del is_late
        self._turn_away(arrived, CROWDED, "crowded")

    def _turn_away(
        self, arrived: socket.socket, refusal: Refusal, reason: str | None
    ) -> None:
        if reason is not None:
            self._metrics.sockets_turned_away.labels(reason).inc()
        # It has not asked yet, or it has gone: then it is told before, or not at all.
        with suppress(OSError):
            # Closing over unread bytes would reset the connection under the answer.
            arrived.recv(_DISCARDED_BYTES)
        with suppress(OSError):
            arrived.send(render_plain(refusal))
        arrived.close()
