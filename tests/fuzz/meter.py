"""How long the loop was kept, in processor time."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

LONGEST_TURN_SECONDS = 0.1


class CpuMeter:
    """
    The longest turn of the event loop, by the processor time of its thread.

    Wall time would tell how busy the machine is. The garbage collector rests meanwhile:
    what it costs is the size of the test's own process.
    """

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self._began = 0.0
        self._is_running = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure every turn of the running loop within the block."""
        loop = asyncio.get_running_loop()

        def beat() -> None:
            if not self._is_running:
                return
            now = thread_time()
            self.longest_seconds = max(self.longest_seconds, now - self._began)
            self._began = now
            loop.call_soon(beat)

        gc.disable()
        self._began, self._is_running = thread_time(), True
        loop.call_soon(beat)
        try:
            yield
        finally:
            beat()
            self._is_running = False
            gc.enable()
