"""How many sockets may be on their way in at once."""

from collections.abc import Callable
from datetime import timedelta

from relay.clock import Clock
from relay.hub.deadlines import Deadlines

PLACES = 128
"""
For sockets between the upgrade request and the answer to `executor_info`.

Enough to keep the loop busy while answers travel, and few enough that what may arrive
in one turn of the loop is handled in some 20 ms.
"""

PEER_LIMIT = timedelta(seconds=1)
"""For what a peer has to send before it counts no more: it costs no work meanwhile."""


class Turnstile:
    """
    Counts who is on the way in, so that others wait outside when it is crowded.

    A place belongs to whatever object stands for the socket at the time. While it is
    our turn to do something, it is kept; while it is the peer's, for `PEER_LIMIT`:
    executors that never say who they are do not keep healthy ones out.
    """

    def __init__(self, clock: Clock) -> None:
        self._ours: set[object] = set()
        self._theirs: Deadlines[object] = Deadlines(PEER_LIMIT, clock, self._expire)
        self._strangers: set[object] = set()
        self._on_room: Callable[[], None] = lambda: None

    @property
    def room(self) -> int:
        """How many more may come in; negative when places were taken unasked."""
        return PLACES - len(self._ours) - len(self._theirs)

    @property
    def stranger_count(self) -> int:
        """How many have a place and have not said which application they are of."""
        return len(self._strangers)

    def watch(self, on_room: Callable[[], None]) -> None:
        """Call `on_room` whenever a place becomes free."""
        self._on_room = on_room

    def enter(self, ticket: object) -> None:
        """Take a place for `ticket`, whether there is room or not, until it leaves."""
        self._theirs.discard(ticket)
        self._ours.add(ticket)

    def await_request(self, ticket: object) -> None:
        """Take a place for `ticket`, whose upgrade request is still to be read."""
        self._strangers.add(ticket)
        self.await_peer(ticket)

    def await_peer(self, ticket: object) -> None:
        """Take or keep a place for `ticket`, for as long as a prompt peer needs."""
        self._ours.discard(ticket)
        self._theirs.touch(ticket)

    def leave(self, ticket: object) -> None:
        """Give the place of `ticket` back, if it has one."""
        self._strangers.discard(ticket)
        if ticket in self._ours:
            self._ours.discard(ticket)
            self._on_room()
        elif self._theirs.discard(ticket):
            self._on_room()

    async def run(self) -> None:
        """End the places of peers that are slow, until cancelled."""
        await self._theirs.run()

    def _expire(self, ticket: object, is_late: bool) -> None:
        del is_late
        self._strangers.discard(ticket)
        self._on_room()
