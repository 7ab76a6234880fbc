"""
The messages that Relay exchanges, one request and reply pair a type.

A request knows its wire type, its fields as the checked encoder writes them, and how to
read its reply. The catalogue grows with each operation that Relay serves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Final

import msgspec

from relay.errors import InvalidInputError
from relay.ids import AppName, AppVersion, ExecutorId, WorkflowId
from relay.protocol.envelope import REQUIRED_NULL
from relay.protocol.frames import FrameError, read_frame
from relay.protocol.sanitising import (
    METADATA_LIMIT_BYTES,
    JsonValue,
    clean_metadata,
    dropped_metadata,
    read_text,
)

IDENTITY_LIMIT_CHARS = 512
"""Characters of each text with which an executor describes itself."""

IDENTITY_LIMIT_BYTES = 1024
"""Of an id or a version in UTF-8: an index of PostgreSQL holds two and little more."""

LISTED_ROW_LIMIT_BYTES = 16 * 1024
"""
What one workflow without its payloads may take, on average, in a listing.

Beyond it the executor has ignored the limit of the listing or sends what nobody asked
for, and building a million rows would stop the loop for seconds.
"""

GC_BATCH_ROWS = 10_000
"""Rows that retention deletes in one transaction, where the SDK lets us choose."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ExecutorInfo:
    """
    Who an executor says it is, made harmless.

    `metadata` is what its owner attached, or a remark that it was too large. `hostname`
    and the rest are cut at `IDENTITY_LIMIT_CHARS`.
    """

    executor_id: ExecutorId
    application_version: AppVersion
    hostname: str | None
    language: str | None
    dbos_version: str | None
    metadata: Mapping[str, JsonValue] | None


class _IdentityReply(msgspec.Struct):
    executor_id: str | int | None = None
    application_version: str | int | None = None
    hostname: str | int | None = None
    language: str | int | None = None
    dbos_version: str | int | None = None


class _InfoReply(_IdentityReply):
    executor_metadata: Any = None


@dataclass(frozen=True, slots=True)
class ExecutorInfoRequest:
    """
    Asks an executor who it is: the first message on every socket.

    Its answer does not hold the application's name; that stands in the socket's path.
    """

    message_type: ClassVar[str] = "executor_info"

    def fields(self) -> Mapping[str, object]:
        return {}

    def decode_reply(self, frame: bytes) -> ExecutorInfo:
        """
        The executor's identity.

        The id and the version are never cut: a shortened id names somebody else, of
        whom "nothing is pending" is true.

        Raises:
            FrameError: there is no executor id, or the id or version is too long or
                no text.
        """
        # Escapes and blanks make a frame at most a few times longer than its content:
        # beyond that the metadata is too large, and is not worth building.
        is_huge = len(frame) > 4 * METADATA_LIMIT_BYTES
        reply = read_frame(frame, _IdentityReply if is_huge else _InfoReply)
        executor_id = _read_identity(reply.executor_id, "executor id")
        if not executor_id:
            raise FrameError("the executor names no executor id")
        return ExecutorInfo(
            executor_id=ExecutorId(executor_id),
            application_version=AppVersion(
                _read_identity(reply.application_version, "application version")
            ),
            hostname=_read_label(reply.hostname),
            language=_read_label(reply.language),
            dbos_version=_read_label(reply.dbos_version),
            metadata=clean_metadata(reply.executor_metadata)
            if isinstance(reply, _InfoReply)
            else dropped_metadata(len(frame)),
        )


def _read_identity(value: object, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise FrameError(f"the {what} is no text")
    text = read_text(value) or ""
    if not is_identity(text):
        raise FrameError(
            f"the {what} is longer than {IDENTITY_LIMIT_CHARS} characters or"
            f" {IDENTITY_LIMIT_BYTES} bytes"
        )
    return text


def is_identity(text: str) -> bool:
    """Whether an executor or its version can be called so."""
    return (
        len(text) <= IDENTITY_LIMIT_CHARS and len(text.encode()) <= IDENTITY_LIMIT_BYTES
    )


def _read_label(value: object) -> str | None:
    text = read_text(value)
    return text[:IDENTITY_LIMIT_CHARS] if text else None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """
    A bare yes or no.

    A missing answer is a no: Java says no without a message when an exception has no
    text. A yes says that nothing failed, not that anything happened.
    """

    success: bool


class _SuccessReply(msgspec.Struct):
    success: bool | None = None


def read_acknowledgement(frame: bytes) -> Acknowledgement:
    """What a reply with nothing but `success` says."""
    return Acknowledgement(success=read_frame(frame, _SuccessReply).success is True)


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """
    Orders an executor to take over the pending workflows of dead ones.

    It takes over those of its own application version only, and answers with success
    when there were none. Never empty, and never naming a living executor: its step in
    flight would run twice.
    """

    executor_ids: tuple[ExecutorId, ...]
    message_type: ClassVar[str] = "recovery"

    def fields(self) -> Mapping[str, object]:
        return {"executor_ids": self.executor_ids}

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


class _ExistReply(msgspec.Struct):
    exist: bool | None = None


@dataclass(frozen=True, slots=True)
class ExistPendingWorkflowsRequest:
    """
    Asks whether an executor owns pending workflows of a version.

    Any executor on the same system database answers truly, whatever its own version.
    Unknown to Python before 0.24.
    """

    executor_id: ExecutorId
    app_version: AppVersion
    message_type: ClassVar[str] = "exist_pending_workflows"

    def fields(self) -> Mapping[str, object]:
        return {
            "executor_id": self.executor_id,
            "application_version": self.app_version,
        }

    def decode_reply(self, frame: bytes) -> bool:
        """
        Whether there are any.

        Raises:
            FrameError: it says neither yes nor no; never to be read as a no, on which
                the executor's record is deleted.
        """
        exist = read_frame(frame, _ExistReply).exist
        if not isinstance(exist, bool):
            raise FrameError("the reply does not say whether workflows are pending")
        return exist


class WorkflowStatus(StrEnum):
    """The states of a workflow. Java refuses to filter by any other word."""

    PENDING = "PENDING"
    ENQUEUED = "ENQUEUED"
    DELAYED = "DELAYED"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"
    MAX_RECOVERY_ATTEMPTS_EXCEEDED = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"


@dataclass(frozen=True, slots=True)
class WorkflowSummary:
    """
    A workflow without its payloads.

    `status` is text: a later SDK may have more states than we know. `created_at_ms`
    (since 1970) never changes; with the id it tells workflows apart that two databases
    call the same.
    """

    id: WorkflowId
    name: str | None
    status: str | None
    executor_id: ExecutorId | None
    app_version: AppVersion | None
    created_at_ms: str | None = None


class _OutputReply(msgspec.Struct):
    output: Any = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class ListWorkflowsRequest:
    """
    Lists workflows, by age, without their payloads.

    An empty tuple is no filter. `application` scopes the list to that owner plus rows
    without one; without it each executor applies its own scope (Java has none), and no
    scope at all to `workflow_ids`. One row more than wanted tells whether there are
    more.
    """

    executor_ids: tuple[ExecutorId, ...]
    app_versions: tuple[AppVersion, ...]
    statuses: tuple[WorkflowStatus, ...]
    limit: int
    application: AppName | None = None
    workflow_ids: tuple[WorkflowId, ...] = ()
    newest_first: bool = False
    message_type: ClassVar[str] = "list_workflows"

    def fields(self) -> Mapping[str, object]:
        if self.limit < 1:
            # Everything in two SDKs, nothing in the other two.
            raise InvalidInputError("list_workflows.limit", "must be positive")
        # Each flag is sent: a missing one means yes to some SDKs and no to others, and
        # TypeScript applications end without a body.
        body: dict[str, object] = {
            "sort_desc": self.newest_first,
            "load_input": False,
            "load_output": False,
            "queues_only": False,
            "limit": self.limit,
        }
        filters: dict[str, tuple[str, ...]] = {
            "executor_id": self.executor_ids,
            "application_version": self.app_versions,
            "status": self.statuses,
        }
        for name, values in filters.items():
            if values:
                # SDKs that do not know lists yet understand a single value.
                body[name] = values[0] if len(values) == 1 else values
        if self.workflow_ids:
            body["workflow_uuids"] = self.workflow_ids
        if self.application is not None:
            body["application_name"] = [self.application]
        return {"body": body}

    def decode_reply(self, frame: bytes) -> tuple[WorkflowSummary, ...]:
        """
        The workflows in the executor's order, without those beyond the limit; a null
        list is an empty one.

        Raises:
            FrameError: there is no list, or an entry has no id: a listing that misses
                work would pass for "nothing is pending". Or it is too large for what
                was asked.
        """
        if len(frame) > self.limit * LISTED_ROW_LIMIT_BYTES:
            raise FrameError(f"{len(frame)} bytes are no listing of {self.limit} rows")
        rows = read_frame(frame, _OutputReply).output
        if rows is None:
            return ()
        if not isinstance(rows, list):
            raise FrameError("the reply holds no list of workflows")
        return tuple(_read_workflow(row) for row in rows[: self.limit])


def _read_workflow(row: object) -> WorkflowSummary:
    fields = row if isinstance(row, dict) else {}
    workflow_id = read_text(fields.get("WorkflowUUID"))
    if workflow_id is None:
        raise FrameError("the reply lists a workflow without an id")
    executor_id = read_text(fields.get("ExecutorID"))
    app_version = read_text(fields.get("ApplicationVersion"))
    return WorkflowSummary(
        id=WorkflowId(workflow_id),
        name=read_text(fields.get("WorkflowName")),
        status=read_text(fields.get("Status")),
        executor_id=ExecutorId(executor_id) if executor_id else None,
        app_version=AppVersion(app_version) if app_version else None,
        created_at_ms=read_text(fields.get("CreatedAt")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRequest:
    """
    Orders old history deleted and overdue workflows cancelled; `None` is off.

    `gc_cutoff` deletes what finished before it, `gc_rows_threshold` keeps about that
    many newest rows (the stricter of the two wins), `timeout_cutoff` cancels what began
    before it and still runs. `Capabilities` says whose history is meant and whether the
    reply comes before the work.
    """

    gc_cutoff: datetime | None
    gc_rows_threshold: int | None
    timeout_cutoff: datetime | None
    message_type: ClassVar[str] = "retention"

    def fields(self) -> Mapping[str, object]:
        threshold = self.gc_rows_threshold
        if threshold is not None and threshold < 1:
            # "Keep nothing" is never meant; Go refuses it, the others fail.
            raise InvalidInputError("retention.gc_rows_threshold", "must be positive")
        # Python needs the three keys, set or not.
        return {
            "body": {
                "gc_cutoff_epoch_ms": _epoch_ms(self.gc_cutoff),
                "gc_rows_threshold": REQUIRED_NULL if threshold is None else threshold,
                "timeout_cutoff_epoch_ms": _epoch_ms(self.timeout_cutoff),
                "gc_batch_size": GC_BATCH_ROWS,
            }
        }

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)


def _epoch_ms(instant: datetime | None) -> object:
    """Whole milliseconds since 1970, rounded down: never later than asked."""
    if instant is None:
        return REQUIRED_NULL
    return (instant - _EPOCH) // timedelta(milliseconds=1)
