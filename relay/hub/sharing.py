"""Whose work is done next, when one worker does that of many."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

WorkT = TypeVar("WorkT")


@dataclass(slots=True)
class _Line(Generic[WorkT]):
    spent_seconds: float
    waiting: deque[WorkT] = field(default_factory=deque)


class FairLines(Generic[WorkT]):
    """
    Work that waits, in one line an owner.

    The owner on whom the least time was spent is next; so each of those who have work
    gets the same share of the time, however much of it each brings, and however long
    its pieces are. Within a line the first one is next. Whoever comes anew has nothing
    to catch up with: it begins where the one stands that has got the least.
    """

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line[WorkT]] = {}

    def __len__(self) -> int:
        """Owners whose work waits or was taken and not charged for."""
        return len(self._lines)

    def add(self, owner: Hashable, work: WorkT) -> None:
        """Let `work` wait behind what its owner has brought before."""
        line = self._lines.get(owner)
        if line is None:
            spent = (line.spent_seconds for line in self._lines.values())
            line = self._lines[owner] = _Line(min(spent, default=0.0))
        line.waiting.append(work)

    def take(self) -> tuple[Hashable, WorkT] | None:
        """The next piece of work and its owner, if anything waits; see `charge`."""
        waiting = [
            (line.spent_seconds, owner)
            for owner, line in self._lines.items()
            if line.waiting
        ]
        if not waiting:
            return None
        _, owner = min(waiting, key=lambda candidate: candidate[0])
        return owner, self._lines[owner].waiting.popleft()

    def charge(
        self, owner: Hashable, spent_seconds: float, unfinished: WorkT | None = None
    ) -> None:
        """
        Tell what a piece of work that was taken has cost.

        Args:
            unfinished: what is left of it, which goes to the end of its line.
        """
        line = self._lines[owner]
        line.spent_seconds += spent_seconds
        if unfinished is not None:
            line.waiting.append(unfinished)
        if not line.waiting:
            del self._lines[owner]

    def take_all(self) -> list[WorkT]:
        """Everything that waits; nothing does any more."""
        everything = [work for line in self._lines.values() for work in line.waiting]
        for line in self._lines.values():
            line.waiting.clear()
        return everything
