"""A thread for what takes long, and its end."""

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from datetime import timedelta

import pytest

from relay.hub.reading import BUDGET, SLICE, BudgetSpentError, ReadingThread
from relay.protocol.steps import Steps
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


class Workshop:
    """A thread whose work says itself how long it takes, and what was done in it."""

    def __init__(self) -> None:
        self.spent_seconds = 0.0
        self.done: list[str] = []
        self.reader = ReadingThread("reader", read_spent=lambda: self.spent_seconds)
        self._may_begin = threading.Event()
        self.reader.submit(self._may_begin.wait, PATIENCE_SECONDS)

    def begin(self) -> None:
        """Work, on all that has been given to it up to now."""
        self._may_begin.set()

    def work(self, name: str, steps: int, each: timedelta) -> Steps[str]:
        for _ in range(steps):
            self.spent_seconds += each.total_seconds()
            self.done.append(name)
            yield
        return name

    def give(self, owner: str, steps: int, each: timedelta = SLICE) -> "Future[str]":
        return self.reader.submit_steps(owner, self.work(owner, steps, each))


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    opened = Workshop()
    yield opened
    opened.begin()
    # Whatever is still at work has worked long enough.
    opened.spent_seconds += 2 * BUDGET.total_seconds()
    opened.reader.shutdown(cancel_futures=True)


def test_long_work_of_one_owner_leaves_another_its_half(workshop: Workshop) -> None:
    """Whoever came first, and however much it has brought."""
    for _ in range(3):
        workshop.give("greedy", 500)
    modest = workshop.give("modest", 10)

    workshop.begin()
    modest.result(PATIENCE_SECONDS)

    by_the_end = workshop.done[
        : len(workshop.done) - workshop.done[::-1].index("modest")
    ]
    assert by_the_end.count("greedy") <= 11


def test_long_step_is_paid_for_afterwards(workshop: Workshop) -> None:
    """Nobody can be interrupted within a step; the others catch up."""
    workshop.give("coarse", 50, 20 * SLICE)
    fine = workshop.give("fine", 40)

    workshop.begin()
    fine.result(PATIENCE_SECONDS)

    last = len(workshop.done) - workshop.done[::-1].index("fine")
    assert workshop.done[:last].count("coarse") <= 3


def test_work_that_takes_too_long_is_given_up(workshop: Workshop) -> None:
    """The thread goes on with the rest."""
    endless = workshop.give("endless", 1_000_000, BUDGET / 10)
    short = workshop.give("short", 3)

    workshop.begin()

    with pytest.raises(BudgetSpentError, match="5 s"):
        endless.result(PATIENCE_SECONDS)
    assert short.result(PATIENCE_SECONDS) == "short"
    assert workshop.done.count("endless") == 11


def test_long_step_that_was_the_last_one_was_not_in_vain(workshop: Workshop) -> None:
    """Nothing is saved by not taking what it has found."""

    def call() -> str:
        workshop.spent_seconds += 2 * BUDGET.total_seconds()
        return "found"

    long = workshop.reader.submit(call)

    workshop.begin()

    assert long.result(PATIENCE_SECONDS) == "found"


def test_work_that_is_cancelled_is_not_gone_on_with(workshop: Workshop) -> None:
    """Neither if it has not begun, nor in the middle; what it has is let go."""
    has_begun, was_closed = threading.Event(), threading.Event()

    def go_on() -> Steps[None]:
        try:
            while True:
                has_begun.set()
                yield
        finally:
            was_closed.set()

    workshop.begin()
    running = workshop.reader.submit_steps("impatient", go_on())
    assert has_begun.wait(PATIENCE_SECONDS)

    assert running.cancel()

    assert was_closed.wait(PATIENCE_SECONDS)
    assert workshop.reader.submit(int).result(PATIENCE_SECONDS) == 0


def test_work_that_has_begun_is_left_at_the_end(workshop: Workshop) -> None:
    """With the step that it is at; its asker is told."""
    has_begun = threading.Event()

    def go_on() -> Steps[None]:
        while True:
            has_begun.set()
            yield

    workshop.begin()
    running = workshop.reader.submit_steps("endless", go_on())
    assert has_begun.wait(PATIENCE_SECONDS)

    workshop.spent_seconds += 1
    workshop.reader.shutdown(cancel_futures=True)

    assert running.cancelled()
    assert workshop.reader.is_idle


def test_error_of_work_holds_no_cycle() -> None:
    """Or a large message stays until the next full collection."""
    reader = ReadingThread("reader")

    class Message:
        """Something that can be watched."""

    def fail(message: Message) -> None:
        raise ValueError(repr(message))

    gc.disable()
    try:
        message = Message()
        watch = weakref.ref(message)
        failed = reader.submit(fail, message)
        with pytest.raises(ValueError, match="Message"):
            failed.result(PATIENCE_SECONDS)
        reader.shutdown()
        del failed, message
        assert watch() is None
    finally:
        gc.enable()


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
