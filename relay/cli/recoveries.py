"""`relay recoveries`: what became of the work of dead executors."""

import asyncio
from typing import Annotated

import typer

from relay.cli.options import DATABASE, accepts_settings
from relay.cli.output import (
    audit_line,
    audit_object,
    print_object,
    print_table,
    recovery_facts,
    recovery_object,
    show_instant,
    show_pending,
)
from relay.records import OPEN_STATES, RecoveryRecord, RecoveryState
from relay.registry import SHELL_ACTOR
from relay.server import open_offline
from relay.settings import RelaySettings
from relay.telemetry import show_controls

recoveries = typer.Typer(
    no_args_is_help=True, help="Recoveries of the work of dead executors."
)

Identity = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="id of the recovery, or its beginning if no other has it",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object a line")]


@accepts_settings(*DATABASE)
def list_recoveries(
    settings: RelaySettings,
    app: Annotated[
        str | None, typer.Option("--app", help="only of this application")
    ] = None,
    state: Annotated[
        list[RecoveryState] | None,
        typer.Option(
            "--state", help="may be repeated [default: all]", show_default=False
        ),
    ] = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="only those that something has to end")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100_000, help="newest recoveries")
    ] = 100,
    json: AsJson = False,
) -> None:
    """List recoveries, the newest first."""
    states = set(state or RecoveryState) & (
        OPEN_STATES if is_open else set(RecoveryState)
    )

    async def run() -> None:
        async with open_offline(settings) as offline:
            if app is None:
                records = await offline.ledger.list_all(states=states, limit=limit)
            else:
                view = await offline.registry.applications.get(app)
                records = await offline.ledger.list_recoveries(
                    view.record.ref, states=states, limit=limit
                )
            suspects = await offline.ledger.find_suspects(records)
        if json:
            for record in records:
                print_object(recovery_object(record, suspects[record.id]))
            return
        print_table(
            (
                *("ID", "STATE", "APPLICATION", "EXECUTOR", "VERSION", "OPENED"),
                *("PENDING", "NEXT ATTEMPT", "REASON"),
            ),
            (
                (
                    record.id,
                    record.state.value,
                    record.executor.application.name,
                    record.executor.executor_id,
                    record.app_version,
                    show_instant(record.opened_at),
                    show_pending(record),
                    show_instant(record.next_attempt_at),
                    record.reason or "-",
                )
                for record in records
            ),
        )

    asyncio.run(run())


@accepts_settings(*DATABASE)
def show(settings: RelaySettings, recovery_id: Identity, json: AsJson = False) -> None:
    """Tell the whole story of one recovery."""

    async def run() -> None:
        async with open_offline(settings) as offline:
            story = await offline.ledger.get(await offline.ledger.identify(recovery_id))
        if json:
            print_object(
                {
                    **recovery_object(story.record, story.suspects),
                    "story": [audit_object(entry) for entry in story.entries],
                }
            )
            return
        for name, fact in recovery_facts(story.record, story.suspects):
            typer.echo(f"{name:<20} {show_controls(fact)}")
        typer.echo()
        for entry in story.entries:
            typer.echo(audit_line(entry))

    asyncio.run(run())


@accepts_settings(*DATABASE)
def retry(settings: RelaySettings, recovery_id: Identity) -> None:
    """Make an open recovery due now."""

    async def run() -> None:
        async with open_offline(settings) as offline:
            _report(
                await offline.ledger.retry(
                    await offline.ledger.identify(recovery_id), by=SHELL_ACTOR.subject
                )
            )

    asyncio.run(run())


@accepts_settings(*DATABASE)
def abandon(
    settings: RelaySettings,
    recovery_id: Identity,
    reason: Annotated[str, typer.Option("--reason", help="why; for the audit log")],
) -> None:
    """Give up on an open recovery for good; the work stays as it is."""

    async def run() -> None:
        async with open_offline(settings) as offline:
            _report(
                await offline.ledger.abandon(
                    await offline.ledger.identify(recovery_id),
                    reason,
                    by=SHELL_ACTOR.subject,
                )
            )

    asyncio.run(run())


def _report(record: RecoveryRecord) -> None:
    typer.echo(f"recovery {record.id} is {record.state.value}")


recoveries.command("list")(list_recoveries)
recoveries.command("show")(show)
recoveries.command("retry")(retry)
recoveries.command("abandon")(abandon)
