"""Writing what a batch of news changes, in one transaction, and acting on it after."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.clock import Clock
from relay.hub.events import Arrival, Loss
from relay.ids import (
    ApplicationId,
    ConnectionId,
    ExecutorRef,
    InstanceId,
)
from relay.liveness.effects import OpenRecovery, ReportCollision, ReportUnseen
from relay.liveness.policy import LivenessPolicy
from relay.monitor.draft import Circumstances, Draft
from relay.monitor.flapping import (
    Condensed,
    Histories,
    History,
    condense,
    tell_steady,
)
from relay.monitor.news import News
from relay.monitor.ports import Newcomers, Sockets
from relay.monitor.rows import (
    lock_applications,
    wake_recoveries,
    write_executors,
    write_languages,
    write_recoveries,
)
from relay.monitor.timekeeper import Timekeeper
from relay.records import ApplicationRecord, AuditEntry
from relay.settings import RelaySettings
from relay.store import Store, UnitOfWork
from relay.store.executors import ExecutorKey
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

SUPERSEDED_CODE = 4000
SUPERSEDED_REASON = "superseded by a newer connection of the same executor"
DELETED_CODE = 1008
DELETED_REASON = "application deleted; register it again to reconnect"
COLLISION_SILENCE = timedelta(minutes=1)
SETTLE_INTERVAL = timedelta(seconds=10)

SETTLED_AT_ONCE = 200
"""A proxy that cuts everybody makes everybody flap, and everybody steady at once."""


class Recorder:
    """
    Turns news into rows.

    One batch is one transaction: the rows of the executors are locked, each is turned
    into a liveness state, its news are folded over it, and what follows is written with
    its ledger rows and audit entries. Only when that is certain are superseded sockets
    closed and the recovery engine woken.
    """

    def __init__(
        self,
        *,
        store: Store,
        timekeeper: Timekeeper,
        sockets: Sockets,
        newcomers: Newcomers,
        audit: AuditWriter,
        settings: RelaySettings,
        clock: Clock,
        metrics: Metrics,
        instance_id: InstanceId,
        wake_recovery: Callable[[], None],
    ) -> None:
        self._store = store
        self._timekeeper = timekeeper
        self._sockets = sockets
        self._newcomers = newcomers
        self._audit = audit
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._instance_id = instance_id
        self._wake_recovery = wake_recovery
        self._collisions: dict[ExecutorKey, float] = {}
        self._histories = Histories()
        self._settle_at = float("-inf")

    def is_flapping(self, ref: ExecutorRef) -> bool:
        """Whether that executor comes and goes all the time."""
        return self._histories.is_flapping(ref)

    async def record(self, news: Sequence[News]) -> None:
        """
        Write what `news` change; news of applications that are gone change nothing.

        A socket that was admitted while its application was being deleted is closed.

        May be repeated with the same news when the outcome was unknown: they are stale
        then.

        Args:
            news: in the order of their happening, of any executors; a few hundred at
                most, because their rows stay locked until all are written.

        Raises:
            StoreUnavailableError: nothing, or perhaps all of it, was written.
        """
        if not news:
            return
        by_executor = _group(news)
        keys = list(by_executor)
        application_ids = {application_id for application_id, _ in keys}
        async with self._timekeeper.write() as work:
            await self._newcomers.register(work, application_ids)
            applications = await lock_applications(work, news)
            rows = await work.executors.lock(keys)
            recoveries = await work.recoveries.find_open_many(keys)
            drafts: list[Draft] = []
            astray: list[ConnectionId] = []
            for key, its_news in by_executor.items():
                application = applications.get(key[0])
                if application is None:
                    astray += [
                        each.connection_id
                        for each in its_news
                        if isinstance(each, Arrival)
                    ]
                    continue
                draft = Draft(
                    its_news[0].ref,
                    rows.get(key),
                    recoveries.get(key),
                    self._circumstances(work, application),
                )
                for each in its_news:
                    draft.take(each)
                drafts.append(draft)
            await self._write(work, drafts, applications)
            work.after_commit(lambda: self._act(drafts))
            work.after_commit(lambda: self._show_out(astray))

    async def settle(self) -> None:
        """
        Tell of executors that no longer flap, some at a time; looks now and then only.

        Raises:
            StoreUnavailableError: they have not been told of.
        """
        now = self._clock.monotonic()
        if now < self._settle_at:
            return
        steady = self._histories.list_steady(now)[:SETTLED_AT_ONCE]
        if steady:
            async with self._store.write() as work:
                applications = await work.applications.lock_settings(
                    {history.ref.application.id for history in steady}
                )
                await self._audit.record(
                    work,
                    *(
                        tell_steady(
                            history,
                            is_online=self._sockets.find(history.ref) is not None,
                        )
                        for history in steady
                        if history.ref.application.id in applications
                    ),
                )
            for history in steady:
                self._histories.keep(History(ref=history.ref))
        if len(steady) < SETTLED_AT_ONCE:
            self._settle_at = now + SETTLE_INTERVAL.total_seconds()

    def _circumstances(
        self, work: UnitOfWork, application: ApplicationRecord
    ) -> Circumstances:
        return Circumstances(
            now=work.now,
            instance_id=self._instance_id,
            policy=LivenessPolicy(
                grace=application.executor_timeout,
                fault_grace=self._settings.fault_grace,
            ),
        )

    async def _write(
        self,
        work: UnitOfWork,
        drafts: Sequence[Draft],
        applications: Mapping[ApplicationId, ApplicationRecord],
    ) -> None:
        await write_executors(work, drafts)
        await write_recoveries(work, drafts)
        now = self._clock.monotonic()
        told = [
            condense(self._histories.get(draft.ref), draft.entries, now)
            for draft in drafts
            if draft.entries
        ]
        work.after_commit(lambda: self._remember(told))
        entries = [entry for each in told for entry in each.entries]
        collided = [draft.ref for draft in drafts if self._is_new_collision(draft, now)]
        work.after_commit(lambda: self._remember_collisions(collided, now))
        entries += [engine_entry("executor.collision", ref) for ref in collided]
        if entries:
            await self._audit.record(work, *entries)
        await write_languages(work, drafts, applications)
        woken = await wake_recoveries(work, drafts)
        if woken or any(isinstance(draft.ledger, OpenRecovery) for draft in drafts):
            work.after_commit(self._wake_recovery)

    def _remember(self, told: Sequence[Condensed]) -> None:
        for each in told:
            self._histories.keep(each.history)
            for entry in each.entries:
                _warn(entry)

    def _act(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            for entry in draft.entries:
                self._metrics.transitions.labels(entry.operation).inc()
            for connection_id in draft.superseded:
                newest = self._sockets.find(draft.ref)
                if newest is not None and newest.id == connection_id:
                    # Its successor has gone meanwhile; that it speaks again is on its
                    # way through the inbox.
                    continue
                self._sockets.close_connection(
                    connection_id, Loss.SUPERSEDED, SUPERSEDED_CODE, SUPERSEDED_REASON
                )
            for report in draft.reports:
                if isinstance(report, ReportUnseen):
                    logger.warning(
                        "executor_unseen",
                        application=draft.ref.application.name,
                        executor_id=draft.ref.executor_id,
                        unseen_starts=report.unseen_starts,
                        consequence="this start of Relay does not prolong its grace",
                    )

    def _show_out(self, astray: Sequence[ConnectionId]) -> None:
        for connection_id in astray:
            self._sockets.close_connection(
                connection_id, Loss.DELETED, DELETED_CODE, DELETED_REASON
            )

    def _is_new_collision(self, draft: Draft, now: float) -> bool:
        """Whether to speak of the executor's collision; once a minute at most."""
        if not any(isinstance(report, ReportCollision) for report in draft.reports):
            return False
        told_at = self._collisions.get(draft.ref.key, float("-inf"))
        return now - told_at >= COLLISION_SILENCE.total_seconds()

    def _remember_collisions(self, told: Sequence[ExecutorRef], now: float) -> None:
        since = now - COLLISION_SILENCE.total_seconds()
        recent = {key: at for key, at in self._collisions.items() if at > since}
        self._collisions = recent | {ref.key: now for ref in told}


def _warn(entry: AuditEntry) -> None:
    """Say in the log what an operator should look into."""
    if warning := entry.details.get("warning"):
        logger.warning(
            "executor_sdk_is_old",
            application=entry.details["application_name"],
            executor_id=entry.details["executor_id"],
            language=entry.details.get("language"),
            dbos_version=entry.details.get("dbos_version"),
            warning=warning,
        )
    if entry.operation == "executor.flapping":
        logger.warning(
            "executor_flapped",
            **entry.details,
            consequence="its comings and goings are not audited one by one any more",
        )


def _group(news: Sequence[News]) -> dict[ExecutorKey, list[News]]:
    by_executor: dict[ExecutorKey, list[News]] = {}
    for each in news:
        by_executor.setdefault(each.ref.key, []).append(each)
    return by_executor
