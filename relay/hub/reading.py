"""
A thread for what takes long to read, shared fairly among those it reads for.

One reply of half a million rows takes half a minute, and only one thread of a process
computes at a time: several would hold the loop up, and do no more together. So the one
thread reads a little of one application's messages, then a little of another's. What
one reply may take altogether is bounded, and its asker may stop waiting for it.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Condition, Thread
from typing import Any, Final, ParamSpec, TypeVar

from relay.clock import read_thread_time
from relay.hub.sharing import FairLines
from relay.protocol.steps import Steps

P = ParamSpec("P")
T = TypeVar("T")

BUDGET: Final = timedelta(seconds=5)
"""
Processor time for one message.

The largest one has room for 60,000 ordinary workflows, which take a second or two.
"""

SLICE: Final = timedelta(milliseconds=5)
"""Processor time after which it is somebody else's turn; a step may take longer."""


class BudgetSpentError(Exception):
    """To read a message takes more time than one may take."""

    def __init__(self, budget: timedelta) -> None:
        self.budget = budget
        super().__init__(f"to read it takes more than {budget.total_seconds():g} s")


@dataclass(slots=True, eq=False)
class _Reading:
    steps: Steps[Any]
    # It is never said to be running: its asker can leave it at any time.
    future: "Future[Any]"
    spent_seconds: float = 0.0

    def succeed(self, result: object) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class ReadingThread(Executor):
    """
    Works off what it is given, in one thread; each owner has the same share of it.

    The standard library's threads are joined when the process ends, with all that still
    waits for them: a few large messages would hold a stop up for half a minute. Nobody
    reads the outcome any more, so that this one is left behind.
    """

    def __init__(
        self, name: str, *, read_spent: Callable[[], float] = read_thread_time
    ) -> None:
        """
        The thread is started with the first piece of work.

        Args:
            read_spent: the processor time of the calling thread, in seconds.
        """
        self._name = name
        self._read_spent = read_spent
        self._lines: FairLines[_Reading] = FairLines()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._has_ended = False
        self._is_cancelling = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that was given to it is done."""
        with self._changed:
            return len(self._lines) == 0

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "Future[T]":
        """Have `fn` called, in one step and on nobody's account."""
        return self.submit_steps(None, _take_one_step(partial(fn, *args, **kwargs)))

    def submit_steps(self, owner: Hashable, steps: Steps[T]) -> "Future[T]":
        """
        Have `steps` taken, in portions of `SLICE`.

        What is cancelled is not gone on with. After the end nothing is begun, and the
        future is cancelled. It fails with `BudgetSpentError` when the steps have taken
        more than `BUDGET` and are not at their end.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._has_ended:
                future.cancel()
                return future
            self._lines.add(owner, _Reading(steps, future))
            if self._thread is None:
                self._thread = Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def share_of(self, owner: Hashable) -> Executor:
        """The same thread, for single calls on the account of `owner`."""
        return _Share(self, owner)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """
        Take no more work; the thread ends with what it has.

        Args:
            wait: for the thread to end.
            cancel_futures: whether it ends with the step that it is at.
        """
        with self._changed:
            self._has_ended = True
            if cancel_futures:
                self._is_cancelling = True
                for reading in self._lines.take_all():
                    reading.future.cancel()
            self._changed.notify()
            thread = self._thread
        if wait and thread is not None:
            thread.join()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            owner, reading = taken
            spent_seconds = self._go_on(reading)
            is_unfinished = not reading.future.done()
            with self._changed:
                if is_unfinished and self._is_cancelling:
                    reading.future.cancel()
                    is_unfinished = False
                self._lines.charge(
                    owner, spent_seconds, reading if is_unfinished else None
                )
            # Or the last message would be kept until the next one comes.
            del taken, owner, reading

    def _take(self) -> tuple[Hashable, _Reading] | None:
        with self._changed:
            while (taken := self._lines.take()) is None and not self._has_ended:
                self._changed.wait()
            return taken

    def _go_on(self, reading: _Reading) -> float:
        """Take steps until it is somebody else's turn; the seconds it has taken."""
        began = now = self._read_spent()
        try:
            while now - began < SLICE.total_seconds():
                if reading.future.cancelled():
                    reading.steps.close()
                    break
                if reading.spent_seconds + now - began > BUDGET.total_seconds():
                    reading.steps.close()
                    raise BudgetSpentError(BUDGET)
                next(reading.steps)
                now = self._read_spent()
        except StopIteration as end:
            reading.succeed(end.value)
        except BaseException as error:
            # Without this frame, which knows the future that holds the error.
            beyond = error.__traceback__.tb_next if error.__traceback__ else None
            reading.fail(error.with_traceback(beyond))
        spent_seconds = self._read_spent() - began
        reading.spent_seconds += spent_seconds
        return spent_seconds


class _Share(Executor):
    def __init__(self, thread: ReadingThread, owner: Hashable) -> None:
        self._thread = thread
        self._owner = owner

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "Future[T]":
        steps = _take_one_step(partial(fn, *args, **kwargs))
        return self._thread.submit_steps(self._owner, steps)


def _take_one_step(call: Callable[[], T]) -> Steps[T]:
    yield from ()
    return call()
