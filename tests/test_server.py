"""The assembled server: how it opens, what it outlives, how it closes."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from relay.clock import SystemClock
from relay.errors import SchemaTooNewError, SettingsError, StoreLockedError
from relay.liveness.states import ExecutorStatus
from relay.registry import SHELL_ACTOR
from relay.server import open_migrated, open_offline, open_server
from relay.server.loops import kept_running
from relay.settings import AuthMode, RelaySettings, load_settings
from relay.store import Store
from relay.testing.executor import FakeExecutor
from relay.testing.work import FakeWork
from tests.newer_schema import extend_migrations
from tests.ports import ReservedPort
from tests.serving import CLOCK, serving

HEADER = b"SQLite format 3\0"
"""How an SQLite file begins."""


class _EnoughError(Exception):
    """Ends a loop that would run for ever."""


class ImpatientClock(SystemClock):
    """Never sleeps; notes the spans, and gives up after `limit` of them."""

    def __init__(self, limit: int) -> None:
        self.slept: list[float] = []
        self._limit = limit

    async def sleep(self, span: timedelta) -> None:
        self.slept.append(span.total_seconds())
        if len(self.slept) >= self._limit:
            raise _EnoughError


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RelaySettings:
    """A server of its own, with data in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return load_settings({"data_dir": tmp_path / "data", "port": 0})


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of the developer's own Relay."""
    with monkeypatch.context() as patch:
        patch.delenv("RELAY_DATA_DIR", raising=False)
        patch.delenv("RELAY_DATABASE_URL", raising=False)
        yield


async def test_a_second_server_on_one_file_is_refused(settings: RelaySettings) -> None:
    """The first keeps the file until it has closed; commands may use it meanwhile."""
    async with open_server(settings):
        with pytest.raises(StoreLockedError, match="; stop it first"):
            async with open_server(settings):
                pass
        async with open_offline(settings) as offline:
            assert await offline.registry.keys.list_live() == []

    async with open_server(settings) as server:
        await server.store.ping()


async def test_the_start_waits_for_a_database_that_is_away() -> None:
    """It tries again after 1, 2, 4, 5, 5 … s, and each time says so without the URL."""
    clock = ImpatientClock(limit=7)
    with ReservedPort() as port:
        settings = load_settings(
            {"database_url": f"postgresql://u:hunter2@127.0.0.1:{port.number}/relay"}
        )
        with capture_logs() as logs, pytest.raises(_EnoughError):
            async with open_server(settings, clock=clock):
                pass

    assert clock.slept == [1, 2, 4, 5, 5, 5, 5]
    assert [line["event"] for line in logs] == ["database_unavailable"] * 7
    assert logs[-1]["next_try_in_secs"] == 5
    assert "hunter2" not in str(logs)


async def test_a_newer_schema_stops_the_start(settings: RelaySettings) -> None:
    """A binary below the schema's `min_compatible` says which one is needed."""
    async with open_server(settings):
        pass
    _require_relay(settings, "99.0")

    with pytest.raises(SchemaTooNewError, match=r"needs Relay 99\.0 or newer"):
        async with open_server(settings):
            pass


async def test_a_database_url_nobody_can_use_is_told() -> None:
    """The message says what a URL begins with."""
    settings = load_settings({"database_url": "mysql://h/d"})

    with pytest.raises(SettingsError, match="sqlite:// or postgresql://"):
        async with open_server(settings):
            pass


async def test_a_loop_that_fails_is_logged_and_begins_again() -> None:
    """A server whose recovery has silently ended would be worse than none."""
    clock = ImpatientClock(limit=3)

    async def broken() -> None:
        raise ValueError("a bug")

    with capture_logs() as logs, pytest.raises(_EnoughError):
        await kept_running("recovery", broken, clock)

    assert [(line["event"], line["loop"]) for line in logs] == [
        ("loop_failed", "recovery")
    ] * 3


async def test_executors_of_a_server_that_stops_get_the_fault_grace(
    settings: RelaySettings,
) -> None:
    """An orderly stop is told to executors, and recorded as a loss Relay caused."""
    async with serving(settings) as relay:
        executor = await FakeExecutor.connect(relay.url, "loop")
        await _until_known(relay.server.store, ExecutorStatus.HEALTHY)
    async with executor:
        await executor.closed.wait()

    async with open_offline(settings) as offline, offline.store.read() as work:
        (application,) = await work.applications.list_all()
        (row,) = await work.executors.list_by_application(
            application.ref.id, after=None, limit=2
        )
    assert row.status is ExecutorStatus.DISCONNECTED
    assert row.grace_is_fault


async def test_orders_are_not_held_back_where_nobody_was_known(
    settings: RelaySettings,
) -> None:
    """On a new database the first dead executor is recovered at once."""
    assert settings.start_hold > timedelta(seconds=20)
    async with serving(settings) as relay:
        async with await FakeExecutor.connect(relay.url, "loop", executor_id="peer"):
            async with await FakeExecutor.connect(
                relay.url, "loop", executor_id="dead"
            ):
                await _until_known(relay.server.store, ExecutorStatus.HEALTHY, count=2)
                answer = await relay.http.patch(
                    "/v2/orgs/local/apps/loop", json={"executorTimeoutSecs": 1}
                )
                assert answer.is_success

            await _until_known(relay.server.store, ExecutorStatus.HEALTHY, count=1)


async def test_orders_are_held_back_where_somebody_was_known(
    settings: RelaySettings,
) -> None:
    """After a restart the dead may be redialling at this moment."""
    async with serving(settings) as relay:
        async with await FakeExecutor.connect(relay.url, "loop", executor_id="dead"):
            await _until_known(relay.server.store, ExecutorStatus.HEALTHY)
            await relay.http.patch(
                "/v2/orgs/local/apps/loop", json={"executorTimeoutSecs": 1}
            )
        await _until_known(relay.server.store, ExecutorStatus.DEAD)

    work = FakeWork()
    work.add("dead", "v1", "w1")
    async with (
        serving(settings) as relay,
        await FakeExecutor.connect(
            relay.url, "loop", executor_id="peer", work=work
        ) as peer,
        CLOCK.timeout(timedelta(seconds=15)),
    ):
        while True:
            [recovery] = await relay.server.ledger.list_all()
            if "just started" in (recovery.reason or ""):
                break
            await CLOCK.sleep(timedelta(milliseconds=20))
        assert peer.received("recovery") == []


async def test_the_story_of_a_death_begins_with_the_disconnect(
    settings: RelaySettings,
) -> None:
    """Whoever asks why something was recovered reads how it was lost."""
    async with serving(settings) as relay:
        async with await FakeExecutor.connect(relay.url, "loop", executor_id="dead"):
            await _until_known(relay.server.store, ExecutorStatus.HEALTHY)
            answer = await relay.http.patch(
                "/v2/orgs/local/apps/loop", json={"executorTimeoutSecs": 1}
            )
            assert answer.is_success
        await _until_known(relay.server.store, ExecutorStatus.DEAD)
        [recovery] = await relay.server.ledger.list_all()
        story = await relay.server.ledger.get(recovery.id)

    lost, dead = [record.entry for record in story.entries][:2]
    assert (lost.operation, dead.operation) == ("executor.disconnect", "executor.dead")
    assert lost.details["executor_id"] == "dead"
    assert lost.details["grace_secs"] == 1


async def test_the_audit_retention_of_the_settings_is_that_of_local(
    settings: RelaySettings,
) -> None:
    """Each start of a server writes it into the row; a command does not."""
    for days in (30, 10):
        changed = settings.model_copy(update={"audit_retention_days": days})
        async with open_server(changed):
            pass

        async with open_offline(settings) as offline, offline.store.read() as work:
            (local,) = await work.organizations.list_all()
        assert local.audit_retention == timedelta(days=days)


async def test_a_command_may_be_allowed_to_create_a_database(
    settings: RelaySettings,
) -> None:
    """`relay key create` may come before the first start; it is told of the file."""
    created: list[Path] = []
    for _ in range(2):
        async with open_offline(settings, on_created=created.append) as offline:
            assert await offline.registry.keys.list_live() == []

    assert created == [settings.data_dir / "relay.db"]


async def test_a_command_refuses_a_missing_database(settings: RelaySettings) -> None:
    """Otherwise it would work on a new one, in the wrong directory."""
    with pytest.raises(SettingsError, match=r"no database at .*/data/relay\.db; run"):
        async with open_offline(settings):
            pass

    assert not settings.data_dir.exists()


async def test_a_command_refuses_an_empty_database(settings: RelaySettings) -> None:
    """A file without a schema was made by nobody's server."""
    settings.data_dir.mkdir()
    (settings.data_dir / "relay.db").touch()

    with pytest.raises(SettingsError, match="the database is empty"):
        async with open_offline(settings):
            pass


@pytest.mark.parametrize("content", [b"no database, " * 500, HEADER + b"\xff" * 8000])
async def test_a_file_that_is_no_database_stops_server_and_command(
    settings: RelaySettings, content: bytes
) -> None:
    """It will not become one: nobody waits, and the file stays as it is."""
    file = settings.data_dir / "relay.db"
    settings.data_dir.mkdir()
    file.write_bytes(content)

    with pytest.raises(SettingsError, match=rf"{file} cannot be used as the database"):
        async with open_server(settings):
            pass
    with pytest.raises(SettingsError, match=rf"{file} cannot be used as the database"):
        async with open_offline(settings):
            pass
    assert file.read_bytes() == content


async def test_a_read_only_file_stops_server_and_command(
    settings: RelaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system says, which lets root write to any file."""
    async with open_server(settings):
        pass
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)

    with pytest.raises(SettingsError, match="must be readable and writable"):
        async with open_server(settings):
            pass
    with pytest.raises(SettingsError, match="must be readable and writable"):
        async with open_offline(settings):
            pass


async def test_a_directory_in_place_of_the_file_is_told(
    settings: RelaySettings,
) -> None:
    """It will not become a file, however long a server waits."""
    (settings.data_dir / "relay.db").mkdir(parents=True)

    with pytest.raises(SettingsError, match="is no file"):
        async with open_server(settings):
            pass


async def test_a_server_without_any_key_says_how_to_make_one(
    settings: RelaySettings,
) -> None:
    """In keys mode nobody could connect; in local mode nobody needs a key."""
    guarded = settings.model_copy(update={"auth": AuthMode.KEYS})

    assert await _warnings_at_start(settings) == []
    assert await _warnings_at_start(guarded) == [
        ("no_keys_exist", "relay key create operator --admin")
    ]
    async with open_offline(settings) as offline:
        await offline.registry.keys.create(
            SHELL_ACTOR,
            "operator",
            permissions=None,
            application_names=None,
            is_admin=True,
        )
    assert await _warnings_at_start(guarded) == []


async def _warnings_at_start(settings: RelaySettings) -> list[tuple[str, str]]:
    """Event and hint of each."""
    with capture_logs() as logs:
        async with open_server(settings):
            pass
    return [
        (line["event"], line["hint"]) for line in logs if line["log_level"] == "warning"
    ]


async def test_a_command_does_not_migrate_under_a_server(
    settings: RelaySettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An older schema is refused and stays; `relay migrate` brings it up to date."""
    async with open_server(settings):
        with monkeypatch.context() as newer:
            extend_migrations(newer, tmp_path / "migrations")
            for _ in range(2):
                with pytest.raises(SettingsError, match="run `relay migrate`"):
                    async with open_offline(settings):
                        pass

    extend_migrations(monkeypatch, tmp_path / "again")
    async with open_migrated(settings):
        pass
    async with open_offline(settings) as offline:
        assert await offline.registry.keys.list_live() == []


async def test_a_command_refuses_a_newer_schema(settings: RelaySettings) -> None:
    """The message says which Relay is needed."""
    async with open_server(settings):
        pass
    _require_relay(settings, "99.0")

    with pytest.raises(SchemaTooNewError, match=r"needs Relay 99\.0 or newer"):
        async with open_offline(settings):
            pass


def _require_relay(settings: RelaySettings, version: str) -> None:
    """Let the schema exclude every Relay before `version`."""
    with closing(sqlite3.connect(settings.data_dir / "relay.db")) as connection:
        connection.execute("UPDATE relay_schema SET min_compatible = ?", [version])
        connection.commit()


async def _until_known(store: Store, status: ExecutorStatus, *, count: int = 1) -> None:
    """Wait until exactly `count` executors are known, all of them with `status`."""
    async with CLOCK.timeout(timedelta(seconds=15)):
        while True:
            async with store.read() as work:
                counts = await work.executors.count_by_status()
            if {k: v for k, v in counts.items() if v} == {status: count}:
                return
            await CLOCK.sleep(timedelta(milliseconds=20))
