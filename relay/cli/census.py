"""`relay census`: pending work that no death has put into the ledger."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from relay.census import CensusReport
from relay.cli.options import DATABASE, accepts_settings
from relay.cli.output import census_object, print_object, print_table, show_instant
from relay.records import DisputeRecord
from relay.server import open_offline
from relay.settings import RelaySettings
from relay.telemetry import show_controls


@accepts_settings(*DATABASE)
def census(
    settings: RelaySettings,
    app: Annotated[
        str | None, typer.Option("--app", help="only of this application")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="one JSON object an application")
    ] = False,
) -> None:
    """Show whose pending work nobody will recover by themselves."""

    async def run() -> None:
        async with open_offline(settings) as offline:
            if app is None:
                reports = await offline.census_reports.list_all()
            else:
                view = await offline.registry.applications.get(app)
                reports = [await offline.census_reports.get(view.record.ref)]
        if json:
            for report in reports:
                print_object(census_object(report))
            return
        print_table(
            ("APPLICATION", "COUNTED", "ANSWERED BY", "PENDING", "OWNERS", "DATABASES"),
            [_to_line(report) for report in reports],
        )
        owners = [owner for report in reports for owner in report.owners]
        if owners:
            typer.echo()
            print_table(
                (
                    *("APPLICATION", "EXECUTOR", "VERSION", "KIND", "PENDING"),
                    *("FIRST SEEN", "LAST SEEN"),
                ),
                [
                    (
                        record.application.name,
                        record.owner.executor_id,
                        record.owner.app_version,
                        record.kind.value,
                        str(record.pending_count),
                        show_instant(record.first_seen_at),
                        show_instant(record.last_seen_at),
                    )
                    for record in owners
                ],
            )
        for report in reports:
            if report.dispute is not None:
                _explain(report.application.name, report.dispute)

    asyncio.run(run())


def _to_line(report: CensusReport) -> Sequence[str]:
    taken = report.census
    at_least = "" if taken is None or taken.is_complete else "at least "
    return (
        report.application.name,
        "-" if taken is None else show_instant(taken.taken_at),
        "-" if taken is None else taken.answered_by,
        "-" if taken is None else f"{at_least}{taken.pending_count}",
        str(len(report.owners)),
        "one" if report.dispute is None else "DISPUTED",
    )


def _explain(application: str, dispute: DisputeRecord) -> None:
    typer.echo()
    typer.echo(
        f"{application}: executors read different databases since"
        f" {show_instant(dispute.since)}, and no record of a dead one is deleted"
    )
    for place, side in enumerate(dispute.sides, start=1):
        ids = ", ".join(sorted(side.executor_ids)) or "-"
        typer.echo(f"  database {place}: {show_controls(ids)}")
