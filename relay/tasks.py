"""
Background tasks that cannot be lost.

A bare task drops its failure on the floor and may be collected while it runs. A
`TaskSet` keeps a reference, reports a failure once, and ends all of its tasks together.

What must not be left half done goes through `run_to_end`.
"""

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


async def run_to_end(work: Coroutine[Any, Any, _T]) -> _T:
    """
    The result of `work`, which a cancellation of the caller does not interrupt.

    The caller is cancelled all the same, as soon as `work` has ended.
    """
    task = asyncio.create_task(work)  # noqa: TID251 - awaited to its end, right here
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        if not task.cancelled():
            # Retrieved, or the loop would complain of it when nobody can help it.
            task.exception()
        raise cancellation
    return task.result()


class TaskSet:
    """
    A set of tasks with one owner.

    Use as an async context manager, or call `close()`. A task that fails is logged with
    its traceback and removed; it does not end the others.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start `work` in the background; it ends with the set at the latest."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._name} is closed; cannot start {name}")
        task = asyncio.create_task(work, name=f"{self._name}:{name}")  # noqa: TID251 - the one allowed starter
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended; may be repeated."""
        self._closed = True
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if error := task.exception():
            logger.error("task_failed", exc_info=error, extra={"task": task.get_name()})
