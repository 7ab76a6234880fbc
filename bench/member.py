"""One executor of the fleet: a socket, and the answers of a well-behaved SDK."""

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import WebSocketURI

if TYPE_CHECKING:
    from bench.fleet import Fleet

_SILENCE: Final = logging.Logger(  # noqa: LOG001 - unattached on purpose
    "bench.member", logging.CRITICAL + 1
)


class Member(asyncio.Protocol):
    """
    One socket of one executor.

    `last_sent` is when it last gave bytes to the system, in seconds since 1970.
    """

    __slots__ = ("_fleet", "_transport", "_wire", "is_silent", "last_sent", "number")

    _transport: asyncio.Transport

    def __init__(self, fleet: "Fleet", number: int, uri: WebSocketURI) -> None:
        self._fleet = fleet
        self._wire = ClientProtocol(uri, logger=_SILENCE)
        self.number = number
        self.is_silent = False
        self.last_sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no instances of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._fleet.opened(self)
        self._wire.send_request(self._wire.connect())
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._wire.receive_data(data)
        for event in self._wire.events_received():
            if isinstance(event, Response):
                if event.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                    self._fleet.upgraded(self)
                else:
                    self._fleet.refused(event.status_code)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._hear(json.loads(bytes(event.data)))
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire.parser.close()
        self._fleet.lost(self)

    def ping(self) -> None:
        """Ping, as SDKs do every 20 s."""
        if self._wire.state is OPEN and not self.is_silent:
            self._wire.send_ping(b"")
            self._flush()

    def fall_silent(self) -> None:
        """Stop reading and writing; the socket stays open."""
        self.is_silent = True
        self._transport.pause_reading()

    def reset(self) -> None:
        """Drop the socket without a word."""
        self._transport.abort()

    def _hear(self, request: Mapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        delay = self._fleet.workflows.draw_delay(request)
        if delay:
            loop.call_later(delay.total_seconds(), self._answer_late, request, asked_at)
        else:
            self._answer(request, asked_at)

    def _answer_late(self, request: Mapping[str, Any], asked_at: float) -> None:
        if self._wire.state is OPEN:
            self._answer(request, asked_at)
            self._flush()

    def _answer(self, request: Mapping[str, Any], asked_at: float) -> None:
        took = timedelta(seconds=asyncio.get_running_loop().time() - asked_at)
        reply = {
            "type": request["type"],
            "request_id": request["request_id"],
            **self._fleet.answer(self, request, took),
        }
        self._wire.send_text(json.dumps(reply).encode())

    def _flush(self) -> None:
        if self.is_silent:
            return
        for data in self._wire.data_to_send():
            if data:
                self._transport.write(data)
                self.last_sent = self._fleet.now()
            else:
                self._transport.close()
