"""Writing what a batch of news changes, in one transaction, and acting on it after."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.clock import Clock
from relay.errors import ConflictError
from relay.hub.events import Arrival, Loss
from relay.ids import ApplicationId, AppVersion, ConnectionId, InstanceId
from relay.liveness.effects import OpenRecovery, ReportCollision, ReportUnseen
from relay.liveness.policy import LivenessPolicy
from relay.monitor.draft import Circumstances, Draft
from relay.monitor.news import News
from relay.monitor.ports import Sockets
from relay.records import ApplicationRecord, ExecutorRecord, RecoveryRecord
from relay.settings import RelaySettings
from relay.store import Store, UnitOfWork
from relay.store.executors import Change, ExecutorKey
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

SUPERSEDED_CODE = 4000
SUPERSEDED_REASON = "superseded by a newer connection of the same executor"
DELETED_CODE = 1008
DELETED_REASON = "application deleted; register it again to reconnect"
COLLISION_SILENCE = timedelta(minutes=1)


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
        sockets: Sockets,
        audit: AuditWriter,
        settings: RelaySettings,
        clock: Clock,
        metrics: Metrics,
        instance_id: InstanceId,
        wake_recovery: Callable[[], None],
    ) -> None:
        self._store = store
        self._sockets = sockets
        self._audit = audit
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._instance_id = instance_id
        self._wake_recovery = wake_recovery
        self._collisions: dict[ExecutorKey, float] = {}

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
        async with self._store.write() as work:
            applications = await work.applications.lock_settings(
                {application_id for application_id, _ in keys}
            )
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
        await _write_executors(work, drafts)
        await _write_recoveries(work, drafts)
        entries = [entry for draft in drafts for entry in draft.entries]
        entries += [
            engine_entry("executor.collision", draft.ref)
            for draft in drafts
            if self._has_new_collision(draft)
        ]
        if entries:
            await self._audit.record(work, *entries)
        for application_id, language in _languages(drafts).items():
            if language == applications[application_id].language:
                continue
            if not await work.applications.set_language(application_id, language):
                raise AssertionError("a locked row of an application has gone")
        woken = 0
        for application_id, app_version in _connected_versions(drafts):
            woken += await work.recoveries.wake(application_id, app_version)
        if woken or any(isinstance(draft.ledger, OpenRecovery) for draft in drafts):
            work.after_commit(self._wake_recovery)

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

    def _has_new_collision(self, draft: Draft) -> bool:
        """Whether to speak of the executor's collision; once a minute at most."""
        if not any(isinstance(report, ReportCollision) for report in draft.reports):
            return False
        now = self._clock.monotonic()
        since = now - COLLISION_SILENCE.total_seconds()
        recent = {key: at for key, at in self._collisions.items() if at > since}
        self._collisions = recent
        if draft.ref.key in recent:
            return False
        recent[draft.ref.key] = now
        return True


async def _write_executors(work: UnitOfWork, drafts: Sequence[Draft]) -> None:
    new: list[ExecutorRecord] = []
    changed: list[Change] = []
    for draft in drafts:
        before, after = draft.before, draft.after
        if after is None or after is before:
            continue
        if before is None:
            new.append(after)
        else:
            changed.append(Change(after, before.epoch, before.status))
    written = await work.executors.insert_many(new)
    written |= await work.executors.save_many(changed)
    if len(written) != len(new) + len(changed):
        raise ConflictError("rows of executors changed while they were locked")


async def _write_recoveries(work: UnitOfWork, drafts: Sequence[Draft]) -> None:
    opened: list[RecoveryRecord] = []
    for draft in drafts:
        if draft.ledger is None:
            continue
        if draft.recovery is not None:
            await _change_recovery(work, draft, draft.recovery)
        elif wanted := draft.recovery_after(None):
            opened.append(wanted)
    if len(await work.recoveries.insert_many(opened)) != len(opened):
        raise ConflictError("recoveries were opened for executors that were alive")


async def _change_recovery(
    work: UnitOfWork, draft: Draft, found: RecoveryRecord | None
) -> None:
    while found is not None:
        wanted = draft.recovery_after(found)
        if wanted is None or await work.recoveries.save(
            wanted, expected_revision=found.revision
        ):
            return
        # The engine was faster: decide again from what it wrote. Each turn of this
        # loop is a step that somebody else has made, so it ends.
        found = await work.recoveries.find_open(draft.ref.key)
    if isinstance(draft.ledger, OpenRecovery):
        raise ConflictError(f"the open recovery of {draft.ref} has just ended")


def _group(news: Sequence[News]) -> dict[ExecutorKey, list[News]]:
    by_executor: dict[ExecutorKey, list[News]] = {}
    for each in news:
        by_executor.setdefault(each.ref.key, []).append(each)
    return by_executor


def _languages(drafts: Sequence[Draft]) -> dict[ApplicationId, str]:
    """The language of each application's executor that connected last and said so."""
    return {
        draft.ref.application.id: draft.after.language
        for draft in drafts
        if draft.has_connected and draft.after and draft.after.language
    }


def _connected_versions(
    drafts: Sequence[Draft],
) -> Sequence[tuple[ApplicationId, AppVersion]]:
    """Which versions of which applications have a new executor, each once."""
    return sorted(
        {
            (draft.ref.application.id, draft.after.app_version)
            for draft in drafts
            if draft.has_connected and draft.after
        }
    )
