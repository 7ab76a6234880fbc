"""How many questions at once the executors of an application are asked."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from relay.dispatch import Peers
from relay.ids import ApplicationId


class Pace:
    """
    Asks no more at once than the executors bear, and one more each.

    An executor that takes one request at a time would otherwise be given a question for
    each of a hundred deaths, and everybody else who wants something of it would have to
    wait for all the answers. Questions wait here instead, first come, first served,
    where no time-out is running.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._asked: Counter[ApplicationId] = Counter()
        self._waiting: defaultdict[ApplicationId, deque[asyncio.Future[None]]] = (
            defaultdict(deque)
        )

    @asynccontextmanager
    async def question(self, application_id: ApplicationId) -> AsyncIterator[None]:
        """Within the block a question may be asked."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[application_id].append(turn)
        self._admit(application_id)
        try:
            await turn
            yield
        finally:
            # Else it was given up before it was its turn.
            if not turn.cancelled():
                self._asked[application_id] -= 1
            self._admit(application_id)

    def _admit(self, application_id: ApplicationId) -> None:
        waiting = self._waiting[application_id]
        while waiting and self._has_room(application_id):
            turn = waiting.popleft()
            if not turn.cancelled():
                self._asked[application_id] += 1
                turn.set_result(None)
        if not waiting:
            del self._waiting[application_id]
        if not self._asked[application_id]:
            del self._asked[application_id]

    def _has_room(self, application_id: ApplicationId) -> bool:
        asked = self._asked[application_id]
        if not asked:
            # Even when there is nobody to ask: then it is answered at once.
            return True
        room = 0
        for peer in self._peers.list_peers(application_id):
            if peer.is_responsive:
                # One may wait at the executor, and is sent without a pause.
                room += peer.capabilities.max_in_flight + 1
            if room > asked:
                return True
        return False
