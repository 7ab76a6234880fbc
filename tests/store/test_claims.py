"""Taking due recoveries, one claimer at a time."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relay.db import Database
from relay.ids import AppVersion, InstanceId, RecoveryId
from relay.records import RecoveryState
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import (
    APP,
    INSTANCE,
    OTHER_APP,
    add_recoveries,
    find_recovery,
    make_recovery,
    register,
)

OTHER_INSTANCE = InstanceId("relay-2")
V1, V2 = AppVersion("v1"), AppVersion("v2")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
async def applications(store: Store) -> None:
    """Two registered applications."""
    await register(store, APP, OTHER_APP)


async def test_claim_due_takes_what_is_due_and_free(
    store: Store, clock: FakeClock
) -> None:
    """Later, claimed, waiting and ended rows are not claimed."""
    due = [
        make_recovery("ready", "e1", next_attempt_at=after(3)),
        make_recovery(
            "backoff", "e2", state=RecoveryState.BACKOFF, next_attempt_at=after(10)
        ),
        make_recovery(
            "stranded", "e3", state=RecoveryState.STRANDED, next_attempt_at=after(1)
        ),
        make_recovery(
            "braked", "e9", state=RecoveryState.BRAKED, next_attempt_at=after(9)
        ),
    ]
    others = [
        make_recovery("later", "e4", next_attempt_at=after(10.000001)),
        make_recovery("claimed", "e5", claimed_by=OTHER_INSTANCE),
        make_recovery("waiting", "e6", state=RecoveryState.WAITING),
        make_recovery("ordered", "e7", state=RecoveryState.ORDERED),
        make_recovery("done", "e8", state=RecoveryState.DONE),
    ]
    await add_recoveries(store, *due, *others)
    clock.jump(timedelta(seconds=10))

    async with store.write() as work:
        first = await work.recoveries.claim_due(INSTANCE, 2)
    async with store.write() as work:
        second = await work.recoveries.claim_due(INSTANCE, 2)
        third = await work.recoveries.claim_due(INSTANCE, 2)

    assert [record.id for record in first] == ["stranded", "ready"]
    assert [record.id for record in second] == ["braked", "backoff"]
    assert third == []
    claimed = replace(due[1], claimed_by=INSTANCE, revision=1, updated_at=after(10))
    assert second[1] == claimed
    assert await find_recovery(store, claimed) == claimed


async def test_claim_due_leaves_the_excepted_applications_alone(
    store: Store, clock: FakeClock
) -> None:
    """They have what they may have; the others are served although they came later."""
    mine = make_recovery("mine", "e1", next_attempt_at=after(1))
    theirs = make_recovery("theirs", "e1", OTHER_APP, next_attempt_at=after(2))
    await add_recoveries(store, mine, theirs)
    clock.jump(timedelta(seconds=10))

    async with store.write() as work:
        claimed = await work.recoveries.claim_due(
            INSTANCE, 2, except_applications=[APP.id]
        )

    assert [record.id for record in claimed] == ["theirs"]


async def test_claims_at_the_same_time_share_the_work(store: Store) -> None:
    """No row is claimed twice and none is forgotten."""
    records = [make_recovery(f"r{n}", f"e{n}") for n in range(30)]
    await add_recoveries(store, *records)

    async def claim() -> list[RecoveryId]:
        claimed: list[RecoveryId] = []
        while True:
            async with store.write() as work:
                batch = await work.recoveries.claim_due(INSTANCE, 4)
            if not batch:
                return claimed
            claimed += [record.id for record in batch]

    shares = await asyncio.gather(*(claim() for _ in range(4)))

    assert sorted(id for share in shares for id in share) == sorted(
        record.id for record in records
    )


async def test_a_claim_in_progress_is_passed_over_and_not_waited_for(
    store: Store, database: Database
) -> None:
    """While one instance has claimed rows, another one claims the rest."""
    if database.dialect == "sqlite":
        return  # one writer at a time: there is no claim in progress beside ours
    await add_recoveries(store, *(make_recovery(f"r{n}", f"e{n}") for n in range(3)))

    async with store.write() as ours:
        first = await ours.recoveries.claim_due(INSTANCE, 2)
        async with store.write() as theirs:
            second = await theirs.recoveries.claim_due(OTHER_INSTANCE, 2)

    assert {record.id for record in first} == {"r0", "r1"}
    assert [record.id for record in second] == ["r2"]


async def test_claimed_rows_are_listed_while_they_are_open(store: Store) -> None:
    """Whoever has claimed them."""
    await add_recoveries(
        store,
        make_recovery("r1", "e1", claimed_by=OTHER_INSTANCE),
        make_recovery("r2", "e2", claimed_by=INSTANCE),
        make_recovery("r3", "e3"),
        make_recovery("r4", "e4", claimed_by=OTHER_INSTANCE, state=RecoveryState.DONE),
    )

    async with store.read() as work:
        every = await work.recoveries.list_claimed()
    assert [record.id for record in every] == ["r1", "r2"]


async def test_a_claimer_whose_row_was_woken_cannot_save(store: Store) -> None:
    """What was decided before the wake-up does not undo it."""
    record = make_recovery(state=RecoveryState.STRANDED)
    await add_recoveries(store, record)
    async with store.write() as work:
        (claimed,) = await work.recoveries.claim_due(INSTANCE, 1)

    async with store.write() as work:
        await work.recoveries.wake(APP.id, V1)

    async with store.write() as work:
        is_saved = await work.recoveries.save(
            replace(claimed, next_attempt_at=after(300)),
            expected_revision=claimed.revision,
        )
    assert not is_saved


async def test_find_next_attempt_looks_at_what_can_be_claimed(store: Store) -> None:
    """Claimed, waiting and ended rows have no next attempt."""
    async with store.read() as work:
        assert await work.recoveries.find_next_attempt() is None
    await add_recoveries(
        store,
        make_recovery("late", "e1", next_attempt_at=after(9)),
        make_recovery(
            "soon", "e2", state=RecoveryState.BRAKED, next_attempt_at=after(5)
        ),
        make_recovery("claimed", "e3", next_attempt_at=after(1), claimed_by=INSTANCE),
        make_recovery("done", "e4", state=RecoveryState.DONE),
        make_recovery("waiting", "e5", state=RecoveryState.WAITING),
    )

    async with store.read() as work:
        assert await work.recoveries.find_next_attempt() == after(5)
