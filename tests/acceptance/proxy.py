"""A TCP proxy between executors and Relay, which can cut what passes through it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from relay.tasks import TaskSet

CHUNK_BYTES = 65_536


class Proxy:
    """Forwards to one port; `cut` resets every open connection, new ones pass."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._tasks = TaskSet("proxy")

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    def cut(self) -> None:
        """Reset all connections of this moment."""
        for writer in self._open:
            writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._tasks.close()

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            onward, backward = await asyncio.open_connection(
                "127.0.0.1", self._target_port
            )
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, backward}
        self._open |= pair
        self._tasks.spawn(self._pump(reader, backward, pair), name="up")
        self._tasks.spawn(self._pump(onward, writer, pair), name="down")

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pair: set[asyncio.StreamWriter],
    ) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            for end in pair:
                end.transport.abort()
            self._open -= pair


@asynccontextmanager
async def open_proxy(target_port: int) -> AsyncIterator[Proxy]:
    """A proxy to `target_port` that ends with the block."""
    proxy = Proxy(target_port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
