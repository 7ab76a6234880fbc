"""Waiting ends with the client, and with nothing else."""

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from relay.errors import NotFoundError
from relay.tasks import TaskSet
from relay_api.waiting import while_connected


class Line:
    """A connection whose client can hang up."""

    def __init__(self) -> None:
        self.is_cut = asyncio.Event()
        self.request = Request({"type": "http"}, self.receive)

    async def receive(self) -> Any:
        await self.is_cut.wait()
        return {"type": "http.disconnect"}


class Work:
    """Something that takes until it is released."""

    def __init__(self, error: Exception | None = None) -> None:
        self.began, self.released = asyncio.Event(), asyncio.Event()
        self.was_cancelled = False
        self._error = error

    async def run(self) -> str:
        self.began.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self._error is not None:
            raise self._error
        return "done"


async def test_result_is_that_of_the_work() -> None:
    """As if nobody watched the client."""
    work = Work()
    work.released.set()

    assert await while_connected(Line().request, work.run()) == "done"


async def test_error_is_that_of_the_work() -> None:
    """It is not wrapped, and not logged as a fault."""
    work = Work(NotFoundError("workflow", "w"))
    work.released.set()

    with pytest.raises(NotFoundError):
        await while_connected(Line().request, work.run())


async def test_client_that_goes_cancels_the_work() -> None:
    """What waits for an answer from then on waits for nobody."""
    line, work = Line(), Work()

    async with TaskSet("test") as tasks:
        waiting = tasks.spawn(_expect_gone(line, work), name="waiting")
        await work.began.wait()
        line.is_cut.set()
        await waiting

    assert work.was_cancelled
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_shutdown_is_not_taken_for_a_client_that_goes() -> None:
    """Also when both happen at once."""
    line, work = Line(), Work()

    async with TaskSet("test") as tasks:
        waiting = tasks.spawn(while_connected(line.request, work.run()), name="waiting")
        await work.began.wait()
        line.is_cut.set()
        waiting.cancel()
        await asyncio.wait({waiting})

    assert waiting.cancelled()


async def _expect_gone(line: Line, work: Work) -> None:
    with pytest.raises(ClientDisconnect):
        await while_connected(line.request, work.run())
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
