"""Revocations, last uses and changes that meet each other."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.errors import ConflictError, InvalidInputError, StoreUnavailableError
from relay.records import ApplicationRecord
from relay.registry import (
    SHELL_ACTOR,
    ApplicationChange,
    AuditQuery,
    MintedKey,
    Registry,
)
from relay.store import Store
from relay.store.applications import ApplicationRepository
from relay.tasks import TaskSet
from relay.testing.clock import START, FakeClock
from tests.registry.sockets import RecordingSockets


async def mint(registry: Registry, name: str) -> None:
    """A key with the default permissions."""
    await registry.keys.create(
        SHELL_ACTOR, name, permissions=None, application_names=None
    )


async def until_closed(
    sockets: RecordingSockets, store: Store, clock: FakeClock
) -> None:
    """Let time pass, but no faster than the database answers."""
    for _ in range(200):
        # It has threads of its own: a question of ours gives them time.
        await store.ping()
        if sockets.closed_keys:
            return
        await clock.advance(timedelta(seconds=1))
    raise AssertionError("no socket was closed")


async def test_revocation_by_another_process_closes_sockets(
    make_registry: Callable[..., Registry],
    store: Store,
    sockets: RecordingSockets,
    clock: FakeClock,
) -> None:
    """The command line revokes in the database; the server finds it in time."""
    server, shell = make_registry(auth="keys"), make_registry(auth="keys")
    await mint(server, "worker")
    record = await shell.keys.revoke(SHELL_ACTOR, "worker")

    async with TaskSet("test") as tasks:
        tasks.spawn(server.run(), name="registry")
        await until_closed(sockets, store, clock)

    assert {key_id for key_id, _ in sockets.closed_keys} == {record.id}


async def test_many_revocations_are_one_pass_over_the_sockets(
    keyed: Registry, sockets: RecordingSockets
) -> None:
    """Hundreds of keys and ten thousand sockets would be seconds of work otherwise."""
    for number in range(5):
        await mint(keyed, f"worker-{number}")
        await keyed.keys.revoke(SHELL_ACTOR, f"worker-{number}")

    await keyed.catch_up()

    assert len(sockets.closed_keys) == 5
    assert sockets.passes == 1


async def test_revocation_keeps_counting_for_a_while(
    keyed: Registry, sockets: RecordingSockets, clock: FakeClock
) -> None:
    """A socket that was let in while the key was revoked is closed a moment later."""
    await mint(keyed, "worker")
    record = await keyed.keys.revoke(SHELL_ACTOR, "worker")

    await keyed.catch_up()
    await clock.advance(timedelta(seconds=30))
    await keyed.catch_up()
    await clock.advance(timedelta(seconds=45))
    await keyed.catch_up()
    await clock.advance(timedelta(seconds=45))
    await keyed.catch_up()

    assert [key_id for key_id, _ in sockets.closed_keys] == [record.id] * 3


async def test_revocation_during_an_outage_is_not_missed(
    keyed: Registry,
    store: Store,
    sockets: RecordingSockets,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the store was away, the look begins where the last one ended."""
    await mint(keyed, "worker")
    await keyed.catch_up()
    record = await keyed.keys.revoke(SHELL_ACTOR, "worker")

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailableError("gone")

    with monkeypatch.context() as outage:
        outage.setattr(store, "read", refuse)
        with pytest.raises(StoreUnavailableError):
            await keyed.catch_up()
    await clock.advance(timedelta(minutes=10))
    await keyed.catch_up()

    assert [key_id for key_id, _ in sockets.closed_keys] == [record.id]


async def test_outage_does_not_end_the_watch(
    keyed: Registry,
    store: Store,
    sockets: RecordingSockets,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is logged once, and the watch goes on when the store is back."""
    await mint(keyed, "worker")
    await keyed.keys.revoke(SHELL_ACTOR, "worker")

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailableError("gone")

    async with TaskSet("test") as tasks:
        with monkeypatch.context() as outage, capture_logs() as logged:
            outage.setattr(store, "read", refuse)
            tasks.spawn(keyed.run(), name="registry")
            await clock.advance(timedelta(seconds=10))
        await until_closed(sockets, store, clock)

    assert [line["event"] for line in logged] == ["revocations_not_read"]


async def test_last_uses_are_written_in_batches(
    make_registry: Callable[..., Registry], clock: FakeClock
) -> None:
    """Not with every call, but while the server runs."""
    registry = make_registry(auth="keys", flush_interval_secs=30)
    minted = await registry.keys.create(
        SHELL_ACTOR, "worker", permissions=None, application_names=None
    )
    await registry.keys.authenticate(minted.text)
    [early] = await registry.keys.list_live()
    async with TaskSet("test") as tasks:
        tasks.spawn(registry.run(), name="registry")
        while (late := (await registry.keys.list_live())[0]).last_used_at is None:
            await clock.advance(timedelta(seconds=1))

    assert early.last_used_at is None
    assert late.last_used_at >= START + timedelta(seconds=30)


async def test_changes_at_once_lose_nothing(local: Registry) -> None:
    """Two callers that change different settings both get their way."""
    await local.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    changes = [
        ApplicationChange(executor_timeout=timedelta(seconds=70)),
        ApplicationChange(gc_rows_threshold=80),
        ApplicationChange(global_timeout=timedelta(seconds=90)),
        ApplicationChange(private_mode=True),
    ]

    await asyncio.gather(
        *(local.applications.change(SHELL_ACTOR, "shop", change) for change in changes)
    )

    record = (await local.applications.get("shop")).record
    assert record.executor_timeout == timedelta(seconds=70)
    assert record.gc_rows_threshold == 80
    assert record.global_timeout == timedelta(seconds=90)
    assert record.private_mode is True


async def test_puts_at_once_create_once(local: Registry) -> None:
    """All succeed, one of them as the creation."""
    created = await asyncio.gather(
        *(
            local.applications.put(SHELL_ACTOR, "shop", private_mode=None)
            for _ in range(4)
        )
    )

    assert sorted(created) == [False, False, False, True]
    records = await local.list_audit(AuditQuery(operation="application.create"))
    assert len(records) == 1


async def test_keys_of_one_name_at_once_are_one_key(local: Registry) -> None:
    """The others are told that the name is taken."""
    outcomes = await asyncio.gather(
        *(mint(local, "worker") for _ in range(4)), return_exceptions=True
    )

    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 3


async def test_minted_key_does_not_print_itself(local: Registry) -> None:
    """A traceback or a log line that holds it holds no secret."""
    minted = await local.keys.create(
        SHELL_ACTOR, "worker", permissions=None, application_names=None
    )

    assert minted.text not in repr(minted)


async def test_shell_alone_mints_an_admin(local: Registry) -> None:
    """An admin key holds everything, `token.write` included."""
    minted = await local.keys.create(
        SHELL_ACTOR, "admin", permissions=None, application_names=None, is_admin=True
    )

    assert "token.write" in minted.record.permissions
    assert len(minted.record.permissions) == 8


async def test_scope_whose_application_is_deleted_meanwhile_is_refused(
    local: Registry, store: Store
) -> None:
    """Minting a key and deleting its application come one after the other."""
    for round_number in range(10):
        name = f"shop-{round_number}"
        await local.applications.put(SHELL_ACTOR, name, private_mode=None)

        outcomes = await asyncio.gather(
            local.keys.create(
                SHELL_ACTOR, name, permissions=None, application_names=[name]
            ),
            local.applications.delete(SHELL_ACTOR, name),
            return_exceptions=True,
        )

        assert isinstance(outcomes[0], MintedKey | InvalidInputError)
        assert outcomes[1] is None


async def test_scope_names_follow_the_rule_of_applications(local: Registry) -> None:
    """PostgreSQL would not even look for a name with a NUL."""
    with pytest.raises(InvalidInputError, match="3 to 256 characters"):
        await local.keys.create(
            SHELL_ACTOR, "worker", permissions=None, application_names=["nul\0name"]
        )


async def test_put_outlasts_others_who_delete_and_register_the_name(
    local: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often somebody comes in between, the application is there afterwards."""
    insert, conflicts = ApplicationRepository.insert, iter(range(3))

    async def be_late(
        applications: ApplicationRepository, record: ApplicationRecord
    ) -> None:
        if next(conflicts, None) is not None:
            raise ConflictError("somebody was faster")
        await insert(applications, record)

    monkeypatch.setattr(ApplicationRepository, "insert", be_late)

    assert await local.applications.put(SHELL_ACTOR, "shop", private_mode=None)
