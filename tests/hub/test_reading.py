"""A thread for what takes long, and its end."""

import asyncio
import sys
import threading
from concurrent.futures import CancelledError
from datetime import timedelta

import pytest

from relay.hub.reading import ReadingThread
from tests.serving import CLOCK

PATIENCE = timedelta(seconds=10)
PATIENCE_SECONDS = PATIENCE.total_seconds()

LEFT_BEHIND = """
import threading
from relay.hub.reading import ReadingThread
thread, has_begun = ReadingThread("reader"), threading.Event()
never = threading.Event()
thread.submit(lambda: (has_begun.set(), never.wait()))
thread.submit(never.wait)
has_begun.wait()
thread.shutdown(wait=False, cancel_futures=True)
"""


def test_work_is_done_in_order_in_one_thread() -> None:
    reader = ReadingThread("reader")
    done: list[int] = []

    def note(number: int) -> int:
        done.append(number)
        return threading.get_ident()

    futures = [reader.submit(note, number) for number in range(5)]
    threads = {future.result(PATIENCE_SECONDS) for future in futures}

    assert done == [0, 1, 2, 3, 4]
    assert len(threads) == 1
    assert threads != {threading.get_ident()}
    reader.shutdown()


def test_an_error_is_the_asker_s_and_the_thread_goes_on() -> None:
    reader = ReadingThread("reader")

    with pytest.raises(ValueError, match="seven"):
        reader.submit(int, "seven").result(PATIENCE_SECONDS)
    assert reader.submit(int, "7").result(PATIENCE_SECONDS) == 7
    reader.shutdown()


def test_what_waits_at_the_end_is_cancelled_and_what_comes_later_too() -> None:
    reader = ReadingThread("reader")
    has_begun, may_end = threading.Event(), threading.Event()

    def work() -> str:
        has_begun.set()
        may_end.wait(PATIENCE_SECONDS)
        return "done"

    running, waiting = reader.submit(work), reader.submit(work)
    assert has_begun.wait(PATIENCE_SECONDS)
    reader.shutdown(wait=False, cancel_futures=True)
    late = reader.submit(work)
    may_end.set()

    assert running.result(PATIENCE_SECONDS) == "done"
    for future in (waiting, late):
        with pytest.raises(CancelledError):
            future.result(PATIENCE_SECONDS)


def test_a_reader_that_was_given_nothing_ends_at_once() -> None:
    ReadingThread("reader").shutdown()


async def test_a_process_ends_while_the_thread_is_at_work() -> None:
    """It would be joined, with all that waits, if it were one of the library's."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LEFT_BEHIND)
    try:
        async with CLOCK.timeout(PATIENCE):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
