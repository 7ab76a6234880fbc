"""Clients that do what no library does."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from relay.clock import SystemClock
from tests.hub.conftest import PATIENCE, UPGRADE

ECHO = b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"


def upgrade_request(path: str = "/websocket/orders/key") -> bytes:
    """An upgrade request as executors send it."""
    lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in UPGRADE.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@dataclass(frozen=True)
class RawClient:
    """A TCP connection of which every byte is the test's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read_head(self) -> bytes:
        """The head of an HTTP response."""
        async with SystemClock().timeout(PATIENCE):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def read_all(self) -> bytes:
        """Everything until the server ends the connection, however it does."""
        try:
            async with SystemClock().timeout(PATIENCE):
                return await self.reader.read()
        except ConnectionResetError:
            return b""

    def end(self) -> None:
        """Say that nothing more is sent."""
        self.writer.write_eof()

    def reset(self) -> None:
        """Drop the connection so that the server meets an error."""
        drop_hard(self.writer.get_extra_info("socket"))
        self.writer.transport.abort()


def drop_hard(connection: socket.socket) -> None:
    """Have the system send a reset instead of an end when it is closed."""
    linger = struct.pack("ii", 1, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@asynccontextmanager
async def raw_client(port: int) -> AsyncIterator[RawClient]:
    """A connection to the server, closed with the block."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()
