"""Organizations and their applications."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from relay.ids import ApplicationRef, OrgName


class VersionPolicy(StrEnum):
    """Which peers may be ordered to recover: of the same version only, or any."""

    SAME = "same"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationRecord:
    """A tenant. `audit_retention` is how long audit entries are kept."""

    id: str
    name: OrgName
    created_at: datetime
    audit_retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRecord:
    """
    A registered application and its settings; `None` in a threshold means off.

    `executor_timeout` is the grace period between DISCONNECTED and DEAD. With
    `imports_allowed` workflows may be imported, which lets the sender run code inside
    an executor of a Python application.
    """

    ref: ApplicationRef
    created_at: datetime
    executor_timeout: timedelta
    gc_time_threshold: timedelta | None
    gc_rows_threshold: int | None
    global_timeout: timedelta | None
    private_mode: bool
    language: str | None
    version_policy: VersionPolicy
    imports_allowed: bool = False
