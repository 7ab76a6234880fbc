"""
A TCP proxy between executors and Relay that does to a link what networks do to it.

Each direction of each link has a mode, which may change at any moment; what applies to
the links that are open and to those to come is set together or apart::

    proxy.degrade(up=Drop(), down=Drop())       a partition that TCP does not notice
    proxy.degrade(up=Trickle())                 1 byte a second towards Relay
    proxy.degrade(down=Drop(), to_open=False)   only for those who dial from now on
    proxy.half_open(gone=End.EXECUTOR)          that host has lost power
    proxy.reset()                               a mass cut
    proxy.heal()

No byte is ever taken out of a stream: TCP would send it again, and so what is dropped
arrives when the link is whole again, the end of a connection included.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TypeAlias, assert_never

from relay.clock import SystemClock
from relay.tasks import TaskSet

CLOCK = SystemClock()
CHUNK_BYTES = 65_536
CHUNKS_ON_THE_WAY = 64


@dataclass(frozen=True, slots=True)
class Pass:
    """Bytes go on as they come."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Packets are lost for as long as this lasts."""


@dataclass(frozen=True, slots=True)
class Trickle:
    """So few bytes a second go on that a frame takes minutes."""

    bytes_per_second: int = 1


@dataclass(frozen=True, slots=True)
class Delay:
    """Everything arrives, `span` after it was sent."""

    span: timedelta


Mode: TypeAlias = Pass | Drop | Trickle | Delay


class End(Enum):
    """Who is at one end of a link."""

    EXECUTOR = "executor"
    RELAY = "relay"


class _Finish(Enum):
    """How a direction ended: in an orderly way, or not."""

    END = "end"
    RESET = "reset"


_Parcel: TypeAlias = tuple[float, bytes | _Finish]
"""What was sent, and when by the monotonic clock."""


class Proxy:
    """Forwards to one port of this machine; use `open_proxy`."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._links: set[_Link] = set()
        self._new_up: Mode = Pass()
        self._new_down: Mode = Pass()
        self._server: asyncio.Server | None = None
        self._tasks = TaskSet("proxy")
        self.accepted = 0
        """How many have dialled so far."""

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.reset()
        await self._tasks.close()

    def degrade(
        self,
        *,
        up: Mode | None = None,
        down: Mode | None = None,
        to_open: bool = True,
        to_new: bool = True,
    ) -> None:
        """
        Change the modes of links.

        Args:
            up: of the direction from executors to Relay; `None` leaves it as it is.
            down: of the direction from Relay to executors.
            to_open: for the links of this moment.
            to_new: for those that are dialled from now on.
        """
        if to_new:
            self._new_up = up or self._new_up
            self._new_down = down or self._new_down
        if to_open:
            for link in self._links:
                link.degrade(up=up, down=down)

    def heal(self) -> None:
        """Everything passes, also what was held up."""
        self.degrade(up=Pass(), down=Pass())

    def reset(self) -> None:
        """Reset both ends of all links of this moment; new ones are not affected."""
        for link in self._links:
            link.reset()

    def half_open(self, *, gone: End) -> None:
        """
        Take one end of each link of this moment away; the other one hears nothing.

        Its socket stays open, and what it sends is answered by nobody, until `heal`.
        """
        for link in self._links:
            link.half_open(gone=gone)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.accepted += 1
        link = _Link(reader, writer, up=self._new_up, down=self._new_down)
        self._links.add(link)
        self._tasks.spawn(self._serve(link), name="link")

    async def _serve(self, link: "_Link") -> None:
        try:
            await link.run(self._target_port)
        finally:
            link.reset()
            self._links.discard(link)


class _Link:
    """One connection of an executor, and ours to Relay for it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        up: Mode,
        down: Mode,
    ) -> None:
        self._reader = reader
        self._ends = {End.EXECUTOR: writer}
        self._gone: set[End] = set()
        self._up = _Lane(up)
        self._down = _Lane(down)

    async def run(self, target_port: int) -> None:
        """Carry bytes until both directions have ended."""
        async with TaskSet("link") as tasks:
            executor = self._ends[End.EXECUTOR]
            tasks.spawn(self._up.take(self._reader, executor), name="take up")
            # The first packet of a dial is lost like any other.
            await self._up.opened()
            await self._down.opened()
            if self._up.is_over:
                return
            try:
                answers, relay = await asyncio.open_connection("127.0.0.1", target_port)
            except OSError:
                return
            self._ends[End.RELAY] = relay
            if End.RELAY in self._gone:
                _reset(relay)
            tasks.spawn(self._down.take(answers, relay), name="take down")
            giving = tasks.spawn(self._up.give(relay), name="give up")
            await self._down.give(executor)
            await giving

    def degrade(self, *, up: Mode | None, down: Mode | None) -> None:
        if up is not None:
            self._up.switch(up)
        if down is not None:
            self._down.switch(down)

    def reset(self) -> None:
        for end in End:
            self._take_away(end)

    def half_open(self, *, gone: End) -> None:
        self.degrade(up=Drop(), down=Drop())
        self._take_away(gone)

    def _take_away(self, end: End) -> None:
        # Noted, because the connection to Relay may be about to be made.
        self._gone.add(end)
        if end in self._ends:
            _reset(self._ends[end])


class _Lane:
    """One direction of a link."""

    def __init__(self, mode: Mode) -> None:
        self.is_over = False
        self._mode = mode
        self._switched = asyncio.Event()
        self._sent: asyncio.Queue[_Parcel] = asyncio.Queue(CHUNKS_ON_THE_WAY)

    def switch(self, mode: Mode) -> None:
        self._mode = mode
        self._switched.set()
        self._switched = asyncio.Event()

    async def opened(self) -> None:
        """Wait until this is not a `Drop`."""
        while isinstance(self._mode, Drop):
            await self._switched.wait()

    async def take(
        self, source: asyncio.StreamReader, end: asyncio.StreamWriter
    ) -> None:
        """Note what comes from `source` until it ends, or we reset that end."""
        finish = _Finish.END
        try:
            while data := await source.read(CHUNK_BYTES):
                await self._sent.put((CLOCK.monotonic(), data))
        except OSError:
            finish = _Finish.RESET
        if end.transport.is_closing():
            finish = _Finish.RESET
        self.is_over = True
        await self._sent.put((CLOCK.monotonic(), finish))

    async def give(self, sink: asyncio.StreamWriter) -> None:
        """Hand on what was noted as the mode allows, the end included."""
        try:
            while True:
                sent_at, parcel = await self._sent.get()
                if isinstance(parcel, _Finish):
                    await self._passage(sent_at, 1)
                    if parcel is _Finish.RESET:
                        _reset(sink)
                    else:
                        sink.write_eof()
                    return
                while parcel:
                    size = await self._passage(sent_at, len(parcel))
                    sink.write(parcel[:size])
                    await sink.drain()
                    parcel = parcel[size:]
        except OSError:
            # The other direction reads of it, and tells the other end in its turn.
            return

    async def _passage(self, sent_at: float, size_bytes: int) -> int:
        """Wait until bytes that were sent at that moment may go on, and how many."""
        while True:
            switched, mode = self._switched, self._mode
            match mode:
                case Pass():
                    return size_bytes
                case Drop():
                    await switched.wait()
                case Trickle(bytes_per_second):
                    pause = timedelta(seconds=1) / bytes_per_second
                    if not await CLOCK.wait(switched, pause):
                        return 1
                case Delay(span):
                    rest = sent_at - CLOCK.monotonic() + span.total_seconds()
                    if rest <= 0:
                        return size_bytes
                    await CLOCK.wait(switched, timedelta(seconds=rest))
                case _:
                    assert_never(mode)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset, whatever is still to be sent."""
    if not writer.transport.is_closing():
        linger_no_time = struct.pack("ii", 1, 0)
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_no_time)
    writer.transport.abort()


@asynccontextmanager
async def open_proxy(target_port: int) -> AsyncIterator[Proxy]:
    """A proxy to `target_port` that ends with the block."""
    proxy = Proxy(target_port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
