"""A regular look over everything: silent executors, forgotten sleepers, figures."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.dispatch import Peers
from relay.ids import ExecutorRef, RecoveryId
from relay.records import (
    OPEN_STATES,
    ApplicationRecord,
    AuditStatus,
    RecoveryRecord,
    RecoveryState,
)
from relay.recovery.reports import raise_alarm
from relay.store import Store
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

SURVEY_INTERVAL: Final = timedelta(seconds=15)
WAITING_ALARM: Final = timedelta(minutes=5)

_ALARM_LIMIT: Final = 1000


class Survey:
    """
    Catches what no event brings.

    Executors that stopped answering are told in the audit log, once a silence; the hub
    probes them. Rows that wait for somebody who is there are made due: an executor may
    have connected, or begun to answer, while an attempt was about to put its row to
    sleep.
    """

    def __init__(
        self, *, store: Store, audit: AuditWriter, peers: Peers, metrics: Metrics
    ) -> None:
        self._store = store
        self._audit = audit
        self._peers = peers
        self._metrics = metrics
        self._silent: set[ExecutorRef] = set()
        self._alarmed: set[RecoveryId] = set()

    async def run(self) -> None:
        """
        Look once.

        Raises:
            StoreUnavailableError: what was not done is done the next time.
        """
        async with self._store.read() as work:
            applications = await work.applications.list_all()
            measures = await work.recoveries.measure()
            waiting: Sequence[RecoveryRecord] = ()
            if RecoveryState.WAITING in measures:
                waiting = await work.recoveries.list_all(
                    states={RecoveryState.WAITING}, limit=_ALARM_LIMIT
                )
            now = work.now
        self._show(measures, now)
        self._raise_alarms(waiting, now)
        await self._tell_silence(applications)
        if measures.keys() & {RecoveryState.WAITING, RecoveryState.STRANDED}:
            await self._wake_sleepers(applications)

    def _show(
        self, measures: Mapping[RecoveryState, tuple[int, datetime]], now: datetime
    ) -> None:
        for state in OPEN_STATES:
            number, oldest = measures.get(state, (0, now))
            age = max(0.0, (now - oldest).total_seconds())
            self._metrics.recoveries.labels(state.value).set(number)
            self._metrics.recovery_oldest_seconds.labels(state.value).set(age)

    def _raise_alarms(self, waiting: Sequence[RecoveryRecord], now: datetime) -> None:
        late = [r for r in waiting if now - r.updated_at > WAITING_ALARM]
        for record in late:
            if record.id not in self._alarmed:
                raise_alarm("recovery_waiting", record)
        self._alarmed = {record.id for record in late}

    async def _tell_silence(self, applications: Iterable[ApplicationRecord]) -> None:
        silent = {
            peer.ref
            for application in applications
            for peer in self._peers.list_peers(application.ref.id)
            if not peer.is_responsive
        }
        if news := silent - self._silent:
            entries = [
                engine_entry("executor.unresponsive", ref, status=AuditStatus.FAILURE)
                for ref in sorted(news, key=lambda ref: ref.key)
            ]
            async with self._store.write() as work:
                await self._audit.record(work, *entries)
        self._silent = silent

    async def _wake_sleepers(self, applications: Iterable[ApplicationRecord]) -> None:
        present = {
            (application.ref.id, peer.info.application_version)
            for application in applications
            for peer in self._peers.list_peers(application.ref.id)
            if peer.is_responsive
        }
        if not present:
            return
        async with self._store.write() as work:
            for application_id, app_version in sorted(present):
                await work.recoveries.wake(application_id, app_version)
