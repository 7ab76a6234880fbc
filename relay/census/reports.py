"""What the census found, for the operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from relay.census.counting import SHOWN_OWNERS
from relay.ids import ApplicationRef
from relay.records import (
    CensusRecord,
    DisputeRecord,
    OwnerRecord,
    TombstoneRecord,
)
from relay.store import Store, UnitOfWork

_REOPENED: Final = 100
"""Executors in a report that were found owning work again; the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusReport:
    """
    What the last census of one application found.

    Attributes:
        census: the last one; `None` as long as nobody has answered one.
        owners: whose pending work nobody will recover by themselves, the longest known
            first; `SHOWN_OWNERS` at most.
        reopened: executors whose record was deleted and who owned work again, the
            latest first.
        dispute: who reads which database, if not all read one.
    """

    application: ApplicationRef
    census: CensusRecord | None
    owners: Sequence[OwnerRecord]
    reopened: Sequence[TombstoneRecord]
    dispute: DisputeRecord | None


class CensusReports:
    """Reads what the census and the comparison have written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, application: ApplicationRef) -> CensusReport:
        """The report of one application."""
        async with self._store.read() as work:
            return await _report(work, application)

    async def list_all(self) -> Sequence[CensusReport]:
        """The reports of all applications, by name."""
        async with self._store.read() as work:
            records = await work.applications.list_all()
            refs = sorted((record.ref for record in records), key=lambda ref: ref.name)
            return [await _report(work, ref) for ref in refs]


async def _report(work: UnitOfWork, application: ApplicationRef) -> CensusReport:
    return CensusReport(
        application=application,
        census=await work.censuses.find(application.id),
        owners=await work.unknown_owners.list_by_application(
            application.id, limit=SHOWN_OWNERS
        ),
        reopened=await work.tombstones.list_reopened(application.id, limit=_REOPENED),
        dispute=await work.disputes.find(application.id),
    )
