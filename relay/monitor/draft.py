"""
The next version of one executor's row, and what has to be written next to it.

Does no I/O and reads no clock: news go in, the liveness machine decides, and its
effects become changes of records. Nothing is written before every piece of news of a
batch has been taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, assert_never

from relay.audit import engine_entry
from relay.hub.events import Arrival, Departure
from relay.ids import ConnectionId, ExecutorRef, InstanceId, RecoveryId, new_id
from relay.liveness.effects import (
    CloseConnection,
    Effect,
    ExtendGrace,
    OpenRecovery,
    RecordDead,
    RecordDisconnected,
    RecordHealthy,
    ReportCollision,
    ReportUnseen,
    ReturnFromRecovery,
)
from relay.liveness.machine import step
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import ExecutorStatus, Grace
from relay.monitor.belief import state_of
from relay.monitor.news import Ending, News, event_of
from relay.monitor.wording import arrival_details, complaint_of, loss_details
from relay.records import AuditEntry, ExecutorRecord, RecoveryRecord
from relay.recovery.transitions import open_recovery, returned


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What holds for every executor of an application while one batch is written."""

    now: datetime
    instance_id: InstanceId
    policy: LivenessPolicy


class Draft:
    """
    One executor while a batch is being worked out.

    Attributes:
        before: The row as it was locked; `None` when there is none.
        after: The row to write; `before` itself when nothing changed.
        recovery: The open row of the ledger as it was read; `None` when there is none.
        ledger: What is to happen to that row, if anything.
        entries: Audit entries of the status changes, in the order of their happening.
        reports: What is to be said besides.
        has_connected: Whether the executor came on line, however it ended.
    """

    def __init__(
        self,
        ref: ExecutorRef,
        before: ExecutorRecord | None,
        recovery: RecoveryRecord | None,
        circumstances: Circumstances,
    ) -> None:
        self.ref = ref
        self.before = before
        self.after = before
        self.recovery = recovery
        self.ledger: OpenRecovery | ReturnFromRecovery | None = None
        self.entries: list[AuditEntry] = []
        self.reports: list[ReportCollision | ReportUnseen] = []
        self.has_connected = False
        self._circumstances = circumstances
        self._now = circumstances.now
        self._recovery_id = recovery.id if recovery else RecoveryId(new_id())
        self._lost_at: datetime | None = None
        self._superseded: list[ConnectionId] = []

    @property
    def superseded(self) -> list[ConnectionId]:
        """
        Connections to close once the row is written.

        Never the one that the row names: when a batch of unknown outcome is repeated,
        an old arrival in it briefly passes for the newest.
        """
        current = self.after.connection_id if self.after else None
        return [closing for closing in self._superseded if closing != current]

    def take(self, news: News) -> None:
        """Let `news` change the row, as far as it is not stale."""
        event = event_of(news, at=self._now)
        result = step(state_of(self.after), event, self._circumstances.policy)
        for effect in result.effects:
            self._apply(effect, news)

    def recovery_after(self, found: RecoveryRecord | None) -> RecoveryRecord | None:
        """
        The ledger's row as it should be next to `after`.

        Args:
            found: The open row as it is at the moment of writing.

        Returns:
            `found` itself, or `None`, when there is nothing to write.
        """
        match self.ledger:
            case None:
                return found
            case ReturnFromRecovery():
                return returned(found, now=self._now) if found else None
            case OpenRecovery(epoch=epoch):
                opened = open_recovery(
                    recovery_id=self._recovery_id,
                    executor=self.ref,
                    app_version=_row(self.after).app_version,
                    epoch=epoch,
                    lost_at=self._lost_at,
                    now=self._now,
                )
                # Nothing should be open for an executor that was alive; if something
                # is, it becomes the one row of this death.
                return (
                    replace(opened, id=found.id, revision=found.revision)
                    if found
                    else opened
                )
            case _:
                assert_never(self.ledger)

    def _apply(self, effect: Effect, news: News) -> None:
        match effect:
            case RecordHealthy() if isinstance(news, Arrival):
                self._record_healthy(effect, news)
            case RecordDisconnected() if isinstance(news, Ending):
                self._record_disconnected(effect, news)
            case ExtendGrace():
                self.after = _with_grace(
                    _row(self.after), effect.grace, effect.unseen_starts
                )
            case RecordDead():
                self._record_dead()
            case OpenRecovery() | ReturnFromRecovery():
                self.ledger = effect
            case CloseConnection():
                self._superseded.append(effect.connection_id)
            case ReportCollision() | ReportUnseen():
                self.reports.append(effect)
            case RecordHealthy() | RecordDisconnected():
                raise TypeError(f"{news} cannot order {effect}")
            case _:
                assert_never(effect)

    def _record_healthy(self, effect: RecordHealthy, news: Arrival) -> None:
        old = self.after
        info = news.info
        self.after = ExecutorRecord(
            ref=self.ref,
            app_version=info.application_version,
            hostname=info.hostname,
            language=info.language,
            dbos_version=info.dbos_version,
            metadata=info.metadata,
            status=ExecutorStatus.HEALTHY,
            status_since=self._now,
            created_at=old.created_at if old else self._now,
            last_seen_at=news.at,
            peer_address=news.peer_address,
            owner=self._circumstances.instance_id,
            epoch=effect.epoch,
            connection_id=effect.connection_id,
            grace_started_at=None,
            grace_is_fault=False,
            dead_after=None,
            unseen_starts=0,
            last_error=old.last_error if old else None,
        )
        self.has_connected = True

        details = {"epoch": effect.epoch, **arrival_details(news)}
        if old is None:
            self._note("executor.connect", news.peer_address, details)
            return
        details["was"] = old.status.value
        if self.recovery:
            details["recovery_was"] = self.recovery.state.value
        self._note(
            "executor.reconnect",
            news.peer_address,
            details,
            recovery_id=self.recovery.id if self.recovery else None,
        )

    def _record_disconnected(self, effect: RecordDisconnected, news: Ending) -> None:
        old = _row(self.after)
        grace = effect.grace
        self.after = replace(
            _with_grace(old, grace, effect.unseen_starts),
            status=ExecutorStatus.DISCONNECTED,
            status_since=self._now,
            owner=self._circumstances.instance_id,
        )
        if isinstance(news, Departure):
            self.after = replace(
                self.after,
                last_seen_at=max(old.last_seen_at, news.last_seen_at),
                last_error=complaint_of(news) or old.last_error,
            )
        self._note(
            "executor.disconnect",
            news.peer_address if isinstance(news, Departure) else "",
            {
                "epoch": old.epoch,
                **loss_details(news),
                "grace_secs": (grace.deadline - grace.started_at).total_seconds(),
                "dead_after": grace.deadline.isoformat(),
                "is_fault": grace.is_fault,
            },
        )

    def _record_dead(self) -> None:
        old = _row(self.after)
        self._lost_at = old.status_since
        self.after = replace(
            old, status=ExecutorStatus.DEAD, status_since=self._now, dead_after=None
        )
        self._note(
            "executor.dead",
            "",
            {
                "epoch": old.epoch,
                "app_version": old.app_version,
                "hostname": old.hostname,
                "disconnected_at": old.status_since.isoformat(),
                "dead_after": old.dead_after.isoformat() if old.dead_after else None,
                "is_fault": old.grace_is_fault,
            },
            recovery_id=self._recovery_id,
        )

    def _note(
        self,
        operation: str,
        source_ip: str,
        details: Mapping[str, Any],
        *,
        recovery_id: RecoveryId | None = None,
    ) -> None:
        facts = {name: value for name, value in details.items() if value is not None}
        self.entries.append(
            engine_entry(
                operation,
                self.ref,
                source_ip=source_ip,
                recovery_id=recovery_id,
                **facts,
            )
        )


def _row(record: ExecutorRecord | None) -> ExecutorRecord:
    if record is None:
        raise ValueError("there is no row of an unknown executor")
    return record


def _with_grace(
    record: ExecutorRecord, grace: Grace, unseen_starts: int
) -> ExecutorRecord:
    return replace(
        record,
        grace_started_at=grace.started_at,
        grace_is_fault=grace.is_fault,
        dead_after=grace.deadline,
        unseen_starts=unseen_starts,
    )
