"""The audit log: order, filters, pages, following, purging."""

from datetime import datetime, timedelta

import pytest

from relay.db import Database
from relay.errors import NotFoundError
from relay.ids import OrgName, RecoveryId
from relay.records import (
    RELAY_SUBJECT,
    AuditEntry,
    AuditRecord,
    AuditStatus,
    AuditTarget,
)
from relay.store import Store
from relay.store.audit_log import SETTLING
from relay.testing.clock import START, FakeClock
from tests.store.rows import LOCAL, make_entry, register

OTHER = OrgName("other")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
async def organizations(store: Store) -> None:
    """Two organizations."""
    await register(store)
    async with store.write() as work:
        await work.organizations.ensure(OTHER)


async def append(store: Store, *entries: AuditEntry) -> None:
    async with store.write() as work:
        await work.audit.append(entries)


def operations(records: "list[AuditRecord]") -> list[str]:
    return [record.entry.operation for record in records]


async def test_an_entry_survives_a_round_trip(store: Store, clock: FakeClock) -> None:
    """Every field comes back, with the time of the transaction."""
    full = make_entry(
        status=AuditStatus.FAILURE,
        subject=RELAY_SUBJECT,
        details={"nested": [{"a": None}], "text": "ü"},
        recovery_id=RecoveryId("r1"),
    )
    bare = make_entry(target=None, details={}, source_ip="")
    clock.jump(timedelta(microseconds=1))

    await append(store, full, bare)

    async with store.read() as work:
        records = await work.audit.list_entries(LOCAL, limit=10)
    assert [record.entry for record in records] == [bare, full]
    assert {record.emitted_at for record in records} == {after(0.000001)}


async def test_append_of_nothing_does_nothing(store: Store) -> None:
    """An empty batch is no error."""
    await append(store)

    async with store.read() as work:
        assert await work.audit.list_entries(LOCAL, limit=10) == []


async def test_append_refuses_an_unknown_organization(store: Store) -> None:
    """No entry of the batch is kept."""
    with pytest.raises(NotFoundError, match="nobody"):
        await append(store, make_entry(), make_entry(organization=OrgName("nobody")))

    async with store.read() as work:
        assert await work.audit.list_entries(LOCAL, limit=10) == []


async def test_entries_of_one_instant_keep_their_order(store: Store) -> None:
    """Neither batches nor transactions of the same instant are mixed up."""
    names = [f"test.{number:03}" for number in range(40)]
    for start in range(0, 40, 8):
        async with store.write() as work:
            await work.audit.append([make_entry(n) for n in names[start : start + 4]])
            await work.audit.append(
                [make_entry(n) for n in names[start + 4 : start + 8]]
            )

    async with store.read() as work:
        newest_first = await work.audit.list_entries(LOCAL, limit=100)

    assert operations(list(newest_first)) == names[::-1]
    assert len({record.id for record in newest_first}) == 40


async def test_filters_are_exact_and_all_must_match(
    store: Store, clock: FakeClock
) -> None:
    """Time is a half-open range; a subject is its id or its display name."""
    by_relay = {"subject": RELAY_SUBJECT}
    await append(store, make_entry("a"))
    clock.jump(timedelta(seconds=1))
    await append(store, make_entry("b", **by_relay))
    clock.jump(timedelta(seconds=1))
    await append(
        store,
        make_entry("c", **by_relay, target=AuditTarget(kind="token", id="ci")),
        make_entry("d", target=None),
        make_entry("e", organization=OTHER),
    )

    async with store.read() as work:

        async def found(**filters: object) -> list[str]:
            arguments = {"limit": 10, **filters}
            return operations(await work.audit.list_entries(LOCAL, **arguments))  # type: ignore[arg-type]  # shortens the table below

        assert await found() == ["d", "c", "b", "a"]
        assert await found(start=after(1)) == ["d", "c", "b"]
        assert await found(end=after(1)) == ["a"]
        assert await found(start=after(1), end=after(2)) == ["b"]
        assert await found(operation="b") == ["b"]
        assert await found(subject="Relay") == ["c", "b"]
        assert await found(subject="relay") == ["c", "b"]
        assert await found(subject="rela") == []
        assert await found(subject="u-1") == ["d", "a"]
        assert await found(target="ci") == ["c"]
        assert await found(target="orders", subject="Relay") == ["b"]
        assert await found(start=datetime.max.replace(tzinfo=START.tzinfo)) == []
        assert await found(start=datetime.min.replace(tzinfo=START.tzinfo)) == [
            "d",
            "c",
            "b",
            "a",
        ]
        assert await found(limit=2) == ["d", "c"]
        assert await found(limit=2, offset=3) == ["a"]


async def test_list_by_recovery_tells_the_story_oldest_first(
    store: Store, clock: FakeClock
) -> None:
    """The entries of one death are read in the order in which they happened."""
    story = {"recovery_id": RecoveryId("r1")}
    await append(store, make_entry("executor.dead", **story))
    clock.jump(timedelta(seconds=1))
    await append(store, make_entry("recovery.order", **story), make_entry("other"))
    await append(store, make_entry("recovery.verify", **story))

    async with store.read() as work:
        told = await work.audit.list_by_recovery(RecoveryId("r1"))

    assert operations(list(told)) == [
        "executor.dead",
        "recovery.order",
        "recovery.verify",
    ]


async def test_a_follower_reads_each_entry_once(store: Store, clock: FakeClock) -> None:
    """Following from the last entry seen shows the next ones, oldest first."""
    await append(store, make_entry("a"), make_entry("b"), make_entry("c"))
    await append(store, make_entry("x", organization=OTHER))
    clock.jump(SETTLING + timedelta(microseconds=1))

    async with store.read() as work:
        first = await work.audit.list_after(LOCAL, None, 2)
        second = await work.audit.list_after(LOCAL, first[-1].id, 2)
        third = await work.audit.list_after(LOCAL, second[-1].id, 2)

    assert operations(list(first)) == ["a", "b"]
    assert operations(list(second)) == ["c"]
    assert third == []


async def test_a_follower_does_not_overtake_a_slower_transaction(
    store: Store, database: Database, clock: FakeClock
) -> None:
    """An entry that commits late is still read, in its place."""
    if database.dialect == "sqlite":
        await append(store, make_entry("at once"))
        async with store.read() as work:
            assert len(await work.audit.list_after(LOCAL, None, 9)) == 1
        return  # one writer at a time: commits come in the order of their clocks

    async with store.write() as slow:
        clock.jump(timedelta(seconds=1))
        await append(store, make_entry("fast"))
        async with store.read() as work:
            assert await work.audit.list_after(LOCAL, None, 9) == []
        await slow.audit.append([make_entry("slow")])
    clock.jump(SETTLING + timedelta(microseconds=1))

    async with store.read() as work:
        followed = await work.audit.list_after(LOCAL, None, 9)
    assert operations(list(followed)) == ["slow", "fast"]


async def test_purge_deletes_what_is_older_in_that_organization(
    store: Store, clock: FakeClock
) -> None:
    """The limit itself stays, and so does everything of other tenants."""
    await append(store, make_entry("old"), make_entry("foreign", organization=OTHER))
    clock.jump(timedelta(days=90))
    await append(store, make_entry("limit"))

    async with store.write() as work:
        assert await work.audit.purge(LOCAL, after(0) + timedelta(days=90)) == 1
        assert await work.audit.purge(OrgName("nobody"), after(9e9)) == 0

    async with store.read() as work:
        assert operations(list(await work.audit.list_entries(LOCAL, limit=9))) == [
            "limit"
        ]
        assert operations(list(await work.audit.list_entries(OTHER, limit=9))) == [
            "foreign"
        ]


async def test_purge_goes_in_batches_from_the_oldest(store: Store) -> None:
    """What exceeds the limit is left for the next call."""
    await append(store, *(make_entry(name) for name in "abc"))

    async with store.write() as work:
        assert await work.audit.purge(LOCAL, after(1), limit=2) == 2
        left = await work.audit.list_entries(LOCAL, limit=9)
        assert await work.audit.purge(LOCAL, after(1), limit=2) == 1

    assert operations(list(left)) == ["c"]
