"""
Floor of everything on sockets: the sans-I/O layer on a bare protocol, and no more.

With a second argument it asks: that many questions are out on each socket all the time,
the next one is sent when a reply comes, and the number of replies in each second goes
to standard output.
"""

import asyncio
import logging
import sys
from datetime import timedelta
from typing import Final, cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from bench.floors.listening import announce, raise_descriptor_limit
from relay.clock import SystemClock

QUESTION: Final = (
    b'{"type":"exist_pending_workflows","request_id":"00000000-0000-4000-8000-'
    b'000000000000","executor_id":"e1","application_version":"v1"}'
)
_SILENCE: Final = logging.Logger(  # noqa: LOG001 - unattached on purpose
    "bench.floor", logging.CRITICAL + 1
)


class Tally:
    """How many replies have come."""

    def __init__(self) -> None:
        self.replies = 0


class RawSocket(asyncio.Protocol):
    """One upgraded socket, which answers pings because the layer below does."""

    __slots__ = ("_asked", "_tally", "_transport", "_wire")

    _transport: asyncio.Transport

    def __init__(self, tally: Tally, asked: int) -> None:
        self._wire = ServerProtocol(logger=_SILENCE)
        self._tally = tally
        self._asked = asked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._wire.receive_data(data)
        for event in self._wire.events_received():
            if isinstance(event, Request):
                self._wire.send_response(self._wire.accept(event))
                for _ in range(self._asked):
                    self._wire.send_text(QUESTION)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._tally.replies += 1
                self._wire.send_text(QUESTION)
        for out in self._wire.data_to_send():
            if out:
                self._transport.write(out)
            else:
                self._transport.close()


async def _serve() -> None:
    clock = SystemClock()
    tally = Tally()
    asked = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = await asyncio.get_running_loop().create_server(
        lambda: RawSocket(tally, asked), "127.0.0.1", int(sys.argv[1]), backlog=4096
    )
    announce(server.sockets[0])
    while True:
        before = tally.replies
        await clock.sleep(timedelta(seconds=1))
        if asked:
            print(tally.replies - before, flush=True)  # noqa: T201 - read by the parent


if __name__ == "__main__":
    raise_descriptor_limit()
    try:
        import uvloop

        uvloop.run(_serve())
    except ImportError:
        asyncio.run(_serve())
