"""Moving every open deadline at once."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relay.liveness.states import ExecutorStatus
from relay.records import RecoveryState
from relay.store import Store
from relay.testing.clock import START
from tests.store.rows import (
    APP,
    OTHER_APP,
    add_executors,
    add_recoveries,
    find_executor,
    find_recovery,
    make_disconnected,
    make_executor,
    make_recovery,
    register,
)

SECOND = timedelta(seconds=1)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
async def applications(store: Store) -> None:
    """Two registered applications."""
    await register(store, APP, OTHER_APP)


@pytest.mark.parametrize("seconds", [3600.5, -3600.5])
async def test_open_graces_are_moved_in_both_directions(
    store: Store, seconds: float
) -> None:
    """Beginning and end, in every application; who is in no grace stays."""
    one = make_disconnected("one")
    other = make_disconnected("other", OTHER_APP, started_at=after(-9))
    healthy = make_executor("healthy")
    dead = make_executor("dead", status=ExecutorStatus.DEAD, dead_after=after(1))
    await add_executors(store, one, other, healthy, dead)

    async with store.write() as work:
        moved = await work.deadlines.shift_graces(seconds * SECOND, begun_by=after(0))

    assert moved == 2
    assert await find_executor(store, one) == replace(
        one, grace_started_at=after(seconds), dead_after=after(seconds + 60)
    )
    assert await find_executor(store, other) == replace(
        other, grace_started_at=after(seconds - 9), dead_after=after(seconds + 51)
    )
    assert await find_executor(store, healthy) == healthy
    assert await find_executor(store, dead) == dead


async def test_only_graces_that_began_outside_are_moved(store: Store) -> None:
    """The bounds are those of the beginning: up to the first, and beyond the second."""
    graces = {at: make_disconnected(f"e{at}", started_at=after(at)) for at in range(5)}
    await add_executors(store, *graces.values())

    async with store.write() as work:
        moved = await work.deadlines.shift_graces(
            9 * SECOND, begun_by=after(1), or_after=after(3)
        )

    assert moved == 3
    for at, grace in graces.items():
        found = await find_executor(store, grace)
        assert found is not None
        is_moved = at in (0, 1, 4)
        assert found.dead_after == after(at + 60 + (9 if is_moved else 0))


async def test_what_open_recoveries_wait_for_is_moved(store: Store) -> None:
    """Next attempts and order deadlines; their revision, and what is over, stays."""
    due = make_recovery("due", "e1", next_attempt_at=after(30))
    ordered = make_recovery(
        "ordered",
        "e2",
        OTHER_APP,
        state=RecoveryState.ORDERED,
        next_attempt_at=None,
        ordered_at=after(0),
        order_deadline=after(300),
    )
    waiting = make_recovery(
        "waiting", "e3", state=RecoveryState.WAITING, next_attempt_at=None
    )
    done = make_recovery("done", "e4", state=RecoveryState.DONE)
    await add_recoveries(store, due, ordered, waiting, done)

    async with store.write() as work:
        moved = await work.deadlines.shift_recoveries(-3600 * SECOND)

    assert moved == 2
    assert await find_recovery(store, due) == replace(due, next_attempt_at=after(-3570))
    assert await find_recovery(store, ordered) == replace(
        ordered, order_deadline=after(-3300)
    )
    assert await find_recovery(store, waiting) == waiting
    assert await find_recovery(store, done) == done


async def test_recoveries_written_later_are_left_alone(store: Store) -> None:
    """What was written by the new clock is right already."""
    old = make_recovery("old", "e1", updated_at=after(5), next_attempt_at=after(6))
    new = make_recovery("new", "e2", updated_at=after(6), next_attempt_at=after(7))
    await add_recoveries(store, old, new)

    async with store.write() as work:
        moved = await work.deadlines.shift_recoveries(60 * SECOND, written_by=after(5))

    assert moved == 1
    assert await find_recovery(store, old) == replace(old, next_attempt_at=after(66))
    assert await find_recovery(store, new) == new
