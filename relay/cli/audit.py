"""`relay audit`: reading the audit log, and watching it grow."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from relay.cli.options import DATABASE, accepts_settings
from relay.cli.output import audit_line, audit_object, print_object
from relay.clock import SystemClock
from relay.ids import AuditId
from relay.records import AuditRecord
from relay.registry import AuditQuery
from relay.server import Offline, open_offline
from relay.settings import RelaySettings

POLL_INTERVAL = timedelta(seconds=0.5)


@accepts_settings(*DATABASE)
def audit(
    settings: RelaySettings,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="go on with new entries")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, max=100_000, help="newest entries")
    ] = 100,
    operation: Annotated[
        str | None, typer.Option("--operation", help="such as executor.dead")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", help="who did it: a name or an id")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="to what: an application's name")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", help="from this instant on; UTC unless it says"),
    ] = None,
) -> None:
    """Print audit entries, the newest last."""
    query = AuditQuery(
        start=_in_utc(since),
        operation=operation,
        subject=subject,
        target=target,
        limit=limit,
    )

    def show(records: Sequence[AuditRecord]) -> None:
        for record in records:
            if json:
                print_object(audit_object(record))
            else:
                typer.echo(audit_line(record))

    async def run() -> None:
        async with open_offline(settings) as offline:
            # First, and as the border: what is newer belongs to `_follow`.
            newest = await offline.registry.list_audit(AuditQuery(limit=1))
            if newest:
                records = await offline.registry.list_audit(query)
                show([r for r in reversed(records) if r.id <= newest[0].id])
            if follow:
                await _follow(offline, newest[0].id if newest else None, query, show)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _in_utc(instant: datetime | None) -> datetime | None:
    if instant is None or instant.tzinfo is not None:
        return instant
    return instant.replace(tzinfo=UTC)


async def _follow(
    offline: Offline,
    seen: AuditId | None,
    query: AuditQuery,
    show: Callable[[Sequence[AuditRecord]], None],
) -> None:
    clock = SystemClock()
    while True:
        records = await offline.list_audit_after(seen)
        show([record for record in records if _matches(record, query)])
        if records:
            seen = records[-1].id
        else:
            await clock.sleep(POLL_INTERVAL)


def _matches(record: AuditRecord, query: AuditQuery) -> bool:
    entry = record.entry
    return (
        query.operation in (None, entry.operation)
        and query.subject in (None, entry.subject.display, entry.subject.id)
        and query.target in (None, entry.target and entry.target.id)
    )
