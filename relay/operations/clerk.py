"""The application that is meant, and the audit entry of what was done to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from relay.audit import AuditWriter
from relay.errors import (
    NotFoundError,
    PermissionDeniedError,
    StoreUnavailableError,
)
from relay.records import (
    ApplicationRecord,
    AuditStatus,
    AuditTarget,
    application_target,
)
from relay.registry import Actor
from relay.registry.applications import checked_name
from relay.registry.lookup import ApplicationLookup
from relay.store import Store

logger = structlog.get_logger(__name__)

TARGET_LIMIT_CHARS: Final = 512
"""Of a target in the audit log; what is longer is cut."""

NAMED_IDS: Final = 100
"""Of the workflows that an audit entry is about, named in it; the others count."""


def name_workflows(ids: Sequence[str], *, which: str = "") -> Mapping[str, object]:
    """
    The workflows that an audit entry is about, as details of it.

    A caller may order a megabyte of them, and an entry is a row and a line of the log.

    Args:
        which: what the names of both details begin with, such as `new_`.
    """
    return {
        f"{which}workflow_ids": [id_[:TARGET_LIMIT_CHARS] for id_ in ids[:NAMED_IDS]],
        f"{which}workflow_count": len(ids),
    }


class Clerk:
    """Looks applications up and writes down what callers have done."""

    def __init__(
        self, store: Store, audit: AuditWriter, applications: ApplicationLookup
    ) -> None:
        self._store = store
        self._audit = audit
        self._applications = applications

    async def find(self, application: str) -> ApplicationRecord:
        """
        The application of that name.

        Raises:
            InvalidInputError: no application can have that name.
            NotFoundError: no application has it.
        """
        name = checked_name(application)
        record = await self._applications.find(name)
        if record is None:
            raise NotFoundError("application", name)
        return record

    async def note(
        self,
        actor: Actor,
        operation: str,
        application: ApplicationRecord,
        details: Mapping[str, object],
        *,
        target: AuditTarget | None = None,
        status: AuditStatus = AuditStatus.SUCCESS,
    ) -> None:
        """
        Write down what an executor has done for `actor`.

        It is done and cannot be undone: when the store cannot take the entry, the log
        has it, and the caller is told the truth.

        Args:
            details: in snake case, beside the application's name; `None` is left out.
            target: default: the application.
            status: whether it was done; what was not, and is no error to the caller,
                is written down here too.
        """
        name = application.ref.name
        facts: Mapping[str, Any] = {
            "application_name": name,
            **{key: value for key, value in details.items() if value is not None},
        }
        target = target or application_target(name)
        # A caller chooses the ids of workflows, and an index holds them.
        target = replace(target, id=target.id[:TARGET_LIMIT_CHARS])
        entry = actor.entry(operation, target, facts, status=status)
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
