"""
Bytes to frames: the WebSocket side of one TCP connection that uvicorn hands over.

The class is given to uvicorn as `Config(ws=RelayWebSocketProtocol)` and stands in the
place of uvicorn's own. ASGI has no ping event and one task a socket; this sees every
frame and needs no task while idle. WebSocket itself is websockets' documented sans-I/O
layer.

**What this relies on in uvicorn** (a contract test on real sockets proves each point;
`relay.hub.web` and `relay.launch.web` say what they rely on):

1. `Config(ws=...)` takes a class.
2. It is constructed with the keywords `config`, `server_state` and `app_state`;
   `app_state` is the state of the ASGI lifespan, and holds the hub under `"hub"`.
3. The hand-over: `connection_made(transport)`, then `data_received` with the upgrade
   request serialised anew, then `transport.set_protocol(protocol)`.
4. `server_state.connections` is a set; at its shutdown the server calls `shutdown()`
   on each member and waits until the set is empty.

Of websockets it uses, beyond the documented interface, `ServerProtocol.parser`: closing
that generator breaks the one reference cycle of a connection.

Inside the hand-over the transport must not be closed: uvicorn would set a protocol on
a closed transport and wait for it at shutdown. So closing is left to the next turn.
"""

import asyncio
import logging
from collections.abc import Mapping
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from websockets.exceptions import PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from relay.hub.connection import Connection
from relay.hub.events import Loss
from relay.hub.framing import write_long_text
from relay.hub.handshake import Admission, Knock, Refusal, parse_upgrade_path
from relay.hub.hangups import has_hung_up
from relay.hub.hub import SERVICE_RESTART, Hub
from relay.hub.reasons import fit_reason, show_reason
from relay.hub.refusals import (
    DEFECT,
    NO_DESCRIPTORS,
    NO_UPGRADE,
    STOPPING,
    UNKNOWN_PATH,
    refuse_like,
    render,
)

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

WRITE_HIGH_WATER_BYTES = 1024 * 1024
"""Beyond this the peer counts as not reading."""

PONG_LIMIT_BYTES = 1024 * 1024
"""Of pongs to a peer that does not read; beyond this it is cut at once."""

_INVALID_DATA: Final = 1007
_INTERNAL_ERROR: Final = 1011
_TRY_AGAIN_LATER: Final = 1013

# Unattached and silent: at debug, websockets' logger prints the request line, in which
# the key stands.
_SILENCE: Final = logging.Logger(  # noqa: LOG001 - unattached on purpose
    "relay.hub.frames", logging.CRITICAL + 1
)

logger = structlog.get_logger(__name__)


class _Stage(Enum):
    """How far a socket has come."""

    FRESH = auto()
    ADMITTING = auto()
    UPGRADED = auto()
    ENDED = auto()


class RelayWebSocketProtocol(asyncio.Protocol):
    """One executor's socket, from the upgrade request to its end."""

    __slots__ = (
        "_connection",
        "_hub",
        "_is_paused",
        "_is_text",
        "_message",
        "_peer_address",
        "_pong_bytes",
        "_siblings",
        "_stage",
        "_transport",
        "_unfinished_bytes",
        "_wire",
    )

    _transport: asyncio.Transport

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: Mapping[str, Any],
    ) -> None:
        hub: Hub = app_state["hub"]
        self._hub = hub.switchboard
        self._siblings: set[Any] = server_state.connections
        self._wire = ServerProtocol(
            max_size=self._hub.settings.max_message_bytes, logger=_SILENCE
        )
        self._connection: Connection | None = None
        self._stage = _Stage.FRESH
        self._peer_address = ""
        self._message = bytearray()
        self._is_text = False
        self._is_paused = False
        self._pong_bytes = 0
        self._unfinished_bytes = 0

    # What asyncio and uvicorn call.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket over."""
        # uvloop's transports are no instances of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        # A name of a Unix socket is no address.
        self._peer_address = peer[0] if isinstance(peer, tuple) else ""
        self._siblings.add(self)
        self._hub.opened(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the peer: first the upgrade request, then frames."""
        if self._stage is _Stage.ENDED:
            return
        if self._connection is not None:
            # Any byte is life: a large reply is one frame of many seconds.
            self._hub.saw(self._connection)
        self._wire.receive_data(data)
        events = self._wire.events_received()
        for event in events:
            try:
                if isinstance(event, Request):
                    self._receive_request(event)
                elif isinstance(event, Frame):
                    self._receive_frame(event)
            except Exception:
                logger.exception("frame_failed", stage=self._stage.name)
                self.fail()
        if self._wire.handshake_exc is not None and self._stage is _Stage.FRESH:
            # websockets could not read the request, and would end without a word.
            self._refuse(NO_UPGRADE)
            return
        self._flush()
        if (failure := self._wire.parser_exc) is not None:
            too_large = isinstance(failure, PayloadTooBig)
            self._note_loss(Loss.TOO_LARGE if too_large else Loss.PROTOCOL)
        self._count_unfinished(len(data), has_events=bool(events))

    def eof_received(self) -> bool:
        """Have the transport closed, but not at once: the peer has ended."""
        self._hub.partings.add(self._transport.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything soon; nothing is called after this."""
        self._stage = _Stage.ENDED
        self._hub.partings.add(self._let_go)

    def _let_go(self) -> None:
        self._note_loss(Loss.RESET)
        self._siblings.discard(self)
        self._hub.gone(self)
        self._wire.parser.close()
        self._connection = None

    def pause_writing(self) -> None:
        """Note that what is written piles up."""
        self._is_paused = True
        if self._connection is not None:
            self._hub.stuck(self._connection)

    def resume_writing(self) -> None:
        """Go on writing."""
        self._is_paused = False
        self._pong_bytes = 0
        if self._connection is not None:
            self._hub.unstuck(self._connection)

    def shutdown(self) -> None:
        """End this socket because the server stops."""
        self._hub.refuse_upgrades()
        if self._stage is _Stage.ADMITTING:
            self._refuse(STOPPING)
        elif self._stage is _Stage.UPGRADED:
            self._hang_up(Loss.DRAINED, SERVICE_RESTART, "Relay is stopping")

    # What the connection and the hub call: a `relay.hub.connection.Link`.

    @property
    def is_writable(self) -> bool:
        """Whether the peer keeps up with what is written to it."""
        is_open = self._stage is _Stage.UPGRADED and self._wire.state is OPEN
        return is_open and not self._is_paused

    @property
    def unread_bytes(self) -> int:
        """What was sent and has not left this process, in bytes."""
        return self._transport.get_write_buffer_size()

    def send(self, *pieces: bytes) -> None:
        """Hand one text frame to the transport, in this turn of the loop."""
        if len(pieces) == 1:
            self._wire.send_text(pieces[0])
            self._flush()
        elif not self._transport.is_closing():
            write_long_text(self._transport, pieces)
            if self._is_paused and self._connection is not None:
                # Most of it was written after the transport had told of the first.
                self._hub.stuck(self._connection)

    def ping(self) -> None:
        """Send a ping; any answer is life, so its payload says nothing."""
        if self._wire.state is OPEN:
            self._wire.send_ping(b"")
            self._flush()

    def close(self, code: int, reason: str) -> None:
        """Begin the closing handshake; the socket is gone within seconds."""
        if self._wire.state is OPEN:
            self._wire.send_close(code, fit_reason(reason))
            self._flush()
            self._hub.closing(self)

    def abort(self) -> None:
        """Drop the socket in this turn; what is not sent yet is lost."""
        self._stage = _Stage.ENDED
        self._transport.abort()

    def pause_reading(self) -> None:
        """Leave what the peer sends with the system."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take what the peer sends again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def refuse_text(self) -> None:
        """End the connection: the peer sent a text that is none."""
        self._wire.fail(_INVALID_DATA, "text must be UTF-8")
        self._note_loss(Loss.PROTOCOL)
        self._flush()

    def fail(self) -> None:
        """End the connection: taking a message of the peer met a defect."""
        self._hang_up(Loss.FAILED, _INTERNAL_ERROR, "Relay met a defect")

    def give_message_up(self) -> None:
        """Close the socket: there is no room for the message that arrives on it."""
        reason = "too much of too many messages at once; try again later"
        self._hang_up(Loss.OVERFLOW, _TRY_AGAIN_LATER, reason)
        # The rest of it must not be waited for.
        self._close_soon()

    # The upgrade.

    def _receive_request(self, request: Request) -> None:
        path = parse_upgrade_path(request.path, self._hub.settings.root_path)
        if path is None:
            self._refuse(UNKNOWN_PATH)
            return
        if self._hub.is_draining:
            self._refuse(STOPPING)
            return
        descriptor = self._transport.get_extra_info("socket").fileno()
        if descriptor >= self._hub.descriptors.ceilings.upgrade:
            self._hub.descriptors.note_refusal()
            self._refuse(NO_DESCRIPTORS)
            return
        response = self._wire.accept(request)
        hosts = request.headers.get_all("Host")
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS or len(hosts) > 1:
            self._refuse(*refuse_like(response))
            return
        app_name, key = path
        self._peer_address = self._hub.proxies.find_client(
            self._peer_address, request.headers.get_all("X-Forwarded-For")
        )
        knock = Knock(
            app_name=app_name,
            key=key,
            peer_address=self._peer_address,
            origin=request.headers.get("Origin"),
            host=hosts[0] if hosts else None,
        )
        self._stage = _Stage.ADMITTING
        # Whatever the peer sends before it knows whether it may stays in the kernel.
        self._transport.pause_reading()
        self._hub.knocked(self, knock)
        self._hub.tasks.spawn(self._enter(knock, response), name="upgrade")

    async def _enter(self, knock: Knock, response: Response) -> None:
        verdict = await self._hub.admit(self, knock)
        # No await from here to `greet`: the connection is in the hub's index before
        # anybody can revoke what it was admitted on.
        if self._stage is not _Stage.ADMITTING:
            return
        if has_hung_up(self._transport.get_extra_info("socket")):
            # Nothing was read meanwhile, so that nobody has noticed.
            self._hub.metrics.upgrades.labels("gone").inc()
            self.abort()
            return
        if not isinstance(verdict, Admission):
            self._refuse(verdict)
            return
        self._stage = _Stage.UPGRADED
        self._hub.metrics.upgrades.labels("accepted").inc()
        self._wire.send_response(response)
        self._flush()
        connection = self._hub.accept(self, verdict, self._peer_address)
        self._connection = connection
        self._transport.resume_reading()
        await self._hub.greet(connection)

    def _refuse(
        self, refusal: Refusal, headers: Mapping[str, str] | None = None
    ) -> None:
        self._stage = _Stage.ENDED
        self._hub.metrics.upgrades.labels(str(refusal.status)).inc()
        self._transport.write(render(refusal, headers or {}))
        self._close_soon()

    # Frames.

    def _receive_frame(self, frame: Frame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY:
                self._is_text = frame.opcode is Opcode.TEXT
                if frame.fin:
                    self._receive_message(bytes(frame.data))
                else:
                    # One buffer: a peer that sends a million empty fragments must not
                    # make us keep a million of anything.
                    self._message = bytearray(frame.data)
            case Opcode.CONT:
                self._message += frame.data
                if frame.fin:
                    message, self._message = bytes(self._message), bytearray()
                    self._receive_message(message)
            case Opcode.CLOSE:
                self._note_loss(Loss.CLOSED)
            case Opcode.PING | Opcode.PONG:
                # websockets has put the pong into what is to be flushed.
                pass

    def _count_unfinished(self, received_bytes: int, *, has_events: bool) -> None:
        """
        Tell what is held here of a message that is not complete.

        The beginning of a frame behind a complete one is not counted until more of it
        comes; that is one read from the socket at most.
        """
        before = self._unfinished_bytes
        held = len(self._message) if has_events else before + received_bytes
        if held != before:
            self._unfinished_bytes = held
            self._hub.unfinished.note(self, held)

    def _receive_message(self, message: bytes) -> None:
        if self._connection is None or self._connection.link is None:
            return
        if not self._is_text:
            # Executors send none; their replies are text.
            self._hub.metrics.replies_dropped.inc()
            return
        self._connection.receive(message)

    # Endings.

    def _note_loss(self, loss: Loss) -> None:
        """Tell the hub that the peer or the wire ended the connection."""
        if self._connection is None:
            return
        close = self._wire.close_rcvd or self._wire.close_sent
        self._hub.lost(
            self._connection,
            loss,
            close.code if close else None,
            show_reason(close.reason) if close else "",
        )

    def _hang_up(self, loss: Loss, code: int, reason: str) -> None:
        if self._connection is not None:
            self._hub.hang_up(self._connection, loss, code, reason)
        elif self._stage is not _Stage.ENDED:
            self._refuse(DEFECT)

    def _flush(self) -> None:
        """Give what websockets wants sent to the transport."""
        was_paused = self._is_paused
        for data in self._wire.data_to_send():
            if self._transport.is_closing():
                return
            if not data:
                self._end_stream()
                return
            self._transport.write(data)
            if was_paused:
                # Nothing but pings and pongs is written while the peer does not read.
                self._pong_bytes += len(data)
        if self._pong_bytes > PONG_LIMIT_BYTES and self._connection is not None:
            self._hub.cut(self._connection, Loss.SLOW_READER, is_fault=True)

    def _end_stream(self) -> None:
        """Close for writing, and soon altogether: websockets has no more to say."""
        has_ended = self._wire.close_rcvd is not None
        if has_ended or not self._transport.can_write_eof():
            self._close_soon()
            return
        # The peer is in the middle of something. Closing now would reset the
        # connection under it before it has read why; what it still sends is discarded
        # until it ends, or the limit of closing comes.
        self._stage = _Stage.ENDED
        self._transport.write_eof()
        self._hub.closing(self)

    def _close_soon(self) -> None:
        self._stage = _Stage.ENDED
        self._hub.closing(self)
        asyncio.get_running_loop().call_soon(self._transport.close)
