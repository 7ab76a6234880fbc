"""Recoveries that ended long ago, and those of them that still say something."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.ids import AppVersion, OrgName
from relay.liveness.states import ExecutorStatus
from relay.records import RecoveryRecord, RecoveryState
from relay.store import Store
from relay.testing.clock import START
from tests.store.rows import (
    APP,
    LOCAL,
    add_executors,
    add_recoveries,
    make_executor,
    make_recovery,
    register,
)

DAY = timedelta(days=1)
DONE, RETURNED, ABANDONED = (
    RecoveryState.DONE,
    RecoveryState.RETURNED,
    RecoveryState.ABANDONED,
)


@pytest.fixture(autouse=True)
async def dead_executor(store: Store) -> None:
    """One whose record is kept."""
    await register(store, APP)
    await add_executors(store, make_executor("e1", status=ExecutorStatus.DEAD))


def ended(
    recovery_id: str,
    executor_id: str = "e1",
    state: RecoveryState = DONE,
    *,
    version: str = "v1",
    opened: timedelta = timedelta(),
    after: timedelta = timedelta(),
) -> RecoveryRecord:
    at = START + opened
    record = make_recovery(
        recovery_id, executor_id, state=state, app_version=AppVersion(version)
    )
    return replace(record, opened_at=at, closed_at=at + after)


async def purge(
    store: Store, *, limit: int = 100, organization: OrgName = LOCAL
) -> int:
    """Delete what ended more than a day after `START`."""
    async with store.write() as work:
        return await work.old_recoveries.purge(organization, START + DAY, limit=limit)


async def left(store: Store) -> list[str]:
    async with store.read() as work:
        return sorted(
            r.id for r in await work.recoveries.list_all(states=None, limit=9)
        )


async def test_what_ended_before_that_instant_goes(store: Store) -> None:
    """However long ago it was opened; what is open stays."""
    await add_recoveries(
        store,
        ended("done"),
        ended("returned", state=RETURNED),
        ended("late", after=DAY),
        make_recovery("open"),
    )

    assert await purge(store, organization=OrgName("another")) == 0
    assert await purge(store) == 2

    assert await left(store) == ["late", "open"]


async def test_the_oldest_go_first_and_no_more_than_asked_for(store: Store) -> None:
    """Deleting years at once would hold up others."""
    for number in range(3):
        await add_recoveries(store, ended(f"r{number}", opened=timedelta(hours=number)))

    assert await purge(store, limit=2) == 2
    assert await left(store) == ["r2"]
    assert await purge(store, limit=2) == 1


async def test_what_was_given_up_stays_as_long_as_its_executor_is_known(
    store: Store,
) -> None:
    """Otherwise the census would recover against the operator's word."""
    await add_recoveries(
        store, ended("known", "e1", ABANDONED), ended("gone", "e2", ABANDONED)
    )

    assert await purge(store) == 1

    assert await left(store) == ["known"]


async def test_what_was_given_up_goes_when_the_same_version_had_another_end(
    store: Store,
) -> None:
    """The newest of a version counts; another version says nothing about it."""
    hour = timedelta(hours=1)
    await add_recoveries(
        store,
        ended("1st", state=ABANDONED, version="v1"),
        ended("2nd", state=ABANDONED, version="v2"),
        ended("3rd", state=DONE, version="v1", opened=hour),
        ended("4th", state=DONE, version="v3", opened=hour),
    )

    assert await purge(store, limit=1) == 1
    assert await left(store) == ["2nd", "3rd", "4th"]
    assert await purge(store) == 2
    assert await left(store) == ["2nd"]
