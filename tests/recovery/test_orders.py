"""Orders: sent, refused, unanswered, never left, and verified afterwards."""

from datetime import timedelta
from itertools import pairwise

import pytest

from relay.errors import (
    ConnectionLostError,
    ExecutorBusyError,
    ExecutorFailedError,
)
from relay.ids import (
    ExecutorId,
)
from relay.protocol.messages import (
    Acknowledgement,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import RecoveryState
from relay.recovery.attempt import CHOSEN_AMONG
from tests.recovery.moves import assert_each_order_follows_a_question, is_done
from tests.recovery.records import V1, V2, dead_ref
from tests.recovery.stage import (
    Stage,
    failing,
    lost,
    replying,
    silence,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE


async def test_pending_work_is_ordered_verified_and_the_record_deleted(
    stage: Stage,
) -> None:
    """The main road, told in the audit log step by step."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    stage.start()
    record = await stage.reach(recovery, DONE, within=timedelta(seconds=5))

    assert record.is_verified is True
    assert record.target == "peer"
    assert record.attempts == 1
    assert await stage.find_executor() is None
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.verify",
        "executor.delete",
    ]
    assert peer.asked(RecoveryRequest) == [RecoveryRequest((ExecutorId("dead"),))]


async def test_order_says_what_is_pending(stage: Stage) -> None:
    """Count and ids stand in the audit entry of the order."""
    recovery = await stage.bury(pending=["w-1", "w-2"])
    stage.connect("peer")

    stage.start()
    await stage.reach(recovery, DONE)

    order = (await stage.list_story(recovery))[0].entry
    assert order.details["pending_count"] == 2
    assert order.details["pending_ids"] == ["w-1", "w-2"]
    assert order.details["target"] == "peer"
    assert order.details["attempt"] == 1
    assert order.details["executor_id"] == "dead"
    assert order.details["elapsed_seconds"] >= 0


async def test_executor_without_work_is_deleted_without_an_order(stage: Stage) -> None:
    """An executor of another version can say that nothing is pending."""
    recovery = await stage.bury(pending=[])
    peer = stage.connect("peer", V2)

    stage.start()
    record = await stage.reach(recovery, DONE)

    assert record.attempts == 0
    assert await stage.find_executor() is None
    assert peer.asked(RecoveryRequest) == []
    assert await stage.list_operations(recovery) == [
        "recovery.verify",
        "executor.delete",
    ]


async def test_deleted_executor_leaves_a_tombstone(stage: Stage) -> None:
    """Its id can be recognised if it ever owns work again."""
    recovery = await stage.bury()
    stage.connect("peer")

    stage.start()
    await stage.reach(recovery, DONE)

    async with stage.store.read() as work:
        tombstone = await work.tombstones.find(dead_ref().key)
    assert tombstone is not None
    assert (tombstone.app_version, tombstone.recovery_id) == (V1, recovery)


async def test_success_while_work_remains_is_repeated(stage: Stage) -> None:
    """`success: true` alone never ends a recovery, and each repeat asks first."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, replying(Acknowledgement(success=True)))

    stage.start()
    backed_off = await stage.reach(recovery, RecoveryState.BACKOFF)

    assert backed_off.reason == "work remains"
    assert await stage.find_executor() is not None
    peer.behaviours.clear()
    record = await stage.reach(recovery, DONE)
    assert record.attempts == 2
    assert_each_order_follows_a_question([type(r) for r in peer.requests])


async def test_remaining_work_is_asked_for_over_ten_seconds(stage: Stage) -> None:
    """A new owner that shows a moment later is not taken for a failure."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, replying(Acknowledgement(success=True)))

    stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)
    await stage.pass_time(timedelta(seconds=4))
    stage.workflows.take_over(ExecutorId("dead"), V1)
    record = await stage.reach(recovery, DONE, RecoveryState.BACKOFF)

    assert record.state is DONE
    assert record.attempts == 1


async def test_error_reply_backs_off_with_its_last_line(stage: Stage) -> None:
    """The reason is kept, and the next attempt may succeed."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    error = ExecutorFailedError(ExecutorId("peer"), "Traceback\nRuntimeError: no")
    peer.on(RecoveryRequest, failing(error))

    stage.start()
    backed_off = await stage.reach(recovery, RecoveryState.BACKOFF)

    assert backed_off.reason == "executor peer failed: RuntimeError: no"
    peer.behaviours.clear()
    assert (await stage.reach(recovery, DONE)).attempts == 2
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.fail",
        "recovery.order",
        "recovery.verify",
        "executor.delete",
    ]


async def test_refusal_without_a_reason_backs_off(stage: Stage) -> None:
    """Java says no without a message when an exception has none."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, replying(Acknowledgement(success=False)))

    stage.start()
    record = await stage.reach(recovery, RecoveryState.BACKOFF)

    assert "gave no reason" in (record.reason or "")


async def test_delays_grow_while_attempts_fail(stage: Stage) -> None:
    """At most 1 s, then 2 s, 4 s, 8 s; with half of the jitter half of that."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, failing(ExecutorFailedError(ExecutorId("peer"), "no")))
    asked_at: list[float] = []

    async def note_time(_: object) -> bool:
        asked_at.append(stage.clock.monotonic())
        return True

    peer.on(ExistPendingWorkflowsRequest, note_time)
    stage.start(stage.make_engine(jitter=0.999))
    await stage.reach(recovery, RecoveryState.BACKOFF)
    await stage.pass_time(timedelta(seconds=16))

    gaps = [b - a for a, b in pairwise(asked_at)]
    assert gaps == pytest.approx([1, 2, 4, 8], abs=0.6)


async def test_silent_target_costs_the_order_timeout_and_another_is_chosen(
    stage: Stage,
) -> None:
    """The order's fate is unknown, so the question comes first."""
    recovery = await stage.bury()
    hung = stage.connect("hung")
    hung.on(RecoveryRequest, silence)

    stage.start(stage.make_engine(order_timeout_secs=20))
    await stage.reach(recovery, RecoveryState.ORDERED)
    other = stage.connect("other")
    hung.is_responsive = False
    took = await stage.run_until(lambda: is_done(stage, recovery))

    assert timedelta(seconds=20) <= took <= timedelta(seconds=25)
    assert len(other.asked(RecoveryRequest)) == 1
    assert (await stage.find(recovery)).target == "other"


async def test_only_one_order_of_a_death_is_outstanding(stage: Stage) -> None:
    """However long the target takes, nobody else is ordered meanwhile."""
    recovery = await stage.bury()
    slow = stage.connect("slow")
    slow.on(RecoveryRequest, silence)
    stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)

    other = stage.connect("other")
    await stage.pass_time(timedelta(seconds=120))

    assert other.asked(RecoveryRequest) == []
    assert len(slow.asked(RecoveryRequest)) == 1


async def test_target_that_dies_after_the_order_is_replaced(stage: Stage) -> None:
    """Another executor takes over after the question was asked again."""
    recovery = await stage.bury()
    dying = stage.connect("dying")

    async def die(_: object) -> object:
        stage.disconnect(dying)
        stage.connect("other")
        return await lost("dying", delivered=True)(None)

    dying.on(RecoveryRequest, die)
    stage.start()
    record = await stage.reach(recovery, DONE)

    assert record.target == "other"
    assert record.attempts == 2
    assert "recovery.fail" in await stage.list_operations(recovery)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ConnectionLostError(ExecutorId("peer"), delivered=False),
            "before it was asked",
        ),
        (ExecutorBusyError(ExecutorId("peer"), 1000), "already wait"),
    ],
)
async def test_order_that_never_left_is_not_counted(
    stage: Stage, error: Exception, reason: str
) -> None:
    """The frame was not written, so the attempt did not happen."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, failing(error))

    stage.start()
    record = await stage.reach(recovery, RecoveryState.BACKOFF)

    assert record.attempts == 0
    assert record.order_deadline is None
    assert reason in (record.reason or "")


async def test_target_that_left_before_it_was_ordered_is_no_order(
    stage: Stage,
) -> None:
    """Between the record and the frame an executor may go."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def leave_after_the_record(_: object) -> object:
        stage.store.on_next_commit = lambda: stage.disconnect(peer)
        return ()

    peer.on(ListWorkflowsRequest, leave_after_the_record)
    stage.start()
    record = await stage.reach(recovery, RecoveryState.BACKOFF)

    assert record.attempts == 0
    assert "left before" in (record.reason or "")
    assert peer.asked(RecoveryRequest) == []


async def test_many_dead_executors_are_spread_over_the_living(stage: Stage) -> None:
    """Thirty deaths at once do not all fall on one peer."""
    recoveries = [await stage.bury(f"dead-{n}") for n in range(30)]
    peers = [stage.connect(name) for name in ("a", "b", "c")]

    stage.start()
    for recovery in recoveries:
        await stage.reach(recovery, DONE)

    shares = [
        sum(len(order.executor_ids) for order in peer.asked(RecoveryRequest))
        for peer in peers
    ]
    assert sum(shares) == 30
    assert min(shares) >= 8


async def test_right_one_among_hundreds_is_found(stage: Stage) -> None:
    """However many others there are, of another version or silent."""
    recovery = await stage.bury()
    crowd = [stage.connect(f"foreign-{n}", V2) for n in range(4 * CHOSEN_AMONG)]
    crowd += [stage.connect(f"mute-{n}") for n in range(4 * CHOSEN_AMONG)]
    for peer in crowd[4 * CHOSEN_AMONG :]:
        peer.is_responsive = False
    stage.connect("right")

    stage.start()

    assert (await stage.reach(recovery, DONE)).target == "right"


async def test_deaths_are_spread_over_hundreds(stage: Stage) -> None:
    """Although only a part of them is looked at for each."""
    recoveries = [await stage.bury(f"dead-{n}") for n in range(60)]
    for number in range(6 * CHOSEN_AMONG):
        stage.connect(f"peer-{number}")

    stage.start()
    targets = [(await stage.reach(r, DONE)).target for r in recoveries]

    assert len(set(targets)) > 30
