"""
Relay ends without a word, at every point of a move; the next one finishes it.

A point is before and after each commit, and before and after an executor does what it
was asked. After it nothing of the old process happens any more.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from relay.ids import RecoveryId
from relay.protocol.sdk import Sdk
from relay.records import ItemState, MigrationMethod, RecoveryState
from relay.store import Store, UnitOfWork
from tests.migration.yard import OLDER, Yard
from tests.recovery.records import V1
from tests.recovery.stage import MODERN

FAMILY = ("parent", "child")
ALONE = ("alone",)


class Crash:
    """The end of a process at the `at`-th point that it comes to."""

    def __init__(self, at: int) -> None:
        self.has_come = asyncio.Event()
        self._left = at

    async def point(self, *_: object) -> None:
        if self._left == 0:
            self.has_come.set()
            await asyncio.Event().wait()
        self._left -= 1


class WatchedStore(Store):
    """The store of the process that is going to crash."""

    crash: Crash

    @asynccontextmanager
    async def write(self) -> AsyncIterator[UnitOfWork]:
        await self.crash.point()
        async with super().write() as work:
            yield work
        await self.crash.point()


async def strand(yard: Yard, name: str, sdk: Sdk) -> tuple[RecoveryId, list[str]]:
    """Work of another executor each time; a family where it can be moved."""
    kinds = FAMILY if sdk is MODERN else ALONE
    ids = {kind: f"{kind}-{name}" for kind in kinds}
    recovery_id = await yard.strand(ids[kinds[0]], name=name)
    if sdk is MODERN:
        yard.work.enqueue(name, V1, ids["child"], queue_name="jobs")
        yard.work.adopt(ids["parent"], ids["child"])
    return recovery_id, list(ids.values())


async def crash_once(yard: Yard, recovery_id: RecoveryId, at: int) -> bool:
    """Whether the process came to that point before it was done."""
    crash = Crash(at)
    store = WatchedStore(yard.stage.database)
    store.crash = crash
    yard.before = yard.after = crash.point
    yard.start(yard.make_migrations(store))

    async def is_over() -> bool:
        report = await yard.report(recovery_id)
        return crash.has_come.is_set() or report.state == "ENDED"

    await yard.stage.run_until(is_over)
    await yard.kill()
    yard.before = yard.after = nothing
    return crash.has_come.is_set()


async def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize("sdk", [MODERN, OLDER])
async def test_after_a_crash_nothing_is_lost_or_done_twice(
    yard: Yard, sdk: Sdk
) -> None:
    """On both engines, with ids that are kept and with copies."""
    yard.connect(sdk=sdk)
    ids: list[str] = []
    at = 0
    has_crashed = True
    while has_crashed:
        recovery_id, ids = await strand(yard, f"dead-{at}", sdk)
        await yard.begin(recovery_id)

        has_crashed = await crash_once(yard, recovery_id, at)
        yard.start(yard.make_migrations())
        report = await yard.reach_end(recovery_id)
        await yard.kill()

        assert {i.workflow_id: i.state for i in report.items} == dict.fromkeys(
            ids, ItemState.MOVED
        ), f"crashed at {at}"
        for item in report.items:
            assert_moved_once(yard, item.workflow_id, item.new_workflow_id)
        told = await yard.audit(recovery_id, "workflow.migrate")
        assert len(told) == len(ids)
        assert len(await yard.audit(recovery_id, "recovery.migrated")) == 1
        assert (await yard.find(recovery_id)).state is RecoveryState.READY
        at += 1
    # Three commits and more than as many messages an item; two points each.
    assert at > 2 * 6 * len(ids)


def assert_moved_once(yard: Yard, id_: str, new_id: str | None) -> None:
    """It stands in a queue with the new version, or its only copy does."""
    moved = yard.row(new_id or id_)
    assert (moved["Status"], moved["ApplicationVersion"]) == ("ENQUEUED", "v2")
    assert yard.done["cancel", id_] == 1
    if new_id is None:
        assert yard.done["rewind_workflow", id_] == 1
    else:
        assert yard.row(id_)["Status"] == "CANCELLED"
        assert yard.done["fork_workflow", id_] == 1


async def test_a_commit_whose_answer_is_lost_is_read_again(yard: Yard) -> None:
    """On both engines: whether it was written says the row, not the error."""
    recovery_id = await yard.strand("w")
    yard.connect()
    await yard.begin(recovery_id)
    lose = yard.stage.store.lose_next_commit

    async def lose_commits(kind: str, _: object) -> None:
        if kind == "get_workflow":
            lose()

    yard.before = lose_commits
    yard.start()
    report = await yard.reach_end(recovery_id)

    assert report.method is MigrationMethod.REWIND
    assert [item.state for item in report.items] == [ItemState.MOVED]
    assert yard.done["rewind_workflow", "w"] == 1
    assert len(await yard.audit(recovery_id, "workflow.migrate")) == 1
