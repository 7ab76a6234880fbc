"""WebSocket as far as the simulated executors need it, and not a bit further."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from websockets.frames import Opcode

_SHORT: Final = 126
_LONG: Final = 127
_NO_MASK: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame."""

    opcode: Opcode
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """The status that an upgrade request was answered with."""

    status: int


class End(Enum):
    """How a TCP connection ends, seen from the other side."""

    FIN = auto()
    RST = auto()


Item = bytes | Frame | Answer | End
"""What travels on a TCP connection, one after another."""


def upgrade_request(app_name: str) -> bytes:
    """What an executor sends first."""
    return (
        f"GET /websocket/{app_name}/no-key-is-needed HTTP/1.1\r\n"
        "Host: localhost:8090\r\n"
        "Upgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()


def pack(opcode: Opcode, payload: bytes = b"") -> bytes:
    """A frame of a client, under a mask that hides nothing."""
    head = bytes([0x80 | opcode])
    size = len(payload)
    if size < _SHORT:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | _SHORT]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | _LONG]) + size.to_bytes(8, "big")
    return head + _NO_MASK + payload


class ServerReader:
    """Reads what a server writes: the answer to the upgrade, then frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._is_upgraded = False

    def read(self, data: bytes) -> list[Answer | Frame]:
        """What is complete now."""
        self._bytes += data
        items: list[Answer | Frame] = []
        while (item := self._take()) is not None:
            items.append(item)
        return items

    def _take(self) -> Answer | Frame | None:
        if self._is_upgraded:
            return self._take_frame()
        end = self._bytes.find(b"\r\n\r\n")
        if end < 0:
            return None
        status = int(self._bytes.split(b" ", 2)[1])
        self._is_upgraded = True
        # The body of a refusal is for people.
        del self._bytes[: end + 4 if status == 101 else len(self._bytes)]
        return Answer(status)

    def _take_frame(self) -> Frame | None:
        if len(self._bytes) < 2:
            return None
        size, start = self._bytes[1], 2
        if size >= _SHORT:
            start = 4 if size == _SHORT else 10
            size = int.from_bytes(self._bytes[2:start], "big")
        if len(self._bytes) < start + size:
            return None
        frame = Frame(
            Opcode(self._bytes[0] & 0x0F), bytes(self._bytes[start : start + size])
        )
        del self._bytes[: start + size]
        return frame
