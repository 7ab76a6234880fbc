"""The operator's side of the ledger: look, retry, abandon, ask for a recovery."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from relay.audit import AuditWriter
from relay.errors import ConflictError, InvalidInputError, NotFoundError
from relay.ids import (
    ApplicationRef,
    AppVersion,
    ExecutorId,
    ExecutorRef,
    RecoveryId,
    new_id,
)
from relay.liveness.states import ExecutorStatus
from relay.protocol.messages import IDENTITY_LIMIT_BYTES, is_identity
from relay.records import (
    OPEN_STATES,
    AuditEntry,
    AuditRecord,
    AuditStatus,
    AuditSubject,
    RecoveryRecord,
    RecoveryState,
    application_target,
)
from relay.recovery import transitions
from relay.recovery.opening import dead_row
from relay.recovery.suspects import Suspect, find_suspects
from relay.store import Store, UnitOfWork

REASON_LIMIT_CHARS: Final = 1000
IDENTITY_LIMIT_CHARS: Final = 512
"""As long as what an executor may say about itself."""

SHORTEST_BEGINNING_CHARS: Final = 4
"""Of an id that is not written out."""

_SHOWN_IDS: Final = 10
_ENTRIES_AT_ONCE: Final = 1000
"""More than the losses that one transaction records."""


@dataclass(frozen=True, slots=True)
class RecoveryStory:
    """
    A recovery and every audit entry of it, oldest first.

    Before them stands how its executor was lost, if the log still knows.
    """

    record: RecoveryRecord
    entries: Sequence[AuditRecord]
    suspects: Sequence[Suspect]


class Ledger:
    """
    Reads the ledger and changes rows on an operator's word.

    It wakes nobody: the engine finds what has become due within a second, even when the
    word came from another process. `by` and `source_ip` say in the audit log whose word
    it was. Refused calls change nothing and write nothing.
    """

    def __init__(self, store: Store, audit: AuditWriter) -> None:
        self._store = store
        self._audit = audit

    async def list_recoveries(
        self,
        application: ApplicationRef,
        *,
        states: Collection[RecoveryState] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[RecoveryRecord]:
        """The recoveries of one application, newest first; `None` is every state."""
        async with self._store.read() as work:
            return await work.recoveries.list_by_application(
                application.id, states=states, limit=limit, offset=offset
            )

    async def list_all(
        self, *, states: Collection[RecoveryState] | None = None, limit: int = 100
    ) -> Sequence[RecoveryRecord]:
        """The recoveries of all applications, newest first."""
        async with self._store.read() as work:
            return await work.recoveries.list_all(states=states, limit=limit)

    async def get(
        self, recovery_id: RecoveryId, *, application: ApplicationRef | None = None
    ) -> RecoveryStory:
        """
        One recovery with its story.

        Args:
            application: if given, recoveries of others do not exist.

        Raises:
            NotFoundError: there is no such recovery.
        """
        async with self._store.read() as work:
            record = await _get(work, recovery_id, application)
            entries = await work.audit.list_by_recovery(recovery_id)
            before = await _find_loss(work, record, entries)
            suspects = await find_suspects(work, [record])
        return RecoveryStory(record, [*before, *entries], suspects[record.id])

    async def find_suspects(
        self, records: Collection[RecoveryRecord]
    ) -> Mapping[RecoveryId, Sequence[Suspect]]:
        """The suspects of the crash brake in each of these recoveries; maybe none."""
        async with self._store.read() as work:
            return await find_suspects(work, records)

    async def identify(self, beginning: str) -> RecoveryId:
        """
        The id of the one recovery whose id begins like this.

        Raises:
            NotFoundError: there is none.
            InvalidInputError: there are several, or it is too short to mean one.
        """
        async with self._store.read() as work:
            found = await work.recoveries.list_ids(beginning, limit=_SHOWN_IDS + 1)
        if not found:
            raise NotFoundError("recovery", beginning)
        if beginning in found:
            return RecoveryId(beginning)
        if len(beginning) < SHORTEST_BEGINNING_CHARS:
            raise InvalidInputError(
                "path.recoveryId",
                f"give at least {SHORTEST_BEGINNING_CHARS} characters of the id",
                beginning,
            )
        if len(found) > 1:
            more = ", …" if len(found) > _SHOWN_IDS else ""
            raise InvalidInputError(
                "path.recoveryId",
                f"several ids begin like this: {', '.join(found[:_SHOWN_IDS])}{more}",
                beginning,
            )
        return found[0]

    async def retry(
        self,
        recovery_id: RecoveryId,
        *,
        by: AuditSubject,
        source_ip: str = "",
        application: ApplicationRef | None = None,
    ) -> RecoveryRecord:
        """
        Make an open recovery due now, as if for the first time.

        If the crash brake slowed it down, its suspects are counted anew.

        Raises:
            NotFoundError: there is no such recovery.
            ConflictError: it is closed, being moved to another version, or being worked
                on at this moment.
        """
        async with self._store.write() as work:
            record = await _get_open(work, recovery_id, application)
            if record.state is RecoveryState.MIGRATING:
                raise ConflictError(
                    f"recovery {recovery_id} is being moved to another version; it goes"
                    " on by itself when that is over"
                )
            if record.claimed_by is not None:
                raise ConflictError(
                    f"recovery {recovery_id} is being worked on at this moment"
                )
            after = await _save(work, transitions.released(record, now=work.now))
            await work.workflow_losses.forget(
                record.executor.application.id, record.suspect_ids
            )
            await self._note(
                work, after, "recovery.release", by, source_ip, was=record.state.value
            )
        return after

    async def abandon(
        self,
        recovery_id: RecoveryId,
        reason: str,
        *,
        by: AuditSubject,
        source_ip: str = "",
        application: ApplicationRef | None = None,
    ) -> RecoveryRecord:
        """
        Close an open recovery for good, whatever it is doing.

        The executor's record and its work stay as they are. An order that is out is not
        called back; its outcome is dropped. `order` can open another recovery later.

        Raises:
            NotFoundError: there is no such recovery.
            ConflictError: it is closed already.
            InvalidInputError: there is no reason, or it is too long.
        """
        reason = reason.strip()
        if not reason:
            raise InvalidInputError("body.reason", "must not be empty", reason)
        if len(reason) > REASON_LIMIT_CHARS:
            raise InvalidInputError(
                "body.reason", f"must have at most {REASON_LIMIT_CHARS} characters"
            )
        _check_printable("body.reason", reason)
        async with self._store.write() as work:
            record = await _get_open(work, recovery_id, application)
            after = await _save(
                work, transitions.abandoned(record, reason, now=work.now)
            )
            await self._note(
                work,
                after,
                "recovery.abandon",
                by,
                source_ip,
                was=record.state.value,
                reason=reason,
            )
        return after

    async def order(
        self,
        application: ApplicationRef,
        executor_id: ExecutorId,
        app_version: AppVersion,
        *,
        by: AuditSubject,
        source_ip: str = "",
    ) -> RecoveryRecord:
        """
        Open a recovery that no death has opened.

        For executors that Relay never saw, whose record was deleted, or whose recovery
        was abandoned or ended unverified. An unknown executor gets a DEAD row, which
        guards the order like any other, and does not make it a known one.

        Raises:
            NotFoundError: there is no such application.
            ConflictError: the executor is not DEAD, or has an open recovery.
            InvalidInputError: the id or the version is empty or too long, or a stranger
                of that id owns work of another version.
        """
        check_identity("body.executorId", executor_id)
        check_identity("body.appVersion", app_version)
        ref = ExecutorRef(application, executor_id)
        async with self._store.write() as work:
            if not await work.applications.lock_settings({application.id}):
                raise NotFoundError("application", application.name)
            known = (await work.executors.lock([ref.key])).get(ref.key)
            if known is None:
                await _check_version(work, ref, app_version)
                known = dead_row(ref, app_version, work.now)
                await work.executors.insert(known)
            elif known.status is not ExecutorStatus.DEAD:
                raise ConflictError(
                    f"executor {executor_id} is {known.status.value}: only work of"
                    " DEAD executors is recovered"
                )
            if opened := await work.recoveries.find_open(ref.key):
                raise ConflictError(
                    f"executor {executor_id} has an open recovery, {opened.id}"
                )
            record = transitions.open_recovery(
                recovery_id=RecoveryId(new_id()),
                executor=ref,
                app_version=app_version,
                epoch=known.epoch,
                lost_at=None,
                now=work.now,
            )
            await work.recoveries.insert(record)
            await self._note(work, record, "recovery.request", by, source_ip)
        return record

    async def _note(
        self,
        work: UnitOfWork,
        record: RecoveryRecord,
        operation: str,
        by: AuditSubject,
        source_ip: str,
        **details: str,
    ) -> None:
        application = record.executor.application
        await self._audit.record(
            work,
            AuditEntry(
                organization=application.organization,
                operation=operation,
                status=AuditStatus.SUCCESS,
                subject=by,
                target=application_target(application.name),
                source_ip=source_ip,
                details={
                    "application_name": application.name,
                    "executor_id": record.executor.executor_id,
                    "app_version": record.app_version,
                    **details,
                },
                recovery_id=record.id,
            ),
        )


async def _check_version(
    work: UnitOfWork, ref: ExecutorRef, app_version: AppVersion
) -> None:
    """
    Refuse a version that the census has not found with a stranger it knows.

    Nothing would be pending, and that would be "verified". Before a census has found
    the stranger, only the end of the recovery can say so.
    """
    versions = await work.unknown_owners.list_versions(ref.key)
    if versions and app_version not in versions:
        raise InvalidInputError(
            "body.appVersion",
            f"executor {ref.executor_id} owns pending work of version"
            f" {', '.join(versions[:_SHOWN_IDS])}, says the census, and none of this",
            app_version,
        )


async def _get(
    work: UnitOfWork, recovery_id: RecoveryId, application: ApplicationRef | None
) -> RecoveryRecord:
    record = await work.recoveries.find(recovery_id)
    if record is None or (
        application is not None and record.executor.application.id != application.id
    ):
        raise NotFoundError("recovery", recovery_id)
    return record


async def _find_loss(
    work: UnitOfWork, record: RecoveryRecord, story: Sequence[AuditRecord]
) -> Sequence[AuditRecord]:
    """
    The entry of the disconnect that this death followed, if there is one.

    A disconnect belongs to no recovery yet. The death says when it was; entries of one
    instant are those of one transaction.
    """
    deaths = [r.entry for r in story if r.entry.operation == "executor.dead"]
    if not deaths or "disconnected_at" not in deaths[0].details:
        return []
    lost_at = datetime.fromisoformat(deaths[0].details["disconnected_at"])
    application = record.executor.application
    losses = await work.audit.list_entries(
        application.organization,
        start=lost_at,
        end=lost_at + timedelta(microseconds=1),
        operation="executor.disconnect",
        target=application.name,
        limit=_ENTRIES_AT_ONCE,
    )
    return [
        loss
        for loss in losses
        if loss.entry.details.get("executor_id") == record.executor.executor_id
    ][:1]


async def _get_open(
    work: UnitOfWork, recovery_id: RecoveryId, application: ApplicationRef | None
) -> RecoveryRecord:
    record = await _get(work, recovery_id, application)
    if record.state not in OPEN_STATES:
        raise ConflictError(f"recovery {recovery_id} is {record.state.value} already")
    return record


async def _save(work: UnitOfWork, record: RecoveryRecord) -> RecoveryRecord:
    if not await work.recoveries.save(record, expected_revision=record.revision):
        raise ConflictError(f"recovery {record.id} has changed in this moment")
    return replace(record, revision=record.revision + 1, updated_at=work.now)


def check_identity(location: str, text: str) -> None:
    """
    Demand what an executor may be called, or its version.

    Raises:
        InvalidInputError: it is blank, too long or not printable.
    """
    if not text.strip():
        raise InvalidInputError(location, "must not be empty", text)
    if len(text) > IDENTITY_LIMIT_CHARS:
        raise InvalidInputError(
            location, f"must have at most {IDENTITY_LIMIT_CHARS} characters"
        )
    _check_printable(location, text)
    if not is_identity(text):
        raise InvalidInputError(
            location, f"must have at most {IDENTITY_LIMIT_BYTES} bytes"
        )


def _check_printable(location: str, text: str) -> None:
    if not text.isprintable():
        raise InvalidInputError(location, "must hold printable characters only")
