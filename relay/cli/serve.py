"""`relay serve` and `relay migrate`."""

import asyncio

import typer

from relay.cli.options import DATABASE, accepts_settings
from relay.launch import launch
from relay.server import open_migrated
from relay.settings import LogFormat, RelaySettings
from relay.telemetry import configure_logging


@accepts_settings(*RelaySettings.model_fields)
def serve(settings: RelaySettings) -> None:
    """
    Run the server until it is told to stop.

    Settings come from relay.toml, then the environment, then these options; the last
    one that is given wins.
    """
    configure_logging(settings.log_format, settings.log_level)

    def announce(url: str) -> None:
        if settings.log_format is LogFormat.CONSOLE:
            typer.echo(f"listening on {url}")

    launch(settings, announce=announce)


@accepts_settings(*DATABASE)
def migrate(settings: RelaySettings) -> None:
    """Bring the database to the newest schema; `relay serve` does it by itself."""

    async def run() -> None:
        async with open_migrated(settings) as database:
            typer.echo(f"the {database.dialect} database is up to date")

    asyncio.run(run())
