"""Who may open an executor's socket while the store is away, and after."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.errors import StoreUnavailableError
from relay.hub.handshake import Admission, Refusal
from relay.registry import SHELL_ACTOR, Registry, newcomers
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from tests.registry.outages import FragileStore, admitted, operations
from tests.registry.test_gate import KNOCK, entries, mint, refused

SECOND = timedelta(seconds=1)
LATER = 5 * SECOND
"""Longer than any answer is given without asking, or not asked for again."""


# Local mode.


async def test_local_mode_keeps_the_application_it_knows(
    local: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """An outage however long changes nothing for its executors."""
    before = await local.admit(KNOCK)
    await clock.advance(timedelta(hours=1))

    with store.away():
        assert await local.admit(KNOCK) == before


async def test_an_application_registered_by_an_earlier_process_is_known(
    make_registry: Callable[..., Registry], store: FragileStore
) -> None:
    """A server learns all of them when it starts."""
    before = await make_registry().admit(KNOCK)
    local = make_registry()
    await local.catch_up()

    with store.away():
        assert await local.admit(KNOCK) == before


async def test_an_unheard_of_application_comes_in_and_is_registered_later(
    local: Registry, store: FragileStore
) -> None:
    """Its executors are of one application, which gets its row with the store."""
    with store.away():
        first = admitted(await local.admit(KNOCK))
        second = admitted(await local.admit(replace(KNOCK, peer_address="192.0.2.8")))

    await local.catch_up()

    assert second.application == first.application
    view = await local.applications.get("shop")
    assert view.record.ref == first.application
    [entry] = await entries(local)
    assert (entry.operation, entry.source_ip) == ("application.create", "192.0.2.9")


async def test_the_first_knock_after_an_outage_registers_the_application(
    local: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """Whoever comes first writes the row, with the identity that is in use already."""
    with store.away():
        before = await local.admit(KNOCK)
    await clock.advance(LATER)

    assert await local.admit(KNOCK) == before
    await local.catch_up()
    assert await operations(local, "application.create") == 1


async def test_a_name_that_others_took_meanwhile_is_theirs(
    make_registry: Callable[..., Registry], store: FragileStore, clock: FakeClock
) -> None:
    """The newcomer gets no row, and who knocks next is of the registered one."""
    local, other = make_registry(), make_registry()
    with store.away():
        newcomer = admitted(await local.admit(KNOCK)).application
    await other.applications.put(SHELL_ACTOR, "shop", private_mode=None)

    await local.catch_up()

    registered = (await local.applications.get("shop")).record.ref
    assert registered != newcomer
    await clock.advance(LATER)
    assert admitted(await local.admit(KNOCK)).application == registered


async def test_a_newcomer_whose_name_was_deleted_gets_no_row(
    make_registry: Callable[..., Registry], store: FragileStore, clock: FakeClock
) -> None:
    """That the name needs a PUT comes out when the store is back."""
    other = make_registry()
    await other.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await other.applications.delete(SHELL_ACTOR, "shop")
    local = make_registry()
    with store.away():
        admitted(await local.admit(KNOCK))

    await local.catch_up()

    assert await local.applications.list_all(SHELL_ACTOR.principal) == []
    await clock.advance(LATER)
    assert "PUT" in refused(await local.admit(KNOCK), 404)


async def test_a_deleted_name_stays_deleted(
    make_registry: Callable[..., Registry], store: FragileStore
) -> None:
    """Also when it was deleted before this server started."""
    other = make_registry()
    await other.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await other.applications.delete(SHELL_ACTOR, "shop")
    local = make_registry()
    await local.catch_up()
    await local.applications.put(SHELL_ACTOR, "bank", private_mode=None)
    await local.applications.delete(SHELL_ACTOR, "bank")

    with store.away():
        for name in ("shop", "bank"):
            answer = await local.admit(replace(KNOCK, app_name=name))
            assert "PUT" in refused(answer, 404)


async def test_without_auto_register_only_the_known_come_in(
    make_registry: Callable[..., Registry], store: FragileStore
) -> None:
    """Whether another application exists cannot be said."""
    registry = make_registry(auto_register=False)
    await registry.applications.put(SHELL_ACTOR, "shop", private_mode=None)

    with store.away():
        admitted(await registry.admit(KNOCK))
        refused(await registry.admit(replace(KNOCK, app_name="bank")), 503)


async def test_web_pages_stay_out(local: Registry, store: FragileStore) -> None:
    """What protects local mode needs no store."""
    with store.away():
        refused(await local.admit(replace(KNOCK, origin="http://evil.example")), 403)
        refused(await local.admit(replace(KNOCK, host="evil.example")), 403)
        refused(await local.admit(replace(KNOCK, app_name="Shop")), 404)


async def test_a_known_key_is_named_and_an_unknown_one_no_obstacle(
    local: Registry, store: FragileStore
) -> None:
    """In local mode a key only gives a socket its name."""
    await local.admit(KNOCK)
    text = await mint(local, "worker")

    with store.away():
        known = admitted(await local.admit(replace(KNOCK, key=text)))
        unknown = admitted(await local.admit(replace(KNOCK, key="dbos_" + "x" * 43)))

    assert (known.key_name, unknown.key_name) == ("worker", None)


async def test_newcomers_are_bounded(
    local: Registry, store: FragileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever invents names does not fill the memory; those inside go on."""
    monkeypatch.setattr(newcomers, "CAPACITY", 2)

    with store.away():
        for name in ("one", "two"):
            admitted(await local.admit(replace(KNOCK, app_name=name)))
        refused(await local.admit(replace(KNOCK, app_name="three")), 503)
        admitted(await local.admit(replace(KNOCK, app_name="two")))
    await local.catch_up()

    with store.away():
        admitted(await local.admit(replace(KNOCK, app_name="three")))


async def test_many_newcomers_are_registered_batch_by_batch(
    local: Registry, store: FragileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is forgotten because there are many."""
    monkeypatch.setattr(newcomers, "BATCH", 2)
    names = [f"shop-{number}" for number in range(5)]

    with store.away():
        for name in names:
            await local.admit(replace(KNOCK, app_name=name))
    await local.catch_up()

    views = await local.applications.list_all(SHELL_ACTOR.principal)
    assert [view.record.ref.name for view in views] == names


# Keys mode.


async def test_known_keys_come_in_and_others_are_judged_as_before(
    keyed: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """Only who was never heard of is asked to wait: we cannot say it is nobody."""
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await keyed.applications.put(SHELL_ACTOR, "bank", private_mode=None)
    good = await mint(keyed, "good")
    limited = await mint(keyed, "limited", applications=["bank"])
    reader = await mint(keyed, "reader", ["application.read"])
    revoked = await mint(keyed, "revoked")
    await keyed.revoke_key(SHELL_ACTOR, "revoked")
    await clock.advance(timedelta(hours=1))

    async def knock(key: str, app_name: str = "shop") -> Admission | Refusal:
        return await keyed.admit(replace(KNOCK, key=key, app_name=app_name))

    with store.away():
        assert admitted(await knock(good)).key_name == "good"
        admitted(await knock(limited, "bank"))
        refused(await knock(limited), 403)
        refused(await knock(reader), 403)
        refused(await knock(revoked), 401)
        refused(await knock("no key at all"), 401)
        detail = refused(await knock("dbos_" + "x" * 43), 503)
        refused(await knock(good, "nowhere"), 503)
    assert "secret-host" not in detail


async def test_keys_of_the_command_line_are_known(
    make_registry: Callable[..., Registry], store: FragileStore, clock: FakeClock
) -> None:
    """Minted or revoked by another process, before the start or a moment ago."""
    shell, server = (make_registry(auth="keys") for _ in range(2))
    await shell.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    old, doomed = await mint(shell, "old"), await mint(shell, "doomed")
    await clock.advance(timedelta(hours=1))
    await server.catch_up()
    await clock.advance(2 * SECOND)
    new = await mint(shell, "new")
    await shell.revoke_key(SHELL_ACTOR, "doomed")
    await server.catch_up()

    with store.away():
        for key in (old, new):
            admitted(await server.admit(replace(KNOCK, key=key)))
        refused(await server.admit(replace(KNOCK, key=doomed)), 401)


async def test_a_refusal_in_an_outage_is_written_down_after_it(
    keyed: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """The client is told at once, and goes on knocking; it is not forgotten for it."""
    text = await mint(keyed, "worker")
    await keyed.revoke_key(SHELL_ACTOR, "worker")
    knock = replace(KNOCK, key=text)

    with store.away():
        refused(await keyed.admit(knock), 401)
        refused(await keyed.admit(knock), 401)
    assert await operations(keyed, "executor.refuse") == 0
    await clock.advance(LATER)
    refused(await keyed.admit(knock), 401)
    refused(await keyed.admit(knock), 401)

    assert await operations(keyed, "executor.refuse") == 1


# A store that hangs, and one that is asked by thousands.


async def test_a_refusal_whose_writing_was_cut_short_is_written_down_later(
    keyed: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """The limit of an admission ends it before the store has answered."""
    await keyed.catch_up()
    knock = replace(KNOCK, key="no key at all")

    async with TaskSet("knocks") as tasks:
        with store.hanging():
            knocking = tasks.spawn(keyed.admit(knock), name="knock")
            await clock.settle()
            assert not knocking.done()
            knocking.cancel()
            await asyncio.wait([knocking])
    assert await operations(keyed, "executor.refuse") == 0
    await clock.advance(LATER)
    refused(await keyed.admit(knock), 401)

    assert await operations(keyed, "executor.refuse") == 1


async def test_one_knock_waits_for_a_store_that_hangs_and_the_others_do_not(
    local: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """Its silence of 2 s answers for the next second."""
    await local.admit(KNOCK)
    await clock.advance(LATER)

    async with TaskSet("knocks") as knocks:
        with store.hanging():
            waiting = knocks.spawn(local.admit(KNOCK), name="first")
            await clock.advance(1.9 * SECOND)
            assert not waiting.done()
            await clock.advance(0.1 * SECOND)
            admitted(await waiting)
            asked = store.questions
            for number in range(1000):
                admitted(await local.admit(replace(KNOCK, app_name=f"shop-{number}")))

            assert store.questions == asked
    await local.finish()


async def test_a_store_that_hangs_is_asked_once_a_second(
    keyed: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """By the first who knocks then, while the others are answered from memory."""
    knock = replace(KNOCK, key=await mint(keyed, "worker"))
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await clock.advance(LATER)
    with store.away():
        await keyed.admit(knock)
        asked = store.questions

        for _ in range(3):
            await clock.advance(SECOND)
            for _ in range(100):
                admitted(await keyed.admit(knock))

    assert store.questions == asked + 3


async def test_one_knock_at_a_time_finds_out_whether_a_store_still_hangs(
    local: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """A thousand that come while the first waits for it do not wait."""
    await local.admit(KNOCK)
    with store.away():
        await clock.advance(LATER)
        await local.admit(KNOCK)
    await clock.advance(SECOND)
    asked = store.questions

    async with TaskSet("knocks") as knocks:
        with store.hanging():
            for number in range(1000):
                knocks.spawn(local.admit(KNOCK), name=f"{number}")
            await clock.settle()

            assert len(knocks) == 1
            assert store.questions == asked + 1
    await local.finish()


async def test_a_store_that_is_back_is_noticed_within_a_second(
    keyed: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """The beginning and the end of an outage are one line each."""
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    unknown = replace(KNOCK, key="dbos_" + "x" * 43)

    with capture_logs() as logged:
        with store.away():
            for _ in range(5):
                refused(await keyed.admit(unknown), 503)
                await clock.advance(SECOND)
        refused(await keyed.admit(unknown), 401)

    events = [line["event"] for line in logged if line["event"].startswith("store_")]
    assert events == ["store_does_not_answer", "store_answers_again"]


async def test_the_outage_of_a_defect_is_none(
    local: Registry, store: FragileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no absence of the store reaches the caller, and nobody else."""
    with monkeypatch.context() as defect:
        defect.setattr(store, "read", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await local.admit(KNOCK)

    admitted(await local.admit(KNOCK))


async def test_readiness_does_not_wait_for_a_store_that_hangs(
    local: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """Whoever asks whether this server can work is told within 2 s."""

    async def ping() -> bool:
        try:
            await local.ping()
        except StoreUnavailableError:
            return False
        return True

    async with TaskSet("probes") as probes:
        with store.hanging():
            probe = probes.spawn(ping(), name="probe")
            await clock.advance(2 * SECOND)
            assert not await probe
    await clock.advance(SECOND)

    assert await ping()


async def test_a_storm_asks_the_store_once_a_second(
    keyed: Registry, store: FragileStore, clock: FakeClock
) -> None:
    """However many executors of one application knock with one key."""
    knock = replace(KNOCK, key=await mint(keyed, "worker"))
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await clock.advance(SECOND)
    asked = store.questions

    for _ in range(1000):
        admitted(await keyed.admit(knock))
    assert store.questions == asked + 2
    await clock.advance(SECOND)
    for _ in range(1000):
        admitted(await keyed.admit(knock))
    assert store.questions == asked + 4


async def test_a_storm_does_not_outlast_a_revocation(
    make_registry: Callable[..., Registry], clock: FakeClock
) -> None:
    """At once where it was made, within a second where another process made it."""
    shell, server = (make_registry(auth="keys") for _ in range(2))
    await shell.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    here, there = await mint(shell, "here"), await mint(shell, "there")
    for key in (here, there):
        admitted(await server.admit(replace(KNOCK, key=key)))

    await server.revoke_key(SHELL_ACTOR, "here")
    await shell.revoke_key(SHELL_ACTOR, "there")

    refused(await server.admit(replace(KNOCK, key=here)), 401)
    await clock.advance(SECOND)
    refused(await server.admit(replace(KNOCK, key=there)), 401)
