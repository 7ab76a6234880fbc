"""Reading the audit log; reads are not recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from relay.records import AuditRecord
from relay.registry.actor import LOCAL_ORGANIZATION
from relay.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """
    Conjunctive, exact filters; `None` does not restrict.

    `start` is inclusive, `end` exclusive. `subject` matches the display name or the
    id, `target` the target's id.
    """

    start: datetime | None = None
    end: datetime | None = None
    operation: str | None = None
    subject: str | None = None
    target: str | None = None
    limit: int = 100
    offset: int = 0


async def list_audit(store: Store, query: AuditQuery) -> Sequence[AuditRecord]:
    """The matching entries, newest first."""
    async with store.read() as work:
        return await work.audit.list_entries(
            LOCAL_ORGANIZATION,
            start=query.start,
            end=query.end,
            operation=query.operation,
            subject=query.subject,
            target=query.target,
            limit=query.limit,
            offset=query.offset,
        )
