"""Who did something, from where, and how that stands in the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.access import LOCAL_PRINCIPAL, Principal
from relay.ids import OrgName
from relay.records import AuditEntry, AuditStatus, AuditSubject, AuditTarget

LOCAL_ORGANIZATION = OrgName("local")
"""The only organization there is without an identity provider."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A principal and the address it called from (`""` when there is none)."""

    principal: Principal
    source_ip: str

    @property
    def subject(self) -> AuditSubject:
        """The principal as the audit log names it."""
        return AuditSubject(
            kind=self.principal.kind,
            id=self.principal.id,
            display=self.principal.display,
        )

    def entry(
        self,
        operation: str,
        target: AuditTarget | None,
        details: Mapping[str, Any],
        *,
        status: AuditStatus = AuditStatus.SUCCESS,
    ) -> AuditEntry:
        """The audit entry of something this actor did, or tried to do."""
        return AuditEntry(
            organization=LOCAL_ORGANIZATION,
            operation=operation,
            status=status,
            subject=self.subject,
            target=target,
            source_ip=self.source_ip,
            details=details,
        )


SHELL_ACTOR = Actor(LOCAL_PRINCIPAL, "")
"""Whoever runs `relay …` on the machine: may do everything, has no address."""
