"""Floor of the sockets: a `websockets` server that does nothing but ping."""

import asyncio
import logging
import sys

from websockets.asyncio.server import ServerConnection, serve

from bench.floors.listening import announce, raise_descriptor_limit


async def _hold(connection: ServerConnection) -> None:
    async for _ in connection:
        pass


async def _serve() -> None:
    async with serve(
        _hold,
        "127.0.0.1",
        int(sys.argv[1]),
        ping_interval=20,
        ping_timeout=25,
        compression=None,
        backlog=4096,
        reuse_port=False,
    ) as server:
        announce(next(iter(server.sockets)))
        await server.serve_forever()


if __name__ == "__main__":
    raise_descriptor_limit()
    # It would print a traceback for each socket that the fleet drops.
    logging.disable()
    asyncio.run(_serve())
