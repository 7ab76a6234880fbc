"""Disputes: known at once, written down, told, and ended."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.census import sides
from relay.dispatch import Peers
from relay.ids import ApplicationId, ApplicationRef, ExecutorId, ExecutorRef
from relay.records import AuditStatus, DisputeRecord, DisputeSide
from relay.store import Store
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

_SHOWN_IDS: Final = 10
_NOBODY: Final = DisputeSide(frozenset(), 0)


class Disputes:
    """
    The applications whose executors read different databases.

    What is known here is at most one `review` ahead of the rows.
    """

    def __init__(
        self, *, store: Store, audit: AuditWriter, peers: Peers, metrics: Metrics
    ) -> None:
        self._store = store
        self._audit = audit
        self._peers = peers
        self._metrics = metrics
        self._known: dict[ApplicationId, DisputeRecord] = {}
        self._written: dict[ApplicationId, DisputeRecord] = {}

    def __contains__(self, application_id: ApplicationId) -> bool:
        return application_id in self._known

    async def restore(self) -> None:
        """
        Know the disputes of the last run again; before anything is deleted.

        Raises:
            StoreUnavailableError: they are not known.
        """
        async with self._store.read() as work:
            found = await work.disputes.list_all()
        self._known = {dispute.application_id: dispute for dispute in found}
        self._written = dict(self._known)
        self._count()

    def keep(self, application_ids: Collection[ApplicationId]) -> None:
        """Forget those of other applications: they were deleted."""
        for gone in self._known.keys() - set(application_ids):
            del self._known[gone]
            self._written.pop(gone, None)
        self._count()

    def place_of(self, ref: ExecutorRef) -> int | None:
        """The place of the side on which an executor was last seen."""
        dispute = self._known.get(ref.application.id)
        return sides.place_of(dispute, ref.executor_id) if dispute else None

    def seat(
        self,
        application_id: ApplicationId,
        connected: Mapping[ExecutorId, int],
        *,
        now: datetime,
    ) -> None:
        """
        Take note of who is connected on which side; two sides are a dispute.

        It counts from this moment, and not from when it is written: a deletion may be
        about to happen.
        """
        dispute = self._known.get(application_id)
        if dispute is None and len(set(connected.values())) > 1:
            dispute = DisputeRecord(
                application_id=application_id, since=now, sides=(_NOBODY, _NOBODY)
            )
        if dispute is not None:
            self._known[application_id] = sides.seated(dispute, connected)

    async def review(self, application: ApplicationRef) -> bool:
        """
        Write down the dispute of an application as it is now, or end it.

        Returns:
            Whether it has ended.

        Raises:
            StoreUnavailableError: nothing has changed.
        """
        dispute = self._known.get(application.id)
        if dispute is None:
            return False
        standings = await self._find_standings(application, dispute)
        if sides.is_over(dispute, standings):
            await self._end(application, dispute)
            return True
        dispute = sides.without_gone(dispute, standings)
        self._known[application.id] = dispute
        if dispute != self._written.get(application.id):
            await self._write(application, dispute)
        return False

    async def _find_standings(
        self, application: ApplicationRef, dispute: DisputeRecord
    ) -> Mapping[ExecutorId, sides.Standing]:
        first, second = (side.executor_ids for side in dispute.sides)
        async with self._store.read() as work:
            rows = await work.owner_facts.find_standings(application.id, first | second)
        return {
            id_: sides.standing_of(
                rows.get(id_),
                is_online=self._peers.is_online(ExecutorRef(application, id_)),
            )
            for id_ in first | second
        }

    async def _write(self, application: ApplicationRef, dispute: DisputeRecord) -> None:
        async with self._store.write() as work:
            if not await work.applications.lock_settings({application.id}):
                return
            if await work.disputes.save(dispute):
                await self._audit.record(
                    work,
                    engine_entry(
                        "census.disagree",
                        application,
                        status=AuditStatus.FAILURE,
                        executors=_show(dispute),
                        warning="executors read different databases; no record of a"
                        " dead executor is deleted until they agree",
                    ),
                )
                work.after_commit(lambda: _raise_alarm(application, dispute))
        self._written[application.id] = dispute
        self._count()

    async def _end(self, application: ApplicationRef, dispute: DisputeRecord) -> None:
        async with self._store.write() as work:
            if await work.disputes.delete(application.id):
                await self._audit.record(
                    work,
                    engine_entry(
                        "census.agree",
                        application,
                        executors=_show(dispute),
                        since=dispute.since,
                    ),
                )
        # The application may have been deleted meanwhile.
        self._known.pop(application.id, None)
        self._written.pop(application.id, None)
        self._count()

    def _count(self) -> None:
        self._metrics.disputed_applications.set(len(self._known))


def _show(dispute: DisputeRecord) -> Sequence[Sequence[ExecutorId]]:
    """Some of those on each side."""
    return [sorted(side.executor_ids)[:_SHOWN_IDS] for side in dispute.sides]


def _raise_alarm(application: ApplicationRef, dispute: DisputeRecord) -> None:
    logger.error(
        "databases_disagree",
        organization=application.organization,
        application=application.name,
        executors=_show(dispute),
    )
