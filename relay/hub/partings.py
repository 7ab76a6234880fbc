"""Closing sockets whose peers have gone, a few in each turn of the loop."""

import asyncio
from collections import deque
from typing import Final, Protocol

CLOSED_PER_TURN: Final = 50
"""Each takes a twentieth of a millisecond, and a proxy that dies ends them all."""


class Closable(Protocol):
    """What asyncio's transports show of themselves."""

    def close(self) -> None:
        """Let it go once what is written has been sent; may be repeated."""
        ...


class Partings:
    """
    Transports that are to be closed, first come, first served.

    The loop would close ten thousand in one turn, and nothing else in that half second.
    """

    def __init__(self) -> None:
        self._waiting: deque[Closable] = deque()

    def add(self, transport: Closable) -> None:
        """Close `transport` soon."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._close_some)
        self._waiting.append(transport)

    def _close_some(self) -> None:
        for _ in range(min(CLOSED_PER_TURN, len(self._waiting))):
            self._waiting.popleft().close()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._close_some)
