"""Identifiers, one type a thing: mixing two of them is a type error."""

from dataclasses import dataclass
from typing import NewType
from uuid import uuid4

OrgName = NewType("OrgName", str)
AppName = NewType("AppName", str)
AppVersion = NewType("AppVersion", str)
ApplicationId = NewType("ApplicationId", str)
ExecutorId = NewType("ExecutorId", str)
ConnectionId = NewType("ConnectionId", str)
InstanceId = NewType("InstanceId", str)
WorkflowId = NewType("WorkflowId", str)
RecoveryId = NewType("RecoveryId", str)
MigrationId = NewType("MigrationId", str)
AuditId = NewType("AuditId", str)
KeyId = NewType("KeyId", str)
KeyName = NewType("KeyName", str)
RequestId = NewType("RequestId", str)

Epoch = NewType("Epoch", int)
"""Grows by one each time an executor's socket changes hands; guards its row."""


@dataclass(frozen=True, slots=True)
class ApplicationRef:
    """A registered application: its key in the store and the names people use."""

    id: ApplicationId
    organization: OrgName
    name: AppName


@dataclass(frozen=True, slots=True)
class ExecutorRef:
    """One executor of one application; the key of everything known about it."""

    application: ApplicationRef
    executor_id: ExecutorId

    @property
    def key(self) -> tuple[ApplicationId, ExecutorId]:
        """The primary key of the executor's row."""
        return (self.application.id, self.executor_id)


def new_id() -> str:
    """A random identifier in the form `8-4-4-4-12`, unique without coordination."""
    return str(uuid4())
