"""Work that is not left half done."""

import asyncio

import pytest

from relay.tasks import TaskSet, run_to_end


async def test_cancelled_caller_waits_for_its_work() -> None:
    """The work ends first, and then the caller is cancelled all the same."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        has_ended.set()

    async with TaskSet("test") as tasks:
        caller = tasks.spawn(run_to_end(work()), name="caller")
        await asyncio.wait({caller}, timeout=0)
        for _ in range(2):
            caller.cancel()
            await asyncio.wait({caller}, timeout=0)
        assert not caller.done()

        may_end.set()
        await asyncio.wait({caller})

    assert has_ended.is_set()
    assert caller.cancelled()


async def test_failure_reaches_the_caller() -> None:
    """It is the caller's to handle, as if it had awaited the work itself."""

    async def work() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await run_to_end(work())


async def test_result_reaches_the_caller() -> None:
    """Nothing else changes."""

    async def work() -> int:
        return 7

    assert await run_to_end(work()) == 7
