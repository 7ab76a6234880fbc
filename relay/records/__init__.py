"""
Rows as frozen dataclasses: what the rooms above the store hand around.

Spans are `timedelta`, instants are aware UTC. A record is a reading; writing goes
through a repository, which guards it and reads the row count.
"""

from relay.records.applications import (
    ApplicationRecord,
    OrganizationRecord,
    VersionPolicy,
)
from relay.records.audit import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditRecord,
    AuditStatus,
    AuditSubject,
    AuditTarget,
    application_target,
)
from relay.records.executors import (
    ExecutorRecord,
    TombstoneRecord,
)
from relay.records.keys import (
    KeyRecord,
)
from relay.records.metrics import (
    MetricRecord,
    MetricType,
)
from relay.records.migrations import (
    OPEN_ITEM_STATES,
    ItemState,
    MigrationItem,
    MigrationMethod,
    MigrationRecord,
)
from relay.records.owners import (
    CensusRecord,
    DisputeRecord,
    DisputeSide,
    Owner,
    OwnerFacts,
    OwnerKind,
    OwnerRecord,
)
from relay.records.recoveries import (
    OPEN_STATES,
    RecoveryRecord,
    RecoveryState,
    WorkflowLossRecord,
)

__all__ = [
    "OPEN_ITEM_STATES",
    "OPEN_STATES",
    "RELAY_SUBJECT",
    "ApplicationRecord",
    "AuditEntry",
    "AuditRecord",
    "AuditStatus",
    "AuditSubject",
    "AuditTarget",
    "CensusRecord",
    "DisputeRecord",
    "DisputeSide",
    "ExecutorRecord",
    "ItemState",
    "KeyRecord",
    "MetricRecord",
    "MetricType",
    "MigrationItem",
    "MigrationMethod",
    "MigrationRecord",
    "OrganizationRecord",
    "Owner",
    "OwnerFacts",
    "OwnerKind",
    "OwnerRecord",
    "RecoveryRecord",
    "RecoveryState",
    "TombstoneRecord",
    "VersionPolicy",
    "WorkflowLossRecord",
    "application_target",
]
