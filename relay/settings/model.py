"""The fields: what can be set, to what, and what it is without being set."""

import ipaddress
import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from relay.settings.sources import CURRENT_FILE, ENVIRONMENT_PREFIX, check_names

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
    request_timeout_secs: float = Field(
        default=25,
        ge=1,
        le=29,
        allow_inf_nan=False,
        description="seconds the executors have, together, to answer a caller's"
        " request; one has 10 at most while another can be asked",
    )
    slow_request_timeout_secs: Seconds = Field(
        default=300,
        description="seconds they have for exports, imports and bulk operations",
    )
    retention_interval_secs: Seconds = Field(
        default=300, description="seconds between retention messages, jittered"
    )
    census_interval_secs: Seconds = Field(
        default=300, description="seconds between counts of pending work, jittered"
    )
    metrics_collection_secs: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="seconds that one count of workflows and steps is about",
        validation_alias=AliasChoices(
            "RELAY_METRICS_COLLECTION_SECS", "DBOS__METRICS_COLLECTION_PERIOD"
        ),
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
    max_unfinished_bytes: int = Field(
        default=512 * 1024 * 1024,
        gt=0,
        description="most of all messages that are still arriving, together, in bytes",
    )
    audit_retention_days: int = Field(
        default=90,
        ge=7,
        le=3650,
        description="days that audit entries and closed recoveries are kept",
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
        file = TomlConfigSettingsSource(settings_cls, CURRENT_FILE.get())
        check_names(CURRENT_FILE.get(), file.toml_data, list_variables())
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
        if self.max_unfinished_bytes < self.max_message_bytes:
            raise ValueError(
                "max_unfinished_bytes must be at least max_message_bytes, or the"
                " largest message never arrives"
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
    def request_timeout(self) -> timedelta:
        return timedelta(seconds=self.request_timeout_secs)

    @property
    def slow_request_timeout(self) -> timedelta:
        return timedelta(seconds=self.slow_request_timeout_secs)

    @property
    def retention_interval(self) -> timedelta:
        return timedelta(seconds=self.retention_interval_secs)

    @property
    def census_interval(self) -> timedelta:
        return timedelta(seconds=self.census_interval_secs)

    @property
    def metrics_collection_period(self) -> timedelta:
        return timedelta(seconds=self.metrics_collection_secs)

    @property
    def flush_interval(self) -> timedelta:
        return timedelta(seconds=self.flush_interval_secs)

    @property
    def audit_retention(self) -> timedelta:
        return timedelta(days=self.audit_retention_days)


def environment_names(field: str) -> tuple[str, ...]:
    """The variables that set `field`; the first one wins."""
    alias = RelaySettings.model_fields[field].validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices)
    return (ENVIRONMENT_PREFIX + field.upper(),)


def list_variables() -> dict[str, tuple[str, ...]]:
    """Each field's name, and the variables that set it."""
    return {field: environment_names(field) for field in RelaySettings.model_fields}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
