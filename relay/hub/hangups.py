"""Whether a peer has gone, without reading what it has sent before."""

import select
from typing import Protocol

_GONE = getattr(select, "POLLRDHUP", 0)
"""Linux: it has ended its side. Resets are always told, on every system."""


class Pollable(Protocol):
    """A socket, or what asyncio's transports show of theirs."""

    def fileno(self) -> int:
        """The descriptor, negative once it is closed."""
        ...


def has_hung_up(connection: Pollable) -> bool:
    """
    Whether nobody waits at the other end any more.

    Executors dial anew when they have waited for 5 s. What they have left behind in
    our queues is not worth the work: in an overload it would be all that is done.
    """
    descriptor = connection.fileno()
    if descriptor < 0:
        return True
    watch = select.poll()
    watch.register(descriptor, _GONE)
    return bool(watch.poll(0))
