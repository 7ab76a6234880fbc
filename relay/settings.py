"""
Settings of the server: `relay.toml` < environment < command line.

Each field is a bare number only where its name carries the unit; the properties below
turn them into spans, and nothing else in the house reads the raw fields.

Three kinds of variable share the environment with us: our own (`RELAY_*`), the names
that an upstream installation already sets (`DBOS__CONDUCTOR_DB_URL` and two more, which
a `RELAY_*` name overrules), and the ones that Kubernetes injects for a service called
`relay`. A `RELAY_*` name that is none of these is a typing error and stops the start.
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from relay.errors import SettingsError

ENVIRONMENT_PREFIX = "RELAY_"
DEFAULT_FILE = Path("relay.toml")
FILE_VARIABLE = "RELAY_CONFIG"
"""Names another file than `relay.toml` in the working directory."""

_FILE: ContextVar[Path] = ContextVar("settings file", default=DEFAULT_FILE)
"""The way to the sources, which pydantic-settings builds by itself."""

_KUBERNETES_SERVICE = re.compile(
    r"RELAY(_.*)?_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)"
)
_FALSE = {"", "0", "false", "f", "no", "n", "off"}

_WORDS: Mapping[str, str] = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "enum": "must be {expected}",
    "string_type": "must be text",
    "string_unicode": "must be UTF-8",
    "path_type": "must be a path",
    "tuple_type": "must be a list, or text with commas",
}
"""
What an operator reads instead of the validator's words, by its name of the mistake.

`{…}` is filled from the mistake's context.
"""

Seconds = Annotated[float, Field(ge=0.01, le=86_400, allow_inf_nan=False)]
"""A pause or a patience; shorter than this it would be a loop without a pause."""


class AuthMode(StrEnum):
    """Who may use this server: everybody on this machine, or holders of a key."""

    LOCAL = "local"
    KEYS = "keys"


class LogFormat(StrEnum):
    """How log lines are rendered."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe log lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class RelaySettings(BaseSettings):
    """Everything an operator can set; built by `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
    )

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(
        default=8090,
        ge=0,
        le=65535,
        description="port to listen on; 0 takes a free one",
        validation_alias=AliasChoices("RELAY_PORT", "DBOS__CONDUCTOR_PORT"),
    )
    database_url: str | None = Field(
        default=None,
        repr=False,
        description="sqlite:///… or postgresql://…; unset: SQLite in data_dir",
        validation_alias=AliasChoices("RELAY_DATABASE_URL", "DBOS__CONDUCTOR_DB_URL"),
    )
    data_dir: Path = Field(
        default=Path(".relay"), description="directory of the SQLite file"
    )
    auth: AuthMode = Field(
        default=AuthMode.LOCAL,
        description="local: everybody on this machine; keys: every call needs a key",
    )
    root_path: str = Field(
        default="", description="path prefix that a proxy leaves in place"
    )
    public_url: str | None = Field(
        default=None, description="URL under which clients reach this server"
    )
    advertise_address: str | None = Field(
        default=None,
        description="address that other instances would use; one instance needs none",
        validation_alias=AliasChoices(
            "RELAY_ADVERTISE_ADDRESS", "DBOS__ADVERTISE_ADDRESS"
        ),
    )
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="comma-separated proxies whose X-Forwarded-For is believed:"
        " addresses or networks",
    )
    allow_unauthenticated: bool = Field(
        default=False,
        description="let local mode listen on an address others can reach",
    )
    auto_register: bool | None = Field(
        default=None,
        description="register unknown applications on first contact; local mode only,"
        " where it is on unless set",
    )
    ping_interval_secs: Seconds = Field(default=20, description="seconds between pings")
    ping_wait_secs: Seconds = Field(
        default=25, description="seconds of silence before an executor is DISCONNECTED"
    )
    handshake_timeout_secs: Seconds = Field(
        default=10, description="seconds an executor has to say who it is"
    )
    fault_grace_secs: float = Field(
        default=60,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="least grace in seconds after a loss that Relay caused",
    )
    start_hold_secs: float = Field(
        default=30,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="seconds after start before the first recovery order",
    )
    order_timeout_secs: Seconds = Field(
        default=300, description="seconds a peer has to answer a recovery order"
    )
    retention_interval_secs: Seconds = Field(
        default=300, description="seconds between retention messages, jittered"
    )
    flush_interval_secs: Seconds = Field(
        default=30, description="seconds between writes of last-seen times"
    )
    max_message_bytes: int = Field(
        default=100 * 1024 * 1024,
        gt=0,
        le=2**31 - 1,
        description="largest message of an executor, in bytes",
    )
    audit_retention_days: int = Field(
        default=90, ge=7, le=3650, description="days that audit entries are kept"
    )
    log_format: LogFormat = Field(
        default=LogFormat.CONSOLE,
        description="how logs are written: console or json",
    )
    log_level: LogLevel = Field(
        default=LogLevel.INFO,
        description="least severe log line: debug, info, warning or error",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line over environment over file; nothing else is read."""
        file = TomlConfigSettingsSource(settings_cls, _FILE.get())
        _check_names(_FILE.get(), file.toml_data)
        return (init_settings, env_settings, file)

    @field_validator("host", "database_url", "public_url", "root_path")
    @classmethod
    def _check_text(cls, text: str | None) -> str | None:
        if text is not None and text != text.encode(errors="ignore").decode():
            raise ValueError("must be UTF-8")
        return text

    @field_validator("root_path")
    @classmethod
    def _check_root_path(cls, path: str) -> str:
        path = path.rstrip("/")
        if path and not path.startswith("/"):
            raise ValueError("must start with a slash")
        if not path.isprintable() or re.search(r"[\s?#%]|//", path):
            raise ValueError("must be a plain path such as /conductor")
        return path

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        wrong = ValueError("must be an http:// or https:// URL")
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 - reading it is the check
        except ValueError:
            raise wrong from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise wrong
        if not url.isprintable() or re.search(r"[\s\"<>\\]", url):
            raise wrong
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("must hold no query, fragment or user name")
        return url.rstrip("/")

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _split_proxies(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part for item in value.split(",") if (part := item.strip()))
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ValueError(f"{proxy!r} is no address or network") from None
        return proxies

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.ping_wait_secs <= self.ping_interval_secs:
            raise ValueError(
                "ping_wait_secs must be greater than ping_interval_secs, or executors"
                " that answer every ping are DISCONNECTED"
            )
        if self.auth is AuthMode.KEYS and self.auto_register:
            raise ValueError("auto_register works in local mode only")
        if self.auth is AuthMode.LOCAL and not (
            self.allow_unauthenticated or is_loopback(self.host)
        ):
            raise ValueError(
                f"local mode asks nobody for a key and does not listen on"
                f" {self.host or 'all addresses'!r}: set RELAY_AUTH=keys, or"
                " RELAY_ALLOW_UNAUTHENTICATED=1 if only trusted clients reach it"
            )
        return self

    @property
    def store_url(self) -> str:
        """The database to use: the one given, or the SQLite file in `data_dir`."""
        if self.database_url is not None:
            return self.database_url
        return f"sqlite+aiosqlite:///{self.data_dir / 'relay.db'}"

    @property
    def is_auto_registering(self) -> bool:
        """Whether an unknown application is registered on first contact."""
        return self.auth is AuthMode.LOCAL and self.auto_register is not False

    @property
    def ping_interval(self) -> timedelta:
        return timedelta(seconds=self.ping_interval_secs)

    @property
    def ping_wait(self) -> timedelta:
        return timedelta(seconds=self.ping_wait_secs)

    @property
    def handshake_timeout(self) -> timedelta:
        return timedelta(seconds=self.handshake_timeout_secs)

    @property
    def fault_grace(self) -> timedelta:
        return timedelta(seconds=self.fault_grace_secs)

    @property
    def start_hold(self) -> timedelta:
        return timedelta(seconds=self.start_hold_secs)

    @property
    def order_timeout(self) -> timedelta:
        return timedelta(seconds=self.order_timeout_secs)

    @property
    def retention_interval(self) -> timedelta:
        return timedelta(seconds=self.retention_interval_secs)

    @property
    def flush_interval(self) -> timedelta:
        return timedelta(seconds=self.flush_interval_secs)

    @property
    def audit_retention(self) -> timedelta:
        return timedelta(days=self.audit_retention_days)


def load_settings(
    flags: Mapping[str, object] | None = None, *, file: Path | None = None
) -> RelaySettings:
    """
    The settings this process runs with.

    Args:
        flags: values of the command line by field name; a missing name was not given.
        file: the TOML file; `None` takes the one that `RELAY_CONFIG` names, else
            `relay.toml` in the working directory if there is one.

    Raises:
        SettingsError: one line for each thing that is wrong, without any value that
            could be a secret.
    """
    _check_environment(os.environ)
    if file is None and (named := os.environ.get(FILE_VARIABLE)):
        file = Path(named)
    if file is not None and not file.is_file():
        raise SettingsError(f"settings file {file} does not exist")
    if file is None and os.path.lexists(DEFAULT_FILE) and not DEFAULT_FILE.is_file():
        raise SettingsError(f"{DEFAULT_FILE} is no file")

    values: dict[str, Any] = dict(flags or {})
    token = _FILE.set(file or DEFAULT_FILE)
    try:
        return RelaySettings(**values)
    except ValidationError as error:
        raise SettingsError(
            "\n".join(_explain(detail) for detail in error.errors())
        ) from None
    except ValueError as error:
        raise SettingsError(f"{file or DEFAULT_FILE}: {error}") from None
    except OSError as error:
        raise SettingsError(f"{file or DEFAULT_FILE}: {error.strerror}") from None
    finally:
        _FILE.reset(token)


def environment_names(field: str) -> tuple[str, ...]:
    """The variables that set `field`; the first one wins."""
    alias = RelaySettings.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices)
    return (ENVIRONMENT_PREFIX + field.upper(),)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_environment(environment: Mapping[str, str]) -> None:
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
    known = {
        name
        for field in RelaySettings.model_fields
        for name in environment_names(field)
    }
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


def _check_names(file: Path, names: Iterable[str]) -> None:
    # Besides its own a field has the names of its variables, wherever it is read from.
    fields = {
        name: field
        for field in RelaySettings.model_fields
        for name in environment_names(field)
    }
    wrong = [
        f"{file}: {name}: "
        + (
            f"in a file this is called {fields[name]}"
            if name in fields
            else "no such setting; see relay serve --help"
        )
        for name in names
        if name not in RelaySettings.model_fields
    ]
    if wrong:
        raise SettingsError("\n".join(wrong))


def _explain(detail: Mapping[str, Any]) -> str:
    message = _word(detail)
    if not detail["loc"]:
        return message
    place = str(detail["loc"][0])
    for field in RelaySettings.model_fields:
        if place in {field, *environment_names(field)}:
            return f"{field} ({environment_names(field)[0]}): {message}"
    return f"{place}: {message}"


def _word(detail: Mapping[str, Any]) -> str:
    words = _WORDS.get(detail["type"])
    if words is None:
        return str(detail["msg"]).removeprefix("Value error, ")
    # The bounds of a fraction are fractions; nobody writes them so.
    context = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in detail.get("ctx", {}).items()
    }
    return words.format_map(context)
