"""Applications that are let in on first contact, before they have a row."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from relay.audit import AuditWriter
from relay.errors import ConflictError, StoreUnavailableError
from relay.ids import ApplicationId, ApplicationRef, AppName
from relay.records import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditStatus,
    application_target,
)
from relay.registry.actor import LOCAL_ORGANIZATION
from relay.registry.applications import new_application, new_ref
from relay.registry.memory import Absence, Memory
from relay.store import UnitOfWork

CAPACITY = 1000
"""Names that may wait for their row: anybody may knock with one in local mode."""

BATCH = 100

REGISTERED = "application.create"


@dataclass(frozen=True, slots=True)
class _Newcomer:
    ref: ApplicationRef
    peer_address: str


class Newcomers:
    """
    Applications that wait to be registered.

    Each is given its identity at the door. While the store answers, its row is written
    in the same moment; while it is away its executors come in all the same, and the row
    is written before the first thing that is recorded about them.

    Whoever writes first decides which application a name belongs to. If that is another
    one than a newcomer's, or the name turns out to have been deleted, the newcomer ends
    unregistered, and its executors are shown out as those of any application that is
    gone: they redial, and are asked about anew.
    """

    def __init__(self, memory: Memory, audit: AuditWriter) -> None:
        self._memory = memory
        self._audit = audit
        self._waiting: dict[AppName, _Newcomer] = {}

    def welcome(self, name: AppName, peer_address: str) -> ApplicationRef:
        """
        The application of that name, which is to have a row soon.

        Raises:
            StoreUnavailableError: too many wait already.
        """
        newcomer = self._waiting.get(name)
        if newcomer is None:
            if len(self._waiting) >= CAPACITY:
                raise StoreUnavailableError("too many applications wait for it")
            newcomer = self._waiting[name] = _Newcomer(new_ref(name), peer_address)
        return newcomer.ref

    def list_ids(self) -> Collection[ApplicationId]:
        """Some of those who wait: as many as one transaction should register."""
        waiting = islice(self._waiting.values(), BATCH)
        return {newcomer.ref.id for newcomer in waiting}

    async def register(
        self, work: UnitOfWork, application_ids: Collection[ApplicationId]
    ) -> None:
        """Give those of them that wait their row, in this transaction."""
        for newcomer in list(self._waiting.values()):
            if newcomer.ref.id in application_ids:
                await self._register(work, newcomer)

    async def _register(self, work: UnitOfWork, newcomer: _Newcomer) -> None:
        name = newcomer.ref.name
        outcome: ApplicationRef | Absence = newcomer.ref
        if await work.applications.is_deleted(LOCAL_ORGANIZATION, name):
            outcome = Absence.DELETED
        else:
            try:
                await work.applications.insert(
                    new_application(newcomer.ref, created_by=work)
                )
            except ConflictError:
                holder = await work.applications.find(LOCAL_ORGANIZATION, name)
                outcome = holder.ref if holder else Absence.UNREGISTERED
            else:
                await self._audit.record(work, _entry(newcomer))
        work.after_commit(lambda: self._settle(newcomer, outcome))

    def _settle(self, newcomer: _Newcomer, outcome: ApplicationRef | Absence) -> None:
        if self._waiting.get(newcomer.ref.name) is newcomer:
            del self._waiting[newcomer.ref.name]
        self._memory.learn_application(newcomer.ref.name, outcome)


def _entry(newcomer: _Newcomer) -> AuditEntry:
    name = newcomer.ref.name
    return AuditEntry(
        organization=LOCAL_ORGANIZATION,
        operation=REGISTERED,
        status=AuditStatus.SUCCESS,
        subject=RELAY_SUBJECT,
        target=application_target(name),
        source_ip=newcomer.peer_address,
        details={
            "application_name": name,
            "private_mode": False,
            "first_contact": True,
        },
    )
