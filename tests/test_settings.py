"""What an operator may set, how, and what is refused."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from relay.errors import SettingsError
from relay.settings import (
    AuthMode,
    RelaySettings,
    environment_names,
    is_loopback,
    load_settings,
)

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting from outside: an empty directory and no variable of ours."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("RELAY_", "DBOS_")):
            monkeypatch.delenv(name)


def test_without_anything_the_server_is_local_on_port_8090() -> None:
    """Defaults: loopback, port 8090, SQLite below the working directory, no keys."""
    settings = load_settings()

    assert (settings.host, settings.port) == ("127.0.0.1", 8090)
    assert settings.store_url == "sqlite+aiosqlite:///.relay/relay.db"
    assert settings.auth is AuthMode.LOCAL
    assert settings.is_auto_registering
    assert settings.ping_interval == timedelta(seconds=20)
    assert settings.ping_wait == timedelta(seconds=25)
    assert settings.fault_grace == timedelta(seconds=60)


def test_flags_win_over_the_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file gives way to the environment, and both to the command line."""
    Path("relay.toml").write_text("port = 1\nfault_grace_secs = 2\nhost = '::1'\n")
    monkeypatch.setenv("RELAY_PORT", "3")
    monkeypatch.setenv("RELAY_FAULT_GRACE_SECS", "4")

    settings = load_settings({"port": 5})

    assert (settings.port, settings.fault_grace_secs) == (5, 4)
    assert settings.host == "::1"


def test_another_file_is_named_by_flag_or_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`RELAY_CONFIG` names the file, `--config` names another."""
    for name, port in {"a.toml": 1, "b.toml": 2}.items():
        (tmp_path / name).write_text(f"port = {port}\n")
    monkeypatch.setenv("RELAY_CONFIG", "a.toml")

    assert load_settings().port == 1
    assert load_settings(file=tmp_path / "b.toml").port == 2
    with pytest.raises(SettingsError, match=r"missing\.toml does not exist"):
        load_settings(file=tmp_path / "missing.toml")


def test_upstream_names_are_aliases_and_relay_names_win(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upstream installation's variables are taken; the licence is ignored."""
    monkeypatch.setenv("DBOS__CONDUCTOR_DB_URL", "postgresql://old/db")
    monkeypatch.setenv("DBOS__CONDUCTOR_PORT", "7")
    monkeypatch.setenv("DBOS__ADVERTISE_ADDRESS", "host:7")
    monkeypatch.setenv("DBOS__METRICS_COLLECTION_PERIOD", "1")
    monkeypatch.setenv("DBOS_CONDUCTOR_LICENSE_KEY", "whatever")

    upstream = load_settings()
    monkeypatch.setenv("RELAY_PORT", "8")

    assert upstream.database_url == "postgresql://old/db"
    assert upstream.advertise_address == "host:7"
    assert upstream.metrics_collection_period == timedelta(seconds=1)
    assert (upstream.port, load_settings().port) == (7, 8)


@pytest.mark.parametrize("value", ["0", "-1", "0.5", "86401", "often"])
def test_a_period_of_counts_is_a_whole_number_of_seconds(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """A day at most; an empty variable is none, as everywhere."""
    monkeypatch.setenv("DBOS__METRICS_COLLECTION_PERIOD", "")
    assert load_settings().metrics_collection_secs == 300

    monkeypatch.setenv("DBOS__METRICS_COLLECTION_PERIOD", value)
    with pytest.raises(SettingsError, match="metrics_collection_secs"):
        load_settings()


@pytest.mark.parametrize("value", ["true", "True", "1", "yes", "enabled", "'true'"])
def test_a_server_that_was_protected_by_oidc_refuses_to_start(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Nobody's secured server runs open after a move to Relay."""
    monkeypatch.setenv("DBOS_OAUTH_ENABLED", value)

    with pytest.raises(SettingsError, match="OIDC is not in this version"):
        load_settings()


@pytest.mark.parametrize("value", ["false", "False", "0", "no", "off", "n", "f", ""])
def test_oidc_that_is_off_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """`DBOS_OAUTH_ENABLED=false` is what most installations say."""
    monkeypatch.setenv("DBOS_OAUTH_ENABLED", value)

    assert load_settings().port == 8090


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "relay.example", ""])  # noqa: S104 - the point
def test_local_mode_refuses_addresses_that_others_can_reach(host: str) -> None:
    """Without keys only this machine may connect, unless the operator insists."""
    with pytest.raises(SettingsError, match="RELAY_AUTH=keys"):
        load_settings({"host": host})

    assert load_settings({"host": host, "allow_unauthenticated": True}).host == host
    assert load_settings({"host": host, "auth": "keys"}).host == host


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"port": 65536}, r"port \(RELAY_PORT\): must be at most 65535$"),
        ({"auth": "oidc"}, r"auth \(RELAY_AUTH\): must be 'local' or 'keys'$"),
        ({"ping_wait_secs": 20}, "must be greater than ping_interval_secs"),
        ({"auth": "keys", "auto_register": True}, "works in local mode only"),
        ({"port": "80a"}, r"port \(RELAY_PORT\): must be a whole number$"),
        ({"port": 80.5}, "must be a whole number$"),
        ({"ping_wait_secs": "soon"}, "must be a number$"),
        ({"allow_unauthenticated": "maybe"}, "must be true or false$"),
        ({"host": 7}, "must be text$"),
        ({"data_dir": 7}, "must be a path$"),
        ({"trusted_proxies": 7}, "must be a list, or text with commas$"),
        ({"max_message_bytes": 0}, "must be more than 0$"),
        ({"max_unfinished_bytes": 1000}, "must be at least max_message_bytes"),
        ({"ping_interval_secs": 0}, "must be at least 0.01$"),
        ({"flush_interval_secs": 1e-9}, "must be at least 0.01$"),
        ({"ping_wait_secs": "inf"}, "must be a finite number$"),
        ({"fault_grace_secs": -1}, "must be at least 0$"),
        ({"request_timeout_secs": 0.5}, "must be at least 1$"),
        ({"request_timeout_secs": 30}, "must be at most 29$"),
        ({"slow_request_timeout_secs": 0}, "must be at least 0.01$"),
        ({"fault_grace_secs": 86_401}, "must be at most 86400$"),
        ({"audit_retention_days": 6}, "must be at least 7$"),
        ({"trusted_proxies": "10.0.0.1,nonsense"}, "'nonsense' is no address"),
        ({"root_path": "conductor"}, "must start with a slash"),
        ({"root_path": "/a b"}, "must be a plain path"),
        ({"public_url": "relay.example"}, "must be an http"),
        ({"public_url": "https://relay.example/?a=b"}, "no query"),
        ({"public_url": "https://:word@relay.example"}, "no query"),
        ({"public_url": "https://relay.example:port"}, "must be an http"),
        ({"public_url": "https://relay.example/a b"}, "must be an http"),
        ({"database_url": "sqlite:///\udcff"}, "must be UTF-8"),
    ],
)
def test_bad_values_are_named_with_the_rule_they_break(
    flags: dict[str, object], complaint: str
) -> None:
    """One line says which setting is wrong and why."""
    with pytest.raises(SettingsError, match=complaint) as caught:
        load_settings(flags)

    assert len(str(caught.value).splitlines()) == 1


def test_every_wrong_setting_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator does not find the errors one start at a time."""
    monkeypatch.setenv("RELAY_PORT", "abc")
    monkeypatch.setenv("RELAY_AUTH", "maybe")

    with pytest.raises(SettingsError) as caught:
        load_settings()

    assert [line.split()[0] for line in str(caught.value).splitlines()] == [
        "port",
        "auth",
    ]


def test_no_error_and_no_text_of_the_settings_holds_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database URL stays out of messages, tracebacks and the object's text."""
    monkeypatch.setenv("RELAY_DATABASE_URL", f"postgresql://relay:{PASSWORD}@db/relay")
    settings = load_settings()
    monkeypatch.setenv("RELAY_HOST", "0.0.0.0")  # noqa: S104 - to be refused

    with pytest.raises(SettingsError) as caught:
        load_settings()

    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert PASSWORD not in repr(settings)


def test_unknown_variables_of_ours_are_typing_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A misspelt variable stops the start instead of being ignored."""
    monkeypatch.setenv("RELAY_DATABSE_URL", "postgresql://x/y")

    with pytest.raises(SettingsError, match=r"^RELAY_DATABSE_URL: no such setting"):
        load_settings()


def test_variables_that_kubernetes_injects_are_none_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service called relay sets RELAY_* names; only its RELAY_PORT is in the way."""
    monkeypatch.setenv("RELAY_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("RELAY_SERVICE_PORT_HTTP", "8090")
    monkeypatch.setenv("RELAY_PORT_8090_TCP_ADDR", "10.0.0.1")
    monkeypatch.setenv("RELAY_API_PORT", "tcp://10.0.0.1:8090")
    assert load_settings().port == 8090
    monkeypatch.setenv("RELAY_PORT", "tcp://10.0.0.1:8090")

    with pytest.raises(SettingsError, match="enableServiceLinks"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", "^relay.toml: prot: no such setting"),
        ("[server]\nport = 1", "^relay.toml: server: no such setting"),
        ("RELAY_PORT = 1", "^relay.toml: RELAY_PORT: in a file this is called port$"),
        ("RELAY_AUTH = 'keys'", "^relay.toml: RELAY_AUTH: .* is called auth$"),
        ("DBOS__CONDUCTOR_PORT = 1", "PORT: in a file this is called port$"),
        ("port = ", "relay.toml: "),
        ("port = 'x'", "port"),
    ],
)
def test_errors_in_the_file_are_told(text: str, complaint: str) -> None:
    """Unknown keys, names of variables and broken syntax stop the start."""
    Path("relay.toml").write_text(text)

    with pytest.raises(SettingsError, match=complaint):
        load_settings()


def test_lists_are_written_with_commas_or_as_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The environment has no lists, TOML has."""
    Path("relay.toml").write_text("trusted_proxies = ['10.0.0.0/8']\n")
    from_file = load_settings().trusted_proxies
    monkeypatch.setenv("RELAY_TRUSTED_PROXIES", " 10.0.0.1, 2001:db8::/32 ,")

    assert from_file == ("10.0.0.0/8",)
    assert load_settings().trusted_proxies == ("10.0.0.1", "2001:db8::/32")


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files pass variables through empty."""
    monkeypatch.setenv("RELAY_PUBLIC_URL", "")
    monkeypatch.setenv("RELAY_PORT", "")

    assert load_settings() == load_settings({"port": 8090})


def test_paths_and_urls_lose_their_last_slash() -> None:
    """Callers append to them."""
    settings = load_settings(
        {"root_path": "/conductor/", "public_url": "https://relay.example/conductor/"}
    )

    assert settings.root_path == "/conductor"
    assert settings.public_url == "https://relay.example/conductor"


def test_auto_registration_belongs_to_local_mode() -> None:
    """On by default there, can be turned off, and is off with keys."""
    assert not load_settings({"auto_register": False}).is_auto_registering
    assert not load_settings({"auth": "keys"}).is_auto_registering


def test_every_setting_says_what_it_is_in_which_unit() -> None:
    """The help of `relay serve` is made of these descriptions."""
    for name, field in RelaySettings.model_fields.items():
        assert field.description, name
        for ending, unit in {
            "_secs": "second",
            "_bytes": "bytes",
            "_days": "days",
        }.items():
            if name.endswith(ending):
                assert unit in field.description, name


def test_the_first_variable_of_a_setting_is_ours() -> None:
    """Its own name, so that messages name it."""
    assert environment_names("host") == ("RELAY_HOST",)
    assert environment_names("port") == ("RELAY_PORT", "DBOS__CONDUCTOR_PORT")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_addresses_are_recognised(host: str) -> None:
    """Only this machine reaches these."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "Localhost", "127.0.0.2", "::1"])
def test_local_mode_listens_on_every_name_of_this_machine(host: str) -> None:
    """A host name has no case."""
    assert load_settings({"host": host}).host == host


def test_a_file_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that are there but closed to us are not taken for absent ones."""
    Path("relay.toml").write_text("auth = 'keys'")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "relay.toml")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr("builtins.open", refuse)

    with pytest.raises(SettingsError, match=r"relay\.toml: Permission denied"):
        load_settings()


def test_a_default_file_that_is_no_file_is_told() -> None:
    """A directory or a dead link in the place of `relay.toml` is a mistake."""
    Path("relay.toml").symlink_to("nowhere")

    with pytest.raises(SettingsError, match=r"relay\.toml is no file"):
        load_settings()
