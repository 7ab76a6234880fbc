"""
Settings of the server: `relay.toml` < environment < command line.

Each field is a bare number only where its name carries the unit; the properties below
turn them into spans, and nothing else in the house reads the raw fields.

Three kinds of variable share the environment with us: our own (`RELAY_*`), the names
that an upstream installation already sets (`DBOS__CONDUCTOR_DB_URL` and two more, which
a `RELAY_*` name overrules), and the ones that Kubernetes injects for a service called
`relay`. A `RELAY_*` name that is none of these is a typing error and stops the start.
"""

from relay.settings.loading import load_settings
from relay.settings.model import (
    AuthMode,
    LogFormat,
    LogLevel,
    RelaySettings,
    environment_names,
    is_loopback,
)
from relay.settings.sources import DEFAULT_FILE, FILE_VARIABLE

__all__ = [
    "DEFAULT_FILE",
    "FILE_VARIABLE",
    "AuthMode",
    "LogFormat",
    "LogLevel",
    "RelaySettings",
    "environment_names",
    "is_loopback",
    "load_settings",
]
