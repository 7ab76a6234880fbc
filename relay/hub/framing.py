"""The frame of a long text, around pieces that are written one after the other."""

import asyncio
import struct
from collections.abc import Sequence
from typing import Final

_HEAD: Final = struct.Struct("!BBQ")
_WHOLE_TEXT: Final = 0x81
_LENGTH_IN_EIGHT_BYTES: Final = 127


def write_long_text(transport: asyncio.WriteTransport, pieces: Sequence[bytes]) -> None:
    """
    Write one whole text frame of a server, in this turn of the loop.

    websockets would put the pieces together and copy them once more.

    Args:
        pieces: 64 KiB at least together, for this length of the length.

    Source: RFC 6455 section 5.2.
    """
    size_bytes = sum(map(len, pieces))
    transport.write(_HEAD.pack(_WHOLE_TEXT, _LENGTH_IN_EIGHT_BYTES, size_bytes))
    for piece in pieces:
        transport.write(piece)
