"""
Reading the heads of a socket's messages: of large ones in a thread, of all in order.

To find out which question 64 MiB answer takes some 50 ms. In a thread that costs the
loop less: the interpreter's lock is held in a row by one step of the work, not by the
whole of it. There is one such thread for all sockets: with that lock several would not
be faster, and each of them would keep the loop waiting at its every turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeAlias

from relay.protocol import Envelope, FrameError, decode_envelope

LARGE_FRAME_BYTES: Final = 256 * 1024
"""
From here on a message is read in a thread.

Below it the head takes 0.3 ms, a millisecond at the worst; to go to a thread and back
takes a tenth of a millisecond, and longer while the loop is busy.
"""

SMALL_FRAME_BYTES: Final = 16 * 1024
"""Below it the rest takes at most 10 ms too, and is not even looked at."""

OBJECTS_READ_HERE: Final = 1_000
"""Each takes 13 µs at the worst, and the braces in payloads count too."""

VALUES_READ_HERE: Final = 20_000
"""Each takes 0.4 µs at the worst; an ordinary row has 30."""

Head: TypeAlias = Envelope | Exception
"""What a message says it is, or why it cannot be read; not a `FrameError`: a defect."""


def may_be_read_here(frame: bytes) -> bool:
    """
    Whether a whole message takes so little time that the loop may read it.

    How long it takes depends on what it holds: of 255 KiB, 360 ordinary workflows take
    4 ms, 7,500 that hold next to nothing 100 ms, and other tiny rows up to 150 ms.
    """
    if len(frame) < SMALL_FRAME_BYTES:
        return True
    return (
        len(frame) < LARGE_FRAME_BYTES
        and frame.count(b"{") <= OBJECTS_READ_HERE
        and frame.count(b",") <= VALUES_READ_HERE
    )


def read_head(frame: bytes) -> Head:
    """The head of a message; an error is a value here, for it is taken in turn too."""
    try:
        return decode_envelope(frame)
    except FrameError as error:
        return error


class Intake:
    """
    Messages of one socket behind a large one whose head is being read.

    Each is handed on when its head is known and all before it are; so a connection
    sees them in the order in which they came.
    """

    __slots__ = (
        "_frames",
        "_has_ended",
        "_read",
        "_reading",
        "_take",
        "_tell_empty",
        "_threads",
    )

    def __init__(
        self,
        take: Callable[[bytes, Head], None],
        tell_empty: Callable[[], None],
        *,
        threads: Executor | None,
        read: Callable[[bytes], Head] = read_head,
    ) -> None:
        """
        Hold nothing yet.

        Args:
            take: gets each message with its head; it does not raise.
            tell_empty: called when everything has been handed on; not after `finish`.
            threads: where large messages are read; `None`: the loop's own.
            read: finds the head, and may run in a thread.
        """
        self._take = take
        self._tell_empty = tell_empty
        self._threads = threads
        self._read = read
        self._frames: deque[bytes] = deque()
        self._reading: asyncio.Future[Head] | None = None
        self._has_ended = False

    def add(self, frame: bytes) -> None:
        """Hand a message on as soon as it is its turn."""
        self._frames.append(frame)
        if len(self._frames) == 1:
            self._go_on()

    def finish(self) -> None:
        """Hand on in this turn of the loop whatever is here: nothing follows it."""
        self._has_ended = True
        if self._reading is not None:
            # The thread has better things to do, unless it is at it.
            self._reading.cancel()
        while self._frames:
            frame = self._frames.popleft()
            self._take(frame, self._find_head(frame))

    def _go_on(self) -> None:
        while self._frames and not self._has_ended:
            frame = self._frames[0]
            if len(frame) >= LARGE_FRAME_BYTES:
                self._reading = asyncio.get_running_loop().run_in_executor(
                    self._threads, self._find_head, frame
                )
                self._reading.add_done_callback(self._has_read)
                return
            self._frames.popleft()
            self._take(frame, self._find_head(frame))
        if not self._has_ended:
            self._tell_empty()

    def _find_head(self, frame: bytes) -> Head:
        try:
            return self._read(frame)
        except Exception as error:
            return error

    def _has_read(self, reading: "asyncio.Future[Head]") -> None:
        if self._has_ended or reading.cancelled():
            return
        self._reading = None
        self._take(self._frames.popleft(), reading.result())
        self._go_on()
