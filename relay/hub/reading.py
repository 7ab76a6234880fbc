"""A thread for what takes long to read, which nobody has to wait for at the end."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ReadingThread(Executor):
    """
    Works off what it is given, in order, in one thread.

    The standard library's threads are joined when the process ends, with all that still
    waits for them: a few large messages would hold a stop up for half a minute. Nobody
    reads the outcome any more, so that this one is left behind.
    """

    def __init__(self, name: str) -> None:
        """The thread is started with the first piece of work."""
        self._name = name
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            SimpleQueue()
        )
        self._lock = Lock()
        self._thread: Thread | None = None
        self._has_ended = False

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """
        Have `fn` called when all before it is done.

        After the end nothing is called, and the future is cancelled.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._has_ended:
                future.cancel()
                return future
            self._waiting.put((future, lambda: fn(*args, **kwargs)))
            if self._thread is None:
                self._thread = Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """
        Take no more work; the thread ends with what it has.

        Args:
            wait: for the thread to end.
            cancel_futures: whether it ends with the piece that it is at.
        """
        with self._lock:
            self._has_ended = True
            while cancel_futures and not self._waiting.empty():
                if (work := self._waiting.get()) is not None:
                    work[0].cancel()
            self._waiting.put(None)
            thread = self._thread
        if wait and thread is not None:
            thread.join()

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            future, call = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            # Or the last message would be kept until the next one comes.
            del work, future, call
