"""`relay key`: minting, listing and revoking API keys."""

import asyncio
import errno
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from relay.access import Permission
from relay.cli.options import DATABASE, accepts_settings
from relay.cli.output import key_object, print_object, print_table, show_instant
from relay.ids import ApplicationId
from relay.records import KeyRecord
from relay.registry import SHELL_ACTOR
from relay.server import Offline, open_offline
from relay.settings import RelaySettings

keys = typer.Typer(no_args_is_help=True, help="API keys of executors and REST clients.")

ADMIN_NAME = "admin"
GONE = "(deleted)"


@accepts_settings(*DATABASE)
def create(
    settings: RelaySettings,
    name: Annotated[
        str | None, typer.Argument(help="name, unique among living keys")
    ] = None,
    admin: Annotated[
        bool,
        typer.Option(
            "--admin",
            help="every permission, token.write too, which nothing else can grant;"
            " with --permission only those that it names;"
            f" the name defaults to {ADMIN_NAME}",
        ),
    ] = False,
    permission: Annotated[
        list[str] | None,
        typer.Option(
            "--permission",
            help=f"may be repeated: {', '.join(Permission)}"
            f" [default: {Permission.WEBSOCKET_CONNECT}]",
            show_default=False,
        ),
    ] = None,
    app: Annotated[
        list[str] | None,
        typer.Option(
            "--app",
            help="limit the key to this application; may be repeated"
            " [default: every application]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Mint a key and print it, once: only a hash of it is stored."""
    if name is None and not admin:
        raise typer.BadParameter("give the key a name", param_hint="NAME")
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed; no key was made")

    def tell(file: Path) -> None:
        typer.echo(f"made a new database: {file.absolute()}", err=True)

    async def run() -> None:
        async with open_offline(settings, on_created=tell) as offline:
            minted = await offline.registry.keys.create(
                SHELL_ACTOR,
                ADMIN_NAME if name is None else name,
                permissions=permission or None,
                application_names=app or None,
                is_admin=admin,
            )
        # Alone on standard output, so that a script can take it.
        typer.echo(
            "the key is on standard output; keep it, it is not shown again", err=True
        )
        typer.echo(minted.text)

    asyncio.run(run())


@accepts_settings(*DATABASE)
def show(
    settings: RelaySettings,
    json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line")
    ] = False,
) -> None:
    """List the keys that are not revoked."""

    async def run() -> None:
        async with open_offline(settings) as offline:
            records = await offline.registry.keys.list_live()
            names = await _application_names(offline)
        if json:
            for record in records:
                print_object(key_object(record, _scope(record, names)))
            return
        print_table(
            ("NAME", "CREATED", "LAST USED", "APPLICATIONS", "PERMISSIONS"),
            (
                (
                    record.name,
                    show_instant(record.created_at),
                    show_instant(record.last_used_at),
                    _show_scope(_scope(record, names)),
                    ",".join(sorted(record.permissions)),
                )
                for record in records
            ),
        )

    asyncio.run(run())


@accepts_settings(*DATABASE)
def revoke(
    settings: RelaySettings,
    name: Annotated[str, typer.Argument(help="name of the key")],
) -> None:
    """
    Refuse a key from now on; a running server closes its sockets within 5 seconds.

    Executors that are cut off like this and do not come back with another key are
    recovered elsewhere when their grace has passed, although they may still be alive.
    """

    async def run() -> None:
        async with open_offline(settings) as offline:
            await offline.registry.revoke_key(SHELL_ACTOR, name)
        typer.echo(f"revoked {name}")

    asyncio.run(run())


async def _application_names(offline: Offline) -> Mapping[ApplicationId, str]:
    views = await offline.registry.applications.list_all(SHELL_ACTOR.principal)
    return {view.record.ref.id: view.record.ref.name for view in views}


def _scope(record: KeyRecord, names: Mapping[ApplicationId, str]) -> list[str] | None:
    if record.application_ids is None:
        return None
    return sorted(names.get(identity, GONE) for identity in record.application_ids)


def _show_scope(scope: list[str] | None) -> str:
    return "(all)" if scope is None else ",".join(scope) or "(none)"


keys.command("create")(create)
keys.command("list")(show)
keys.command("revoke")(revoke)
