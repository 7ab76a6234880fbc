"""A workflow that kills every process it runs in, and the crash brake."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.errors import ConnectionLostError
from relay.ids import ExecutorId, RecoveryId, WorkflowId
from relay.protocol.messages import (
    Acknowledgement,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import (
    RELAY_SUBJECT,
    RecoveryRecord,
    RecoveryState,
    WorkflowLossRecord,
)
from relay.recovery import Ledger
from tests.recovery.moves import is_done
from tests.recovery.records import SHOP, V1, V2
from tests.recovery.stage import DIRECT, FakePeer, Stage, replying, silence

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
GRACE = 20 * SECOND
BRAKED, DONE = RecoveryState.BRAKED, RecoveryState.DONE
POISON = "poison"


async def crash(stage: Stage, name: str, *pending: str) -> RecoveryId:
    """An executor is lost with this work, and is DEAD a grace period later."""
    lost_at = stage.clock.now()
    await stage.pass_time(GRACE)
    return await stage.bury(name, pending=pending or (POISON,), lost_at=lost_at)


async def crash_on(stage: Stage, *names: str) -> None:
    """Executor after executor takes the poison over, and dies of it in 5 s."""
    for name in names:
        await stage.pass_time(5 * SECOND)
        recovery = await crash(stage, name)
        await stage.reach(recovery, DONE)


async def brake_one(stage: Stage, *pending: str) -> RecoveryRecord:
    """The row of a third executor that was lost to the poison."""
    await crash_on(stage, "e1", "e2")
    recovery = await crash(stage, "e3", *(pending or (POISON,)))
    return await stage.reach(recovery, BRAKED)


async def order_times(
    stage: Stage, peer: FakePeer, *, during: timedelta, since: int
) -> Sequence[timedelta]:
    """When each further order came, counted from now."""
    started = stage.clock.now()
    times: list[timedelta] = []
    seen = since

    async def is_over() -> bool:
        nonlocal seen
        if len(peer.asked(RecoveryRequest)) > seen:
            seen += 1
            times.append(stage.clock.now() - started)
        return stage.clock.now() - started >= during

    await stage.run_until(is_over, within=during + SECOND)
    return times


async def find_loss(stage: Stage) -> WorkflowLossRecord | None:
    async with stage.store.read() as work:
        id_ = WorkflowId(POISON)
        return (await work.workflow_losses.find_many(SHOP.id, [id_])).get(id_)


async def test_the_third_loss_in_a_row_brakes(stage: Stage) -> None:
    """The row names the workflow that was there each time, and one error is said."""
    stage.connect("peer")
    stage.start()

    with capture_logs() as logs:
        await crash_on(stage, "e1", "e2")
        recovery = await crash(stage, "e3", "new", POISON)
        record = await stage.reach(recovery, BRAKED)
        await stage.pass_time(30 * SECOND)

    assert record.suspect_ids == (POISON,)
    assert record.next_attempt_at == record.updated_at + MINUTE
    assert record.claimed_by is None
    assert record.attempts == 0
    assert await stage.list_operations(recovery) == ["recovery.brake"]
    [error] = [entry for entry in logs if entry["log_level"] == "error"]
    assert error["event"] == "recovery_braked"
    [suspect] = error["suspects"]
    assert (suspect["workflow_id"], suspect["name"]) == (POISON, "work")
    assert suspect["losses"] == 3


async def test_losses_out_of_step_brake_nobody(stage: Stage) -> None:
    """A workflow that ran for minutes before each loss is an ordinary one."""
    stage.connect("peer")
    stage.start()

    for name in ("e1", "e2", "e3", "e4"):
        await stage.pass_time(121 * SECOND)
        await stage.reach(await crash(stage, name), DONE)

    found = await find_loss(stage)
    assert found is not None
    assert found.losses == 1


async def test_other_rows_go_on_beside_a_braked_one(stage: Stage) -> None:
    """They are ordered at once, those of the same application too."""
    stage.connect("peer")
    stage.start()
    braked = await brake_one(stage)

    others = [await stage.bury(f"healthy-{n}", pending=(f"w-{n}",)) for n in range(3)]
    for other in others:
        await stage.reach(other, DONE, within=2 * SECOND)

    assert (await stage.find(braked.id)).state is BRAKED


async def test_a_braked_row_is_ordered_alone_after_its_rest(stage: Stage) -> None:
    """A minute after the third loss; the work is handed on, the row is at its end."""
    peer = stage.connect("peer")
    engine = stage.start()
    braked = await brake_one(stage)
    await stage.pass_time(MINUTE - SECOND)
    assert (await stage.find(braked.id)).state is BRAKED
    await stage.kill(engine)
    await stage.pass_time(SECOND)
    for n in range(2):
        await stage.bury(f"healthy-{n}", pending=(f"w-{n}",))

    # All three are due in the same turn.
    stage.start()
    await stage.reach(braked.id, DONE, within=5 * SECOND)

    named = [set(order.executor_ids) for order in peer.asked(RecoveryRequest)[2:]]
    assert {"e3"} in named
    assert {"healthy-0", "healthy-1"} in named
    assert await stage.list_operations(braked.id) == [
        "recovery.brake",
        "recovery.order",
        "recovery.release",
        "recovery.verify",
        "executor.delete",
    ]


async def test_each_further_loss_makes_the_rest_longer(stage: Stage) -> None:
    """One, two, then five minutes between the executors that it may kill."""
    stage.connect("peer")
    stage.start()
    braked = await brake_one(stage)
    rests = []

    for name in ("e4", "e5", "e6"):
        assert braked.next_attempt_at is not None
        rests.append(braked.next_attempt_at - braked.updated_at)
        await stage.reach(braked.id, DONE)
        await stage.pass_time(5 * SECOND)
        braked = await stage.reach(await crash(stage, name), BRAKED)

    assert rests == [MINUTE, 2 * MINUTE, 5 * MINUTE]


async def test_orders_that_do_not_help_are_spaced(stage: Stage) -> None:
    """Spaced, not stopped: after the third, one every five minutes."""
    peer = stage.connect("peer")
    stage.start()
    braked = await brake_one(stage)
    peer.on(RecoveryRequest, replying(Acknowledgement(success=True)))

    times = await order_times(stage, peer, during=15 * MINUTE, since=2)

    minutes = [round(time / MINUTE) for time in times]
    # Each is followed by ten seconds of asking whether it helped.
    assert minutes == [1, 3, 8, 14]
    assert (await stage.find(braked.id)).brake_level == 4


async def test_a_suspect_that_is_gone_releases_the_rest(stage: Stage) -> None:
    """The next look finds it finished or cancelled, and the rest is ordinary work."""
    stage.connect("peer")
    stage.start()
    braked = await brake_one(stage, POISON, "w-1")
    stage.workflows.pending(ExecutorId("e3"), V1).remove(WorkflowId(POISON))

    done = await stage.reach(braked.id, DONE, within=65 * SECOND)

    assert (done.suspect_ids, done.brake_level) == ((), 0)
    assert await stage.list_operations(braked.id) == [
        "recovery.brake",
        "recovery.release",
        "recovery.order",
        "recovery.verify",
        "executor.delete",
    ]


async def test_retry_orders_at_once(stage: Stage, ledger: Ledger) -> None:
    """Its suspects are counted anew: this loss is their first."""
    stage.connect("peer")
    stage.start()
    braked = await brake_one(stage)

    await ledger.retry(braked.id, by=RELAY_SUBJECT)
    took = await stage.run_until(lambda: is_done(stage, braked.id))

    assert took <= 2 * SECOND
    found = await find_loss(stage)
    assert found is not None
    assert found.losses == 1


async def test_a_restart_of_relay_keeps_the_brake(stage: Stage) -> None:
    """Counters, row and next look are as they were; nothing is said twice."""
    peer = stage.connect("peer")
    engine = stage.start()
    await crash_on(stage, "e1", "e2")
    await stage.kill(engine)
    engine = stage.start(stage.make_engine())
    braked = await stage.reach(await crash(stage, "e3"), BRAKED)
    await stage.kill(engine)

    with capture_logs() as logs:
        stage.start(stage.make_engine())
        await stage.pass_time(MINUTE - 2 * SECOND)

    assert len(peer.asked(RecoveryRequest)) == 2
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    await stage.reach(braked.id, DONE, within=5 * SECOND)


async def test_the_hold_after_a_start_keeps_the_brake(stage: Stage) -> None:
    """A row whose rest ends in it is ordered right after it, not a minute later."""
    stage.connect("peer")
    engine = stage.start()
    braked = await brake_one(stage)
    await stage.pass_time(50 * SECOND)
    await stage.kill(engine)

    stage.start(stage.make_engine(start_hold_secs=30))
    await stage.pass_time(20 * SECOND)

    held = await stage.find(braked.id)
    assert held.state is BRAKED
    assert "just started" in (held.reason or "")
    await stage.reach(braked.id, DONE, within=12 * SECOND)


async def test_relay_killed_with_a_braked_order_out_spaces_the_next(
    stage: Stage,
) -> None:
    """It may have been carried out."""
    peer = stage.connect("peer")
    engine = stage.start()
    braked = await brake_one(stage)
    peer.on(RecoveryRequest, silence)
    await stage.reach(braked.id, RecoveryState.ORDERED)
    await stage.kill(engine)

    stage.start(stage.make_engine())
    times = await order_times(stage, peer, during=130 * SECOND, since=3)

    assert [round(time / MINUTE) for time in times] == [2]


async def test_a_target_that_dies_before_it_answers_counts(stage: Stage) -> None:
    """Where an SDK starts work on the spot, the order itself can kill the process."""
    target = stage.connect("e2", sdk=DIRECT)
    stage.connect("foreign", V2)

    async def die(_: object) -> object:
        stage.workflows.take_over(ExecutorId("e1"), V1)
        stage.disconnect(target)
        raise ConnectionLostError(ExecutorId("e2"), delivered=True)

    target.on(RecoveryRequest, die)
    stage.start()
    first = await crash(stage, "e1")
    await stage.reach(first, DONE)
    second = await crash(stage, "e2")
    await stage.reach(second, RecoveryState.STRANDED)

    found = await find_loss(stage)

    assert found is not None
    assert found.losses == 2


async def test_a_braked_row_without_executors_of_its_version_is_stranded_once(
    stage: Stage,
) -> None:
    """One alarm, and the order follows when its version connects."""
    peer = stage.connect("peer")
    stage.connect("foreign", V2)
    stage.start()
    braked = await brake_one(stage)
    stage.disconnect(peer)

    with capture_logs() as logs:
        await stage.reach(braked.id, RecoveryState.STRANDED, within=2 * MINUTE)
        await stage.pass_time(11 * MINUTE)
    stage.connect("late")
    took = await stage.run_until(lambda: is_done(stage, braked.id))

    errors = [entry["event"] for entry in logs if entry["log_level"] == "error"]
    assert errors == ["recovery_stranded"]
    assert took <= 16 * SECOND


async def test_a_listing_that_fails_neither_finds_nor_clears_a_suspect(
    stage: Stage,
) -> None:
    """What is not known is not gone: the row keeps its brake."""
    peer = stage.connect("peer")
    stage.start()
    braked = await brake_one(stage)
    peer.on(ListWorkflowsRequest, replying(()))
    peer.on(RecoveryRequest, replying(Acknowledgement(success=True)))

    await stage.pass_time(2 * MINUTE)

    after = await stage.find(braked.id)
    assert (after.state, after.suspect_ids) == (BRAKED, (POISON,))
    assert after.attempts == 1


async def test_a_finding_whose_commit_got_no_answer_counts_once(stage: Stage) -> None:
    """It is written again, recognised, and the attempt goes on."""
    peer = stage.connect("peer")
    recovery = await crash(stage, "e1")
    lose_first_commit_after_listing(stage, peer)

    stage.start()
    await stage.reach(recovery, DONE, within=5 * SECOND)

    found = await find_loss(stage)
    assert found is not None
    assert found.losses == 1


async def test_a_brake_whose_commit_got_no_answer_is_told_once(stage: Stage) -> None:
    """The row is at rest then, and nobody's."""
    peer = stage.connect("peer")
    stage.start()
    await crash_on(stage, "e1", "e2")
    lose_first_commit_after_listing(stage, peer)

    recovery = await crash(stage, "e3")
    await stage.reach(recovery, BRAKED)
    await stage.pass_time(20 * SECOND)

    assert await stage.list_operations(recovery) == ["recovery.brake"]
    assert (await stage.find(recovery)).state is BRAKED


def lose_first_commit_after_listing(stage: Stage, peer: FakePeer) -> None:
    """The database keeps what the next question finds, and cannot say so."""

    async def answer(request: ListWorkflowsRequest) -> object:
        stage.store.lose_next_commit()
        del peer.behaviours[ListWorkflowsRequest]
        return await peer.ask(request, SECOND)

    peer.on(ListWorkflowsRequest, answer)
