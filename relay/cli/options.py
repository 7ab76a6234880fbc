"""
Settings as command-line options.

The options are made from the fields of `RelaySettings`, so that a name, a default, a
unit and a description are written once. A command asks for the settings it needs and
receives them loaded::

    @accepts_settings("data_dir", "database_url")
    def revoke(settings: RelaySettings, name: str) -> None: ...
"""

import functools
import inspect
import types
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from relay.settings import (
    DEFAULT_FILE,
    FILE_VARIABLE,
    RelaySettings,
    environment_names,
    load_settings,
)

DATABASE = ("database_url", "data_dir")
"""What a command needs that works on the database."""


def accepts_settings(
    *fields: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """
    Give a command an option for each of `fields` and the loaded settings in return.

    The decorated function takes `settings` as its first parameter; the command has the
    options (and `--config`) in its place, after its own.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.name != "settings"]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            file = values.pop("config")
            flags = {
                name: value
                for name in fields
                if (value := values.pop(name)) is not None
            }
            command(settings=load_settings(flags, file=file), **values)

        parameters = [
            *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own),
            _config_parameter(),
            *(_parameter(name, RelaySettings.model_fields[name]) for name in fields),
        ]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # what inspect looks at
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _config_parameter() -> inspect.Parameter:
    option = typer.Option(
        "--config",
        help=f"settings file [default: {DEFAULT_FILE} if there is one]"
        f" [env: {FILE_VARIABLE}]",
        show_default=False,
    )
    return _keyword("config", Path | None, option)


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    flag = "--" + name.replace("_", "-")
    kind = _kind(field.annotation)
    default = (
        "" if field.default in (None, "", ()) else f" [default: {_show(field.default)}]"
    )
    environment = f" [env: {', '.join(environment_names(name))}]"
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=f"{field.description}{default}{environment}",
        show_default=False,
    )
    return _keyword(name, kind | None, option)


def _kind(annotation: Any) -> Any:
    """The type of one value on the command line."""
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (
            kind for kind in get_args(annotation) if kind is not type(None)
        )
    # A list is written with commas, as in the environment.
    return str if get_origin(annotation) is tuple else annotation


def _show(default: Any) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default.value if isinstance(default, Enum) else default)


def _keyword(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind, option],
    )
