"""What the gate has seen of applications and keys, and how long ago."""

from collections.abc import Iterable
from datetime import timedelta
from enum import Enum, auto
from typing import Generic, TypeVar

from relay.clock import Clock
from relay.ids import ApplicationRef, AppName
from relay.records import KeyRecord

CAPACITY = 100_000
"""Applications, and keys, that are remembered: some 50 MB of each at most."""

NameT = TypeVar("NameT")
FactT = TypeVar("FactT")


class Absence(Enum):
    """Why no application answers to a name."""

    DELETED = auto()
    """It was deleted; only a PUT brings the name back."""

    UNREGISTERED = auto()
    """There is none, and as far as is known there was none."""


class Memory:
    """
    Applications and keys as they were last seen in the store.

    It holds what the store holds and nothing that a client made up, so that knocking
    cannot fill it. The facts that were confirmed longest ago are forgotten first.

    A read that began before a key was revoked may end after it, so a revoked key stays
    revoked whatever is learnt later. An application that was deleted meanwhile can come
    back to life here for a moment: its executors are shown out when their arrival is
    recorded.
    """

    def __init__(self, clock: Clock, *, capacity: int = CAPACITY) -> None:
        self._applications: Facts[AppName, ApplicationRef | Absence] = Facts(
            clock, capacity
        )
        self._keys: Facts[bytes, KeyRecord] = Facts(clock, capacity)

    def learn_application(self, name: AppName, fact: ApplicationRef | Absence) -> None:
        """Remember which application has that name now, or that none has."""
        if fact is Absence.UNREGISTERED:
            self._applications.forget(name)
        else:
            self._applications.note(name, fact)

    def learn_key(self, secret_hash: bytes, record: KeyRecord) -> None:
        """Remember a key; one that was revoked stays so."""
        known = self._keys.recall(secret_hash)
        if known is not None and known.revoked_at is not None:
            record = known
        self._keys.note(secret_hash, record)

    def learn_revocation(self, record: KeyRecord) -> None:
        """Remember that a key is revoked whose hash is not at hand."""
        for secret_hash, known in self._keys.items():
            if known.id == record.id:
                self._keys.note(secret_hash, record)
                return

    def recall_application(
        self, name: AppName, *, within: timedelta = timedelta.max
    ) -> ApplicationRef | Absence | None:
        """
        What was last known of that name.

        Args:
            within: how long ago it may have been confirmed.

        Returns:
            The application, `Absence.DELETED`, or `None` when nothing is remembered.
        """
        return self._applications.recall(name, within)

    def recall_key(
        self, secret_hash: bytes, *, within: timedelta = timedelta.max
    ) -> KeyRecord | None:
        """The key with that hash as it was last seen; `within` as above."""
        return self._keys.recall(secret_hash, within)


class Facts(Generic[NameT, FactT]):
    """
    A bounded mapping whose entries know when they were confirmed.

    `capacity` is for how many there is room; those that were confirmed longest ago go.
    """

    def __init__(self, clock: Clock, capacity: int) -> None:
        self._clock = clock
        self._capacity = capacity
        self._facts: dict[NameT, tuple[FactT, float]] = {}

    def note(self, name: NameT, fact: FactT) -> None:
        """Remember what has just been confirmed."""
        # Taken out first, so that the order of the mapping is that of confirmation.
        self._facts.pop(name, None)
        if len(self._facts) >= self._capacity:
            del self._facts[next(iter(self._facts))]
        self._facts[name] = (fact, self._clock.monotonic())

    def forget(self, name: NameT) -> None:
        """Know nothing of it, as before it was noted."""
        self._facts.pop(name, None)

    def recall(self, name: NameT, within: timedelta = timedelta.max) -> FactT | None:
        """What was noted, if that was within this span; else `None`."""
        fact, confirmed_at = self._facts.get(name, (None, 0.0))
        age = self._clock.monotonic() - confirmed_at
        return fact if age < within.total_seconds() else None

    def items(self) -> Iterable[tuple[NameT, FactT]]:
        """All that is remembered, however old."""
        return [(name, fact) for name, (fact, _) in self._facts.items()]
