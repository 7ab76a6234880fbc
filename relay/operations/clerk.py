"""The application that is meant, and the audit entry of what was done to it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from relay.audit import AuditWriter
from relay.errors import PermissionDeniedError, StoreUnavailableError
from relay.records import ApplicationRecord, AuditTarget, application_target
from relay.registry import Actor
from relay.registry.applications import get_application
from relay.store import Store

logger = structlog.get_logger(__name__)

TARGET_LIMIT_CHARS = 512
"""Of a target in the audit log; what is longer is cut."""


class Clerk:
    """Looks applications up and writes down what callers have done."""

    def __init__(self, store: Store, audit: AuditWriter) -> None:
        self._store = store
        self._audit = audit

    async def find(self, application: str) -> ApplicationRecord:
        """
        The application of that name.

        Raises:
            InvalidInputError: no application can have that name.
            NotFoundError: no application has it.
        """
        async with self._store.read() as work:
            return await get_application(work, application)

    async def note(
        self,
        actor: Actor,
        operation: str,
        application: ApplicationRecord,
        details: Mapping[str, object],
        *,
        target: AuditTarget | None = None,
    ) -> None:
        """
        Write down what an executor has done for `actor`.

        It is done and cannot be undone: when the store cannot take the entry, the log
        has it, and the caller is told the truth.

        Args:
            details: in snake case, beside the application's name; `None` is left out.
            target: default: the application.
        """
        name = application.ref.name
        facts: Mapping[str, Any] = {
            "application_name": name,
            **{key: value for key, value in details.items() if value is not None},
        }
        target = target or application_target(name)
        # A caller chooses the ids of workflows, and an index holds them.
        target = replace(target, id=target.id[:TARGET_LIMIT_CHARS])
        entry = actor.entry(operation, target, facts)
        try:
            async with self._store.write() as work:
                await self._audit.record(work, entry)
        except StoreUnavailableError as error:
            logger.warning(
                "operation_not_audited",
                operation=operation,
                application=name,
                target=target.id,
                subject=actor.subject.display,
                source_ip=actor.source_ip,
                reason=error.reason,
            )


def refuse_payloads(application: ApplicationRecord, what: str) -> None:
    """
    Demand an application whose payloads Relay may see.

    Raises:
        PermissionDeniedError: it is in private mode.
    """
    if application.private_mode:
        raise PermissionDeniedError(
            f"application {application.ref.name!r} is in private mode: Relay does not"
            f" ask for {what}"
        )
