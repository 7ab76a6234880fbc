"""Owners whose pending work nobody will recover by themselves."""

from dataclasses import replace
from datetime import timedelta

from relay.ids import AppVersion, ConnectionId, ExecutorId, RecoveryId
from relay.liveness.states import ExecutorStatus
from relay.records import Owner, OwnerKind, OwnerRecord, RecoveryState
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import (
    APP,
    OTHER_APP,
    add_executors,
    add_recoveries,
    make_executor,
    make_recovery,
    register,
)

MINUTE = timedelta(minutes=1)
UNKNOWN, ABANDONED, OTHER = (
    OwnerKind.UNKNOWN,
    OwnerKind.ABANDONED,
    OwnerKind.OTHER_VERSION,
)


def owner(executor_id: str = "e1", version: str = "v1") -> Owner:
    return Owner(ExecutorId(executor_id), AppVersion(version))


async def note(
    store: Store, owners: dict[Owner, tuple[OwnerKind, int]], *, forget: bool = True
) -> set[Owner]:
    """A census: what it notes, and whether what it misses is forgotten."""
    async with store.write() as work:
        news = await work.unknown_owners.note(APP.id, owners)
        if forget:
            await work.unknown_owners.forget_unseen(APP.id)
    return news


async def shown(store: Store, limit: int = 10_000) -> list[OwnerRecord]:
    async with store.read() as work:
        return list(await work.unknown_owners.list_by_application(APP.id, limit=limit))


async def test_the_first_sight_is_news_and_stays_dated(
    store: Store, clock: FakeClock
) -> None:
    """Later ones only bring the count up to date."""
    await register(store, APP)

    assert await note(store, {owner(): (UNKNOWN, 3)}) == {owner()}
    await clock.advance(MINUTE)
    assert await note(store, {owner(): (UNKNOWN, 2)}) == set()

    assert await shown(store) == [
        OwnerRecord(
            application=APP,
            owner=owner(),
            kind=UNKNOWN,
            pending_count=2,
            first_seen_at=START,
            last_seen_at=START + MINUTE,
        )
    ]


async def test_versions_are_different_owners(store: Store) -> None:
    """An order is about one version."""
    await register(store, APP)

    news = await note(
        store, {owner(version="v1"): (UNKNOWN, 1), owner(version="v2"): (UNKNOWN, 2)}
    )

    assert len(news) == len(await shown(store)) == 2


async def test_another_kind_is_news(store: Store, clock: FakeClock) -> None:
    """Something has happened to that owner; its age begins anew."""
    await register(store, APP)
    await note(store, {owner(): (UNKNOWN, 3)})
    await clock.advance(MINUTE)

    assert await note(store, {owner(): (ABANDONED, 3)}) == {owner()}

    [record] = await shown(store)
    assert (record.kind, record.first_seen_at) == (ABANDONED, START + MINUTE)


async def test_what_is_not_seen_any_more_is_forgotten(
    store: Store, clock: FakeClock
) -> None:
    """Of that application only, and if the census could see everything."""
    await register(store, APP, OTHER_APP)
    await note(store, {owner("e1"): (UNKNOWN, 1), owner("e2"): (UNKNOWN, 1)})
    async with store.write() as work:
        await work.unknown_owners.note(OTHER_APP.id, {owner("e1"): (UNKNOWN, 1)})
    await clock.advance(MINUTE)

    await note(store, {owner("e2"): (UNKNOWN, 1)}, forget=False)
    assert len(await shown(store)) == 2
    await clock.advance(MINUTE)
    await note(store, {owner("e2"): (UNKNOWN, 1)})

    assert [record.owner for record in await shown(store)] == [owner("e2")]
    async with store.read() as work:
        others = await work.unknown_owners.list_by_application(OTHER_APP.id, limit=10)
    assert len(others) == 1


async def test_what_was_seen_before_the_clock_was_set_back_is_forgotten_too(
    store: Store, clock: FakeClock
) -> None:
    """It seems to have been seen later than everything that is noted now."""
    await register(store, APP)
    await note(store, {owner("e1"): (UNKNOWN, 1), owner("e2"): (UNKNOWN, 1)})
    clock.jump(-MINUTE)

    await note(store, {owner("e2"): (UNKNOWN, 1)})

    assert [record.owner for record in await shown(store)] == [owner("e2")]


async def test_a_stranger_that_has_connected_is_not_shown(store: Store) -> None:
    """At once, and not at the next census."""
    await register(store, APP)
    await note(store, {owner("e1"): (UNKNOWN, 1), owner("e2"): (OTHER, 1)})

    await add_executors(store, make_executor("e1"), make_executor("e2"))

    assert [record.owner for record in await shown(store)] == [owner("e2")]


async def test_a_row_without_a_socket_does_not_hide_a_stranger(store: Store) -> None:
    """A recovery of it was ordered once, and has ended."""
    await register(store, APP)
    await note(store, {owner("e1"): (UNKNOWN, 1)})

    await add_executors(
        store,
        make_executor("e1", status=ExecutorStatus.DEAD, connection_id=ConnectionId("")),
    )

    assert [record.owner for record in await shown(store)] == [owner("e1")]


async def test_an_owner_with_an_open_recovery_is_not_shown(store: Store) -> None:
    """An operator has ordered it."""
    await register(store, APP)
    await note(store, {owner("e1"): (ABANDONED, 1), owner("e2"): (ABANDONED, 1)})

    await add_executors(
        store,
        *(make_executor(i, status=ExecutorStatus.DEAD) for i in ("e1", "e2")),
    )
    await add_recoveries(store, make_recovery("r1", "e1"))

    assert [record.owner for record in await shown(store)] == [owner("e2")]


async def test_an_owner_that_was_recovered_since_is_not_shown(
    store: Store, clock: FakeClock
) -> None:
    """Its work of that version; a census that still sees some says so again."""
    await register(store, APP)
    owners = {owner(version=v): (UNKNOWN, 1) for v in ("v1", "v2")}
    await note(store, owners)
    await clock.advance(MINUTE)
    done = make_recovery("r1", "e1", state=RecoveryState.DONE)
    done = replace(done, app_version=AppVersion("v1"), closed_at=clock.now())
    await add_recoveries(
        store,
        replace(done, is_verified=True),
        replace(
            done, id=RecoveryId("r2"), app_version=AppVersion("v2"), is_verified=False
        ),
    )

    assert [record.owner for record in await shown(store)] == [owner(version="v2")]
    await clock.advance(MINUTE)
    await note(store, owners)
    assert len(await shown(store)) == 2


async def test_workflows_are_counted_by_kind(store: Store) -> None:
    """For the gauge: every kind is there, and only what is shown counts."""
    await register(store, APP)
    await note(
        store,
        {
            owner("e1"): (UNKNOWN, 2),
            owner("e2"): (UNKNOWN, 3),
            owner("e3"): (UNKNOWN, 4),
            owner("e4"): (OTHER, 5),
        },
    )
    await add_executors(store, make_executor("e3"))

    async with store.read() as work:
        counts = await work.unknown_owners.count_workflows()

    assert counts == {UNKNOWN: 5, OTHER: 5, ABANDONED: 0}


async def test_thousands_are_noted_at_once(store: Store) -> None:
    """In chunks, and again without a second insert."""
    await register(store, APP)
    many = {owner(f"e{number}"): (UNKNOWN, 1) for number in range(2_500)}

    assert len(await note(store, many)) == 2_500
    assert await note(store, many) == set()

    assert len(await shown(store)) == 2_500


async def test_what_was_seen_last_and_weighs_most_is_kept(
    store: Store, clock: FakeClock
) -> None:
    """Where nothing can be forgotten for not being seen; other applications apart."""
    await register(store, APP, OTHER_APP)
    async with store.write() as work:
        await work.unknown_owners.note(OTHER_APP.id, {owner("e1"): (UNKNOWN, 1)})
    for seen in (("e1", "e2"), ("e3", "e4"), ("e5", "e6")):
        await note(
            store,
            {owner(e): (UNKNOWN, weight) for weight, e in enumerate(seen, start=1)},
            forget=False,
        )
        await clock.advance(MINUTE)

    async with store.write() as work:
        assert await work.unknown_owners.forget_beyond(APP.id, keep=3) == 3
        assert await work.unknown_owners.forget_beyond(APP.id, keep=3) == 0

    assert [r.owner.executor_id for r in await shown(store)] == ["e4", "e5", "e6"]
    async with store.read() as work:
        assert await work.unknown_owners.list_by_application(OTHER_APP.id, limit=10)


async def test_what_is_seen_now_outlives_what_seems_to_come_from_the_future(
    store: Store, clock: FakeClock
) -> None:
    """The clock was set back since that was written."""
    await register(store, APP)
    await note(store, {owner("e1"): (UNKNOWN, 9)})
    clock.jump(-MINUTE)

    async with store.write() as work:
        await work.unknown_owners.note(APP.id, {owner("e2"): (UNKNOWN, 1)})
        await work.unknown_owners.forget_beyond(APP.id, keep=1)

    assert [r.owner.executor_id for r in await shown(store)] == ["e2"]


async def test_a_list_has_an_end(store: Store) -> None:
    """The longest known are in it."""
    await register(store, APP)
    await note(store, {owner(f"e{number}"): (UNKNOWN, 1) for number in range(3)})

    assert [r.owner.executor_id for r in await shown(store, limit=2)] == ["e0", "e1"]
