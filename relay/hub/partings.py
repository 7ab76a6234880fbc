"""Ending sockets whose peers have gone, a few in each turn of the loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

ENDED_PER_TURN: Final = 50
"""Each takes a twentieth of a millisecond, and a proxy that dies ends them all."""


class Partings:
    """
    What is to be done about sockets that have ended, first come, first served.

    The loop would do it for ten thousand in one turn, and nothing else in that half
    second.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, end: Callable[[], None]) -> None:
        """Call `end` soon."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._end_some)
        self._waiting.append(end)

    def _end_some(self) -> None:
        try:
            for _ in range(min(ENDED_PER_TURN, len(self._waiting))):
                self._waiting.popleft()()
        finally:
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._end_some)
