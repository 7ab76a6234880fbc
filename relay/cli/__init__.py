"""
The command line: `relay …`.

`serve` runs the server; every other command works on its database by itself, also
while the server runs, which notices what was changed. Nothing is decided here: the
commands call the same use-cases as REST does, as the operator of the machine.

Exit status: 0 done, 1 refused or failed with one message on standard error, 2 used
wrongly. What was asked for goes to standard output, everything else to standard error.
"""

import sys

import typer

from relay import __version__
from relay.cli.audit import audit
from relay.cli.census import census
from relay.cli.contract import openapi
from relay.cli.keys import keys
from relay.cli.recoveries import recoveries
from relay.cli.serve import migrate, serve
from relay.errors import InvalidInputError, RelayError
from relay.settings import LogFormat, LogLevel
from relay.telemetry import configure_logging, mask

app = typer.Typer(
    name="relay",
    help="An open control plane for DBOS Transact applications.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def prepare() -> None:
    """An open control plane for DBOS Transact applications."""
    # Commands answer on standard output; of the engine's log only trouble is of use.
    configure_logging(LogFormat.CONSOLE, LogLevel.WARNING)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"relay {__version__}")


app.command("serve")(serve)
app.command("migrate")(migrate)
app.command("audit")(audit)
app.command("census")(census)
app.command("openapi")(openapi)
app.add_typer(keys, name="key")
app.add_typer(recoveries, name="recoveries")


def main() -> None:
    """Run the command that the process was started with."""
    if not all(map(_is_utf8, sys.argv)):
        _complain("a word of the command line is not UTF-8")
        sys.exit(2)
    try:
        app()
    except InvalidInputError as error:
        _complain(_explain(error))
    except RelayError as error:
        for line in str(error).splitlines():
            _complain(line)
    except OSError as error:
        _complain(f"{error.strerror or error}")
    sys.exit(1)


def _complain(line: str) -> None:
    typer.echo(f"relay: {mask(line)}", err=True)


def _explain(error: InvalidInputError) -> str:
    """What is wrong with which word; its place in a request means nothing here."""
    if isinstance(error.value, str):
        return f"{error.value!r}: {error.message}"
    return f"{error.location.rpartition('.')[2]}: {error.message}"


def _is_utf8(word: str) -> bool:
    return word == word.encode(errors="ignore").decode()
