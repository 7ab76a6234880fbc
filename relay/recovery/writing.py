"""
How attempts write: although the store may be away, and together where they can.

A transaction costs many times what it writes, and a thousand executors may die at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

import structlog

from relay.clock import Clock
from relay.errors import StoreUnavailableError
from relay.ids import RecoveryId

logger = structlog.get_logger(__name__)

_T = TypeVar("_T")
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")

_WriteMany: TypeAlias = Callable[
    [Sequence[_Row]], Awaitable[Mapping[RecoveryId, _Result]]
]

WRITTEN_AT_ONCE: Final = 100
"""Bounds how long one transaction holds its rows, and the event loop."""

_FIRST_PAUSE: Final = timedelta(seconds=1)
_LONGEST_PAUSE: Final = timedelta(seconds=30)


async def written(clock: Clock, write: Callable[[], Awaitable[_T]]) -> _T:
    """Do `write`, however often the store has to be asked, and lose nothing."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except StoreUnavailableError as error:
            logger.warning("recovery_outcome_held", reason=error.reason)
        await clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def written_together(
    clock: Clock, rows: Sequence[_Row], write: _WriteMany[_Row, _Result]
) -> Mapping[RecoveryId, _Result]:
    """
    Do `write` for all rows in one transaction; if that fails, for each in its own.

    One row that breaks does not take the others with it. It stays claimed with no
    attempt at it, which the survey finds.

    Returns:
        What `write` returned; rows that it could not write are missing.
    """
    try:
        return await written(clock, partial(write, rows))
    except Exception:
        if len(rows) == 1:
            raise
        logger.exception("recovery_writes_failed", rows=len(rows))
    results: dict[RecoveryId, _Result] = {}
    for row in rows:
        try:
            results |= await written(clock, partial(write, [row]))
        except Exception:
            logger.exception("recovery_write_failed", row=row)
    return results


@dataclass(eq=False, slots=True)
class _Waiting(Generic[_Row, _Result]):
    rows: Mapping[RecoveryId, _Row]
    results: Mapping[RecoveryId, _Result] | None = None


class Together(Generic[_Row, _Result]):
    """
    Writes what several tasks have to write.

    While one transaction is under way the next rows gather, and are then written in
    one. That costs nobody any time: on SQLite they would have to queue anyway.

    What two tasks have to write to one row is written in two transactions: one of them
    has lost the row, and whose writing counted could not be told within one.
    """

    def __init__(self, clock: Clock, write: _WriteMany[_Row, _Result]) -> None:
        self._clock = clock
        self._write_many = write
        self._waiting: deque[_Waiting[_Row, _Result]] = deque()
        self._turn = asyncio.Lock()

    async def write(self, recovery_id: RecoveryId, row: _Row) -> _Result | None:
        """What became of one row; `None` if somebody else has changed it."""
        return (await self.write_all({recovery_id: row})).get(recovery_id)

    async def write_all(
        self, rows: Mapping[RecoveryId, _Row]
    ) -> Mapping[RecoveryId, _Result]:
        """What became of rows that belong together; missing are those changed."""
        own: _Waiting[_Row, _Result] = _Waiting(rows)
        self._waiting.append(own)
        try:
            async with self._turn:
                # Those who wait for their turn are served in the order of their coming.
                while own.results is None:
                    await self._write_some()
        finally:
            # Nobody would look after what a cancelled task has begun.
            if own.results is None and own in self._waiting:
                self._waiting.remove(own)
        return own.results

    async def _write_some(self) -> None:
        batch = [self._waiting.popleft()]
        ids = set(batch[0].rows)
        while self._waiting:
            more = self._waiting[0].rows.keys()
            if len(ids) + len(more) > WRITTEN_AT_ONCE or not ids.isdisjoint(more):
                break
            ids |= more
            batch.append(self._waiting.popleft())
        rows = [row for waiting in batch for row in waiting.rows.values()]
        try:
            results = await written_together(self._clock, rows, self._write_many)
        except BaseException:
            # We are being ended, the others perhaps not.
            self._waiting.extendleft(reversed(batch))
            raise
        for waiting in batch:
            waiting.results = {
                id_: results[id_] for id_ in waiting.rows if id_ in results
            }
