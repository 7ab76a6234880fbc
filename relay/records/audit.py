"""The audit log: entries, and who did what to what."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from relay.ids import AppName, AuditId, OrgName, RecoveryId


class AuditStatus(StrEnum):
    """Whether the operation happened or was refused or failed."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSubject:
    """Who did it: `kind` is `user` or `api_key`."""

    kind: str
    id: str
    display: str


RELAY_SUBJECT = AuditSubject(kind="api_key", id="relay", display="Relay")
"""The engine itself; the key name `relay` is reserved for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTarget:
    """What it was done to: `kind` is a target type of the contract."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """
    An entry to append; the store gives it its id and its instant.

    `recovery_id` ties the entries of one death together: they are its story.
    """

    organization: OrgName
    operation: str
    status: AuditStatus
    subject: AuditSubject
    target: AuditTarget | None
    source_ip: str
    details: Mapping[str, Any]
    recovery_id: RecoveryId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An entry as stored. Ids sort by time within one store."""

    id: AuditId
    emitted_at: datetime
    entry: AuditEntry


def application_target(application: AppName) -> AuditTarget:
    """The audit target of everything that happens to an application."""
    return AuditTarget(kind="application", id=application)
