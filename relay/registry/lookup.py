"""Which application answers to a name, for requests that come by the hundred."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

from relay.clock import Clock
from relay.gathering import Gathering
from relay.ids import AppName
from relay.records import ApplicationRecord
from relay.registry.actor import LOCAL_ORGANIZATION
from relay.registry.memory import CAPACITY, Facts
from relay.store import Store

FRESH_FOR: Final = timedelta(seconds=1)
"""What was read is as good as read now for so long; another process may change it."""


class ApplicationLookup:
    """
    Reads applications by name, each once a second at most.

    A reading is a transaction, which takes longer than all else that Relay does about a
    relayed question. What this process changes counts at once, what another one changes
    within `FRESH_FOR`. A name that nobody has is never remembered.
    """

    def __init__(self, store: Store, clock: Clock, *, capacity: int = CAPACITY) -> None:
        self._store = store
        self._found: Facts[AppName, ApplicationRecord] = Facts(clock, capacity)
        self._reading: Gathering[AppName, ApplicationRecord] = Gathering(
            self._find_many
        )
        self._changes = 0

    async def find(self, name: AppName) -> ApplicationRecord | None:
        """
        The application of that name, if there is one.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        known = self._found.recall(name, FRESH_FOR)
        if known is not None:
            return known
        changes = self._changes
        record = await self._reading.read(name)
        # What was read while something changed may be older than the change.
        if record is not None and changes == self._changes:
            self._found.note(name, record)
        return record

    def forget(self, name: AppName) -> None:
        """Read it again: it has changed, or may have."""
        self._changes += 1
        self._found.forget(name)

    async def _find_many(
        self, names: Collection[AppName]
    ) -> Mapping[AppName, ApplicationRecord]:
        async with self._store.read() as work:
            found = [
                await work.applications.find(LOCAL_ORGANIZATION, name) for name in names
            ]
        return {record.ref.name: record for record in found if record is not None}
