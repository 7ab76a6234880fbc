"""
Reading a long reply a step at a time, so that others get their turn between steps.

A reply of 64 MiB can hold half a million rows, which take half a minute. Whoever reads
it decides after each step whether it goes on now, later or not at all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

from relay.protocol.envelope import Request

ReplyT = TypeVar("ReplyT")
RowT = TypeVar("RowT")
BuiltT = TypeVar("BuiltT")

Steps: TypeAlias = Generator[None, None, ReplyT]
"""A reading that stops after each step; what was read is its return value."""

_FREED_AT_ONCE: Final = 1000


class LongReply(ABC, Generic[ReplyT]):
    """A request whose reply is read in steps: one a row, after the list is split."""

    __slots__ = ()

    @abstractmethod
    def decode_in_steps(self, frame: bytes) -> Steps[ReplyT]:
        """
        The same as `decode_reply`.

        Raises:
            FrameError: from any step: the frame does not answer the question.
        """

    def decode_reply(self, frame: bytes) -> ReplyT:
        """The answer in `frame`, read in one go; see `decode_in_steps`."""
        return finish(self.decode_in_steps(frame))


def read_in_steps(request: Request[ReplyT], frame: bytes) -> Steps[ReplyT]:
    """
    The reply to any request; one that has no steps of its own is read in one.

    Raises:
        FrameError: as `decode_reply` does, from any step.
    """
    if isinstance(request, LongReply):
        reply: ReplyT = yield from request.decode_in_steps(frame)
        return reply
    return request.decode_reply(frame)


def finish(steps: Steps[ReplyT]) -> ReplyT:
    """Take all steps that are left; what was read."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            read: ReplyT = end.value
            return read


def build_each(
    rows: Iterable[RowT], build: Callable[[RowT], BuiltT]
) -> Steps[tuple[BuiltT, ...]]:
    """What `build` makes of each row, in order; one step a row."""
    built: list[BuiltT] = []
    try:
        for row in rows:
            built.append(build(row))
            yield
    except BaseException:
        # To free a hundred thousand rows at once stops everybody for a while.
        while built:
            del built[-_FREED_AT_ONCE:]
        raise
    return tuple(built)
