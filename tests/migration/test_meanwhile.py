"""What becomes of the recovery while its work is moved, and after it."""

from datetime import timedelta

import pytest

from relay.errors import ConflictError, NoExecutorError
from relay.records import ItemState, RecoveryState
from relay.recovery import Ledger
from tests.migration.yard import WAIT, Yard
from tests.operations.desk import ANN
from tests.recovery.records import V1

on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE, STRANDED, MIGRATING, READY = (
    RecoveryState.DONE,
    RecoveryState.STRANDED,
    RecoveryState.MIGRATING,
    RecoveryState.READY,
)
MINUTE = timedelta(minutes=1)


async def test_a_run_that_is_over_lets_the_recovery_end(yard: Yard) -> None:
    """On both engines: nothing is pending any more, which the engine finds itself."""
    recovery_id = await yard.strand("w")
    yard.stage.start()
    yard.connect()

    await yard.move(recovery_id)
    record = await yard.stage.reach(recovery_id, DONE)

    assert record.is_verified
    assert await yard.stage.find_executor() is None


@on_sqlite
async def test_what_was_refused_is_stranded_again(yard: Yard) -> None:
    recovery_id = await yard.strand("w1", "w2")
    yard.unread["w2"] = 1
    yard.stage.start()
    yard.connect()

    await yard.move(recovery_id)
    record = await yard.stage.reach(recovery_id, STRANDED)

    assert (record.pending_count, record.pending_ids) == (1, ("w2",))
    del yard.unread["w2"]
    report = await yard.move(recovery_id)
    assert [(i.workflow_id, i.state) for i in report.items] == [("w2", ItemState.MOVED)]


@on_sqlite
async def test_an_executor_of_the_old_version_is_not_ordered_meanwhile(
    yard: Yard,
) -> None:
    """The row is MIGRATING before anything is done, and nobody wakes it."""
    recovery_id = await yard.strand("w")
    yard.stage.start()
    yard.connect()
    await yard.begin(recovery_id)
    old = yard.connect("e1", V1)
    async with yard.stage.store.write() as work:
        assert await work.recoveries.wake(old.ref.application.id, V1) == 0

    await yard.stage.pass_time(MINUTE)

    assert (await yard.find(recovery_id)).state is MIGRATING
    assert "recovery" not in {request.message_type for request in old.requests}


@on_sqlite
async def test_a_recovery_is_not_retried_while_it_is_moved(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.connect()
    await yard.begin(recovery_id)
    ledger = Ledger(yard.stage.store, yard.stage.audit)

    with pytest.raises(ConflictError, match="being moved to another version"):
        await ledger.retry(recovery_id, by=ANN.subject)


@on_sqlite
async def test_an_operator_can_end_what_has_not_begun(yard: Yard) -> None:
    """What has, is finished."""
    recovery_id = await yard.strand("w1", "w2")
    yard.connect()
    await yard.begin(recovery_id)
    ledger = Ledger(yard.stage.store, yard.stage.audit)

    async def abandon(kind: str, _: object) -> None:
        if kind == "cancel":
            await ledger.abandon(recovery_id, "no", by=ANN.subject)

    yard.before = abandon
    yard.start()
    report = await yard.reach_end(recovery_id)

    assert [(i.workflow_id, i.state) for i in report.items] == [
        ("w1", ItemState.MOVED),
        ("w2", ItemState.SKIPPED),
    ]
    assert (await yard.find(recovery_id)).state is RecoveryState.ABANDONED
    assert not yard.done["cancel", "w2"]


@on_sqlite
async def test_an_executor_that_comes_back_keeps_its_work(yard: Yard) -> None:
    """From the moment on at which it has a socket."""
    recovery_id = await yard.strand("w")
    yard.connect()
    await yard.begin(recovery_id)
    yard.connect("dead", V1)

    yard.start()
    [item] = (await yard.reach_end(recovery_id)).items

    assert (item.state, item.reason) == (
        ItemState.SKIPPED,
        "its executor is connected again",
    )
    assert not yard.done


@on_sqlite
async def test_two_orders_at_once_are_one_migration(yard: Yard) -> None:
    """The second one finds the row changed."""
    recovery_id = await yard.strand("w")
    yard.connect()

    await yard.begin(recovery_id)
    with pytest.raises(ConflictError, match="is MIGRATING"):
        await yard.begin(recovery_id)


@on_sqlite
async def test_a_recovery_that_changes_during_the_planning_is_left_alone(
    yard: Yard,
) -> None:
    """An executor of its version has connected."""
    recovery_id = await yard.strand("w")
    peer = yard.connect()

    async def wake(*_: object) -> None:
        async with yard.stage.store.write() as work:
            await work.recoveries.wake(peer.ref.application.id, V1)

    yard.before = wake
    with pytest.raises(ConflictError, match="has changed in this moment"):
        await yard.begin(recovery_id)

    assert (await yard.find(recovery_id)).state is READY


@on_sqlite
async def test_nothing_to_move_is_no_error(yard: Yard) -> None:
    """Somebody has finished it by hand; the engine will see."""
    recovery_id = await yard.strand()
    yard.connect()

    report = await yard.move(recovery_id)

    assert list(report.items) == []
    assert (await yard.find(recovery_id)).state is READY


@on_sqlite
async def test_whoever_orders_may_wait_for_the_end(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.connect()
    yard.start()

    report = await yard.begin(recovery_id, wait=WAIT)

    assert report.state == "ENDED"


@on_sqlite
async def test_a_plan_needs_somebody_to_ask(yard: Yard) -> None:
    recovery_id = await yard.strand("w")
    yard.connect()

    async def vanish(*_: object) -> None:
        raise NoExecutorError((await yard.find(recovery_id)).executor.application.name)

    yard.before = vanish
    with pytest.raises(NoExecutorError):
        await yard.plan(recovery_id)
