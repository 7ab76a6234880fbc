"""Messages that have not arrived completely, all of them together."""

from collections.abc import Callable
from typing import Generic, TypeVar

LinkT = TypeVar("LinkT")


class Unfinished(Generic[LinkT]):
    """
    What is held of messages whose end is still to come.

    Each message has a limit of its own; a hundred of them at once would still be more
    than a machine has. Beyond the limit of all, the socket with the largest part is
    given up, until the rest fits.
    """

    def __init__(self, limit_bytes: int, give_up: Callable[[LinkT], None]) -> None:
        """
        Hold nothing yet.

        Args:
            give_up: called with a socket that has to go, already forgotten here.
        """
        self._limit = limit_bytes
        self._give_up = give_up
        self._held: dict[LinkT, int] = {}
        self.total_bytes = 0

    def note(self, link: LinkT, size_bytes: int) -> None:
        """That so much of a message of `link` is held now; may give sockets up."""
        self.total_bytes += size_bytes - self._held.pop(link, 0)
        if size_bytes:
            self._held[link] = size_bytes
        while self.total_bytes > self._limit:
            largest = max(self._held, key=self._held.__getitem__)
            self.total_bytes -= self._held.pop(largest)
            self._give_up(largest)
