"""
Floor of questions: a `websockets` server that asks whoever connects, and no more.

So many questions are out on each socket all the time. Each line of output is about the
last second: the median of the spans from question to answer, in milliseconds, and the
answers in it.
"""

import json
import logging
import statistics
import sys
from datetime import timedelta
from itertools import count

from websockets.asyncio.server import ServerConnection, serve

from bench.floors.listening import announce
from relay.clock import SystemClock

CLOCK = SystemClock()


class Asker:
    """Keeps questions out, and notes how long each took."""

    def __init__(self, at_once: int, message: dict[str, object]) -> None:
        self._at_once = at_once
        self._message = message
        self._asked: dict[str, float] = {}
        self._numbers = count()
        self.spans_ms: list[float] = []

    async def ask(self, connection: ServerConnection) -> None:
        for _ in range(self._at_once):
            await self._send(connection)
        async for reply in connection:
            asked_at = self._asked.pop(json.loads(reply)["request_id"])
            self.spans_ms.append((CLOCK.monotonic() - asked_at) * 1000)
            await self._send(connection)

    async def _send(self, connection: ServerConnection) -> None:
        request_id = f"{next(self._numbers)}"
        self._asked[request_id] = CLOCK.monotonic()
        await connection.send(json.dumps({**self._message, "request_id": request_id}))


async def _serve(port: int, at_once: int, message: dict[str, object]) -> None:
    asker = Asker(at_once, message)
    async with serve(asker.ask, "127.0.0.1", port, compression=None) as server:
        announce(next(iter(server.sockets)))
        while True:
            await CLOCK.sleep(timedelta(seconds=1))
            spans, asker.spans_ms = asker.spans_ms, []
            middle = statistics.median(spans) if spans else 0.0
            print(middle, len(spans), flush=True)  # noqa: T201 - read by the parent


if __name__ == "__main__":
    logging.disable()
    import uvloop

    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
