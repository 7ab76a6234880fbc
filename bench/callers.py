"""Callers of a REST API that cost next to nothing, so that servers are measured."""

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from bench.children import CLOCK
from bench.report import quantile
from relay.tasks import TaskSet

SPAN = timedelta(seconds=8)

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD_LIMIT_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Observation:
    """How long each call took, in milliseconds, and how many a second there were."""

    spans_ms: Sequence[float]
    rate: float

    @property
    def p50_ms(self) -> float:
        return quantile(self.spans_ms, 0.5)

    @property
    def p99_ms(self) -> float:
        return quantile(self.spans_ms, 0.99)


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """An HTTP request on a connection that stays."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _nothing(answer: bytes) -> timedelta:
    del answer
    return timedelta(0)


async def observe(
    port: int,
    asked: bytes,
    *,
    callers: int,
    span: timedelta = SPAN,
    pause: timedelta = timedelta(0),
    less: Callable[[bytes], timedelta] = _nothing,
    may_fail: bool = False,
) -> Observation:
    """
    Have so many callers call again and again, each on its own connection.

    Args:
        asked: the request, as `request` makes it.
        span: for so long.
        pause: the mean of what each caller waits between two calls, evenly spread.
        less: what is not counted of how long a call took, by the body of its answer.
        may_fail: whether answers count that are none of 200.

    Raises:
        RuntimeError: an answer was none of 200.
    """
    spans_ms: list[float] = []
    began = CLOCK.monotonic()
    ends_at = began + span.total_seconds()

    async def keep_calling() -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, limit=_HEAD_LIMIT_BYTES
        )
        try:
            while CLOCK.monotonic() < ends_at:
                if pause:
                    await CLOCK.sleep(pause * random.uniform(0, 2))  # noqa: S311 - no secret
                before = CLOCK.monotonic()
                writer.write(asked)
                answer = await _read_answer(reader, may_fail=may_fail)
                took = timedelta(seconds=CLOCK.monotonic() - before) - less(answer)
                spans_ms.append(took / timedelta(milliseconds=1))
        finally:
            writer.close()

    async with TaskSet("callers") as tasks:
        for caller in [
            tasks.spawn(keep_calling(), name=f"{number}") for number in range(callers)
        ]:
            await caller
    return Observation(spans_ms, len(spans_ms) / (CLOCK.monotonic() - began))


async def _read_answer(reader: asyncio.StreamReader, *, may_fail: bool) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    is_good = may_fail or head.startswith(b"HTTP/1.1 200")
    if not is_good or length is None:
        raise RuntimeError(f"an answer was none of 200: {head[:200]!r}")
    return await reader.readexactly(int(length[1]))
