"""Where settings are looked for, and which names are typing errors there."""

import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from pathlib import Path

from relay.errors import SettingsError

ENVIRONMENT_PREFIX = "RELAY_"
DEFAULT_FILE = Path("relay.toml")
FILE_VARIABLE = "RELAY_CONFIG"
"""Names another file than `relay.toml` in the working directory."""

CURRENT_FILE: ContextVar[Path] = ContextVar("settings file", default=DEFAULT_FILE)
"""The way to the sources, which pydantic-settings builds by itself."""

_KUBERNETES_SERVICE = re.compile(
    r"RELAY(_.*)?_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)"
)
_FALSE = {"", "0", "false", "f", "no", "n", "off"}


def check_environment(
    environment: Mapping[str, str], variables: Mapping[str, tuple[str, ...]]
) -> None:
    """
    Refuse an environment that says something we would not hear.

    Args:
        variables: field name to the environment variables that set it.

    Raises:
        SettingsError: a name is a typing error, or asks for what Relay cannot do.
    """
    # What we cannot read we take for a yes: the other mistake would open the server.
    if environment.get("DBOS_OAUTH_ENABLED", "").strip().lower() not in _FALSE:
        raise SettingsError(
            "DBOS_OAUTH_ENABLED: OIDC is not in this version, and a server that was"
            " protected must not run open; unset it and use RELAY_AUTH=keys"
        )
    if environment.get("RELAY_PORT", "").startswith("tcp://"):
        raise SettingsError(
            "RELAY_PORT: Kubernetes set it for a service called relay; rename the"
            " service or set enableServiceLinks: false in the pod"
        )
    known = {name for names in variables.values() for name in names}
    known.add(FILE_VARIABLE)
    unknown = sorted(
        name
        for name in environment
        if name.startswith(ENVIRONMENT_PREFIX)
        and name not in known
        and not _KUBERNETES_SERVICE.fullmatch(name)
    )
    if unknown:
        raise SettingsError(
            "\n".join(
                f"{name}: no such setting; see relay serve --help" for name in unknown
            )
        )


def check_names(
    file: Path, names: Iterable[str], variables: Mapping[str, tuple[str, ...]]
) -> None:
    """
    Refuse names in `file` that are no fields.

    Raises:
        SettingsError: one line for each.
    """
    # Besides its own a field has the names of its variables, wherever it is read from.
    fields = {name: field for field, given in variables.items() for name in given}
    wrong = [
        f"{file}: {name}: "
        + (
            f"in a file this is called {fields[name]}"
            if name in fields
            else "no such setting; see relay serve --help"
        )
        for name in names
        if name not in variables
    ]
    if wrong:
        raise SettingsError("\n".join(wrong))
