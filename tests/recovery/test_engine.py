"""The whole way of one recovery, with executors that behave and that do not."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from relay.errors import (
    ConflictError,
    ConnectionLostError,
    ExecutorBusyError,
    ExecutorFailedError,
    ReplyInvalidError,
    UnknownMessageError,
)
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    Epoch,
    ExecutorId,
    InstanceId,
    RecoveryId,
)
from relay.liveness.states import ExecutorStatus
from relay.protocol.messages import (
    Acknowledgement,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import AuditSubject, RecoveryState, VersionPolicy
from relay.recovery import Ledger
from relay.recovery.engine import ATTEMPTS_AT_ONCE
from tests.recovery.records import ORGANIZATION, V1, V2, dead_ref, make_executor
from tests.recovery.stage import (
    DIRECT,
    Stage,
    failing,
    lost,
    replying,
    silence,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE
OTHER = ApplicationRef(ApplicationId("app-other"), ORGANIZATION, AppName("other"))
SOMEBODY = AuditSubject(kind="user", id="u-1", display="Somebody")


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


async def test_returned_executor_is_never_named(stage: Stage) -> None:
    """It came back between the question and the order: nothing is written."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def come_back(_: object) -> object:
        stage.peers.online.add(dead_ref())
        return ()

    peer.on(ListWorkflowsRequest, come_back)
    stage.start()
    await stage.pass_time(timedelta(seconds=3))

    assert peer.asked(RecoveryRequest) == []
    record = await stage.find(recovery)
    assert record.attempts == 0
    # The order had been recorded; that it was not sent is no failure.
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.release",
    ]


async def test_record_of_an_executor_on_line_is_not_deleted(stage: Stage) -> None:
    """Late "nothing pending" of somebody who has just come back changes nothing."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def come_back(_: object) -> object:
        stage.peers.online.add(dead_ref())
        return False

    peer.on(ExistPendingWorkflowsRequest, come_back)
    stage.start()
    await stage.pass_time(timedelta(seconds=3))

    assert await stage.find_executor() is not None
    assert (await stage.find(recovery)).state is RecoveryState.READY


async def test_recovery_of_a_new_epoch_is_closed_as_returned(stage: Stage) -> None:
    """The row is about an older death than the executor's row."""
    recovery = await stage.bury(epoch=3)
    await bring_back(stage)
    peer = stage.connect("peer")

    stage.start()
    await stage.reach(recovery, RecoveryState.RETURNED)

    assert peer.asked(RecoveryRequest) == []
    assert await stage.find_executor() is not None


async def test_stranded_work_is_taken_when_its_version_connects(stage: Stage) -> None:
    """A v2 executor alone is never ordered; a v1 executor ends it."""
    recovery = await stage.bury()
    foreign = stage.connect("foreign", V2)
    stage.start()
    stranded = await stage.reach(recovery, RecoveryState.STRANDED)

    assert foreign.asked(RecoveryRequest) == []
    assert "v1" in (stranded.reason or "")
    assert stage.workflows.pending(ExecutorId("dead"), V1) != []
    stage.connect("peer", V1)
    took = await stage.run_until(lambda: is_done(stage, recovery))

    # The survey finds it although no event has woken the row.
    assert took <= timedelta(seconds=16)
    assert (await stage.find(recovery)).target == "peer"
    operations = await stage.list_operations(recovery)
    assert operations.count("recovery.strand") == 1


async def test_stranded_row_is_looked_at_every_five_minutes(stage: Stage) -> None:
    """Work that was cancelled or migrated meanwhile ends it."""
    recovery = await stage.bury()
    stage.connect("foreign", V2)
    stage.start()
    await stage.reach(recovery, RecoveryState.STRANDED)

    stage.workflows.take_over(ExecutorId("dead"), V1)
    took = await stage.run_until(lambda: is_done(stage, recovery))

    assert timedelta(minutes=4) < took < timedelta(minutes=6)
    assert await stage.find_executor() is None


async def test_recovery_waits_without_executors(stage: Stage) -> None:
    """The first executor of the application makes it go on."""
    recovery = await stage.bury()
    stage.start()
    waiting = await stage.reach(recovery, RecoveryState.WAITING)

    assert waiting.next_attempt_at is None
    stage.connect("peer")
    assert (await stage.reach(recovery, DONE)).is_verified


async def test_woken_recovery_goes_on_at_once(stage: Stage) -> None:
    """The monitor wakes the row and the engine in the moment of the connection."""
    recovery = await stage.bury()
    engine = stage.start()
    await stage.reach(recovery, RecoveryState.WAITING)

    peer = stage.connect("peer")
    async with stage.store.write() as work:
        await work.recoveries.wake(peer.ref.application.id, V1)
    engine.wake()
    await stage.settle()

    assert (await stage.find(recovery)).state is DONE


async def test_application_whose_orders_hang_holds_up_nobody_else(
    stage: Stage,
) -> None:
    """However many of its executors died first."""
    await stage.add_application(OTHER)
    for number in range(ATTEMPTS_AT_ONCE):
        await stage.bury(f"dead-{number}", pending=[f"w-{number}"])
    recovery = await stage.bury("late", application=OTHER, pending=["w"])
    stage.connect("hung").on(RecoveryRequest, silence)
    stage.connect("peer", application=OTHER)

    stage.start()

    await stage.reach(recovery, DONE, within=timedelta(seconds=10))


async def test_silent_executors_are_left_alone_and_then_ordered(stage: Stage) -> None:
    """Whoever does not answer is the hub's to probe, and asked for nothing else."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.is_responsive = False
    stage.start()
    await stage.reach(recovery, RecoveryState.WAITING)
    await stage.pass_time(timedelta(seconds=31))

    assert peer.requests == []
    peer.is_responsive = True
    assert (await stage.reach(recovery, DONE)).target == "peer"


async def test_silent_executor_is_told_once(stage: Stage) -> None:
    """Silence of an hour is one entry in the audit log, not two hundred."""
    peer = stage.connect("peer")
    peer.is_responsive = False
    stage.start()
    await stage.pass_time(timedelta(seconds=60))

    async with stage.store.read() as work:
        entries = await work.audit.list_entries(
            peer.ref.application.organization,
            operation="executor.unresponsive",
            limit=10,
        )
    assert [e.entry.details["executor_id"] for e in entries] == ["peer"]


async def test_silent_executor_is_ordered_when_its_version_has_no_other(
    stage: Stage,
) -> None:
    """Somebody of another version answered the question."""
    recovery = await stage.bury()
    stage.connect("foreign", V2)
    peer = stage.connect("peer")
    peer.is_responsive = False

    stage.start()

    assert (await stage.reach(recovery, DONE)).target == "peer"


async def test_any_version_policy_orders_a_foreign_version_once(stage: Stage) -> None:
    """It takes nothing, which the question shows, and then the row is stranded."""
    ref = dead_ref().application
    async with stage.store.write() as work:
        await work.applications.delete(ref.id)
    await stage.add_application(version_policy=VersionPolicy.ANY)
    recovery = await stage.bury()
    foreign = stage.connect("foreign", V2)

    stage.start()
    record = await stage.reach(recovery, RecoveryState.STRANDED)

    assert record.tried_versions == (V2,)
    assert len(foreign.asked(RecoveryRequest)) == 1


async def test_nothing_is_ordered_in_the_first_seconds(stage: Stage) -> None:
    """The question may be asked, and a row without work may end."""
    idle = await stage.bury("idle", pending=[])
    busy = await stage.bury("busy")
    peer = stage.connect("peer")

    stage.start(stage.make_engine(start_hold_secs=30))
    await stage.reach(idle, DONE, within=timedelta(seconds=3))
    await stage.pass_time(timedelta(seconds=25))
    assert peer.asked(RecoveryRequest) == []
    took = await stage.run_until(lambda: is_done(stage, busy))

    assert took < timedelta(seconds=8)


async def test_time_before_the_sockets_may_come_is_not_held_against_them(
    stage: Stage,
) -> None:
    """The start may wait for its store for minutes, and then executors redial."""
    await stage.bury("busy")
    peer = stage.connect("peer")
    engine = stage.make_engine(start_hold_secs=30)
    await stage.pass_time(timedelta(minutes=5))

    stage.start(engine)
    await stage.pass_time(timedelta(seconds=25))

    assert peer.asked(RecoveryRequest) == []


async def test_restart_with_an_order_out_asks_before_it_repeats(stage: Stage) -> None:
    """The first order was carried out: there is no second one."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, silence)
    engine = stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)

    await stage.kill(engine)
    stage.workflows.take_over(ExecutorId("dead"), V1)
    stage.start(stage.make_engine(instance_id=InstanceId("next")))
    record = await stage.reach(recovery, DONE)

    assert record.attempts == 1
    assert len(peer.asked(RecoveryRequest)) == 1
    assert "recovery.fail" in await stage.list_operations(recovery)


async def test_restart_with_a_lost_order_repeats_it(stage: Stage) -> None:
    """The work is still there, so it is ordered again."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, silence)
    engine = stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)

    await stage.kill(engine)
    peer.behaviours.clear()
    stage.start(stage.make_engine(instance_id=InstanceId("next")))

    assert (await stage.reach(recovery, DONE)).attempts == 2


async def test_question_falls_back_to_a_listing(stage: Stage) -> None:
    """SDKs that do not know the question can still list workflows."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(ExistPendingWorkflowsRequest, failing(unknown("peer")))

    stage.start()
    record = await stage.reach(recovery, DONE)

    assert record.is_verified is True
    assert record.attempts == 1


async def test_unverifiable_recovery_ends_without_deleting(stage: Stage) -> None:
    """Unknown is not nothing: the executor's record stays."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(ExistPendingWorkflowsRequest, failing(unknown("peer")))
    peer.on(ListWorkflowsRequest, failing(unknown("peer")))

    stage.start()
    record = await stage.reach(recovery, DONE)

    assert record.is_verified is False
    assert await stage.find_executor() is not None
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.verify",
    ]


async def test_failing_question_orders_nothing_and_is_told_once(stage: Stage) -> None:
    """Nobody is ordered to take over what may not exist."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    error = ExecutorFailedError(ExecutorId("peer"), "database down")
    peer.on(ExistPendingWorkflowsRequest, failing(error))

    stage.start()
    await stage.reach(recovery, RecoveryState.BACKOFF)
    await stage.pass_time(timedelta(seconds=30))

    assert peer.asked(RecoveryRequest) == []
    assert await stage.list_operations(recovery) == ["recovery.fail"]


async def test_outcome_is_written_when_the_store_is_back(stage: Stage) -> None:
    """The order was answered while the database was away: nothing is repeated."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def recover_during_outage(_: object) -> object:
        stage.store.is_down = True
        stage.workflows.take_over(ExecutorId("dead"), V1)
        return Acknowledgement(success=True)

    peer.on(RecoveryRequest, recover_during_outage)
    stage.start()
    await stage.run_until(lambda: is_true(stage.store.is_down))
    await stage.pass_time(timedelta(seconds=40))
    assert (await stage.find(recovery)).state is RecoveryState.ORDERED
    stage.store.is_down = False
    record = await stage.reach(recovery, DONE)

    assert record.attempts == 1
    assert len(peer.asked(RecoveryRequest)) == 1


async def test_order_whose_commit_was_not_confirmed_is_sent_once(stage: Stage) -> None:
    """The row says that the order was recorded, so it is neither lost nor doubled."""
    recovery = await stage.bury()
    peer = stage.connect("peer")

    async def lose_the_order(_: object) -> object:
        stage.store.lose_next_commit()
        return ()

    peer.on(ListWorkflowsRequest, lose_the_order)
    stage.start()
    record = await stage.reach(recovery, DONE, within=timedelta(seconds=30))

    assert record.attempts == 1
    assert len(peer.asked(RecoveryRequest)) == 1


async def test_claim_whose_commit_was_not_confirmed_is_found_again(
    stage: Stage,
) -> None:
    """No row stays claimed by nobody."""
    stage.connect("peer")
    engine = stage.start()
    await stage.pass_time(timedelta(seconds=2))

    recovery = await stage.bury()
    stage.store.lose_next_commit()
    engine.wake()

    await stage.reach(recovery, DONE, within=timedelta(seconds=3))


async def test_abandoning_drops_the_outcome_of_an_attempt(stage: Stage) -> None:
    """What an operator closed stays closed, and nothing is deleted."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.on(RecoveryRequest, silence)
    stage.start(stage.make_engine(order_timeout_secs=20))
    await stage.reach(recovery, RecoveryState.ORDERED)

    await Ledger(stage.store, stage.audit).abandon(recovery, "lost cause", by=SOMEBODY)
    await stage.pass_time(timedelta(seconds=30))

    record = await stage.find(recovery)
    assert record.state is RecoveryState.ABANDONED
    assert record.reason == "lost cause"
    assert await stage.find_executor() is not None


async def test_new_recovery_waits_for_the_attempt_at_the_old_one(stage: Stage) -> None:
    """An abandoned recovery's order may still be out."""
    recovery = await stage.bury()
    slow = stage.connect("slow")
    slow.on(RecoveryRequest, silence)
    stage.start(stage.make_engine(order_timeout_secs=20))
    await stage.reach(recovery, RecoveryState.ORDERED)

    ledger = Ledger(stage.store, stage.audit)
    await ledger.abandon(recovery, "again", by=SOMEBODY)
    second = await ledger.order(
        dead_ref().application, ExecutorId("dead"), V1, by=SOMEBODY
    )
    await stage.pass_time(timedelta(seconds=15))
    assert len(slow.asked(RecoveryRequest)) == 1
    slow.behaviours.clear()

    assert (await stage.reach(second.id, DONE)).attempts == 1


async def test_retry_is_refused_during_an_attempt(stage: Stage) -> None:
    """An order is out; a second one would break the rule of one."""
    recovery = await stage.bury()
    stage.connect("peer").on(RecoveryRequest, silence)
    stage.start()
    await stage.reach(recovery, RecoveryState.ORDERED)

    with pytest.raises(ConflictError, match="being worked on"):
        await Ledger(stage.store, stage.audit).retry(recovery, by=SOMEBODY)


async def test_unanswered_order_of_a_direct_sdk_blocks_the_next(stage: Stage) -> None:
    """It may be starting the work at this moment: a second order would double it."""
    recovery = await stage.bury()
    first = stage.connect("first", sdk=DIRECT)
    first.on(RecoveryRequest, silence)
    stage.start(stage.make_engine(order_timeout_secs=20))
    await stage.reach(recovery, RecoveryState.ORDERED)
    first.is_responsive = False
    other = stage.connect("other", sdk=DIRECT)

    await stage.pass_time(timedelta(seconds=180))
    blocked = await stage.find(recovery)
    assert other.asked(RecoveryRequest) == []
    assert "first" in (blocked.reason or "")
    first.is_responsive = True
    first.behaviours.clear()

    assert (await stage.reach(recovery, DONE)).attempts == 2


async def test_target_of_an_unanswered_order_is_heard_first(stage: Stage) -> None:
    """Once it answers, it is known that its order is not being carried out."""
    recovery = await stage.bury()
    first = stage.connect("first", sdk=DIRECT)
    first.on(RecoveryRequest, silence)
    stage.start(stage.make_engine(order_timeout_secs=20))
    await stage.reach(recovery, RecoveryState.ORDERED)
    stage.connect("other", sdk=DIRECT)
    first.in_flight += 1
    first.behaviours.clear()

    took = await stage.run_until(lambda: is_done(stage, recovery))

    assert took < timedelta(seconds=22)


async def test_unusable_answer_leaves_an_order_outstanding(stage: Stage) -> None:
    """It may have been carried out, so its deadline stays in the row."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    error = ReplyInvalidError(ExecutorId("peer"), "a wrong type")
    peer.on(RecoveryRequest, failing(error))

    stage.start()
    record = await stage.reach(recovery, RecoveryState.BACKOFF)

    assert record.attempts == 1
    assert record.order_deadline is not None
    assert "a wrong type" in (record.reason or "")


@pytest.mark.parametrize(
    ("status", "is_blocking"),
    [(ExecutorStatus.DISCONNECTED, True), (ExecutorStatus.DEAD, False)],
)
async def test_lost_order_of_a_direct_sdk_blocks_until_its_target_is_dead(
    stage: Stage, status: ExecutorStatus, is_blocking: bool
) -> None:
    """A target within its grace may be alive and at work."""
    recovery = await stage.bury()
    first = stage.connect("first", sdk=DIRECT)
    async with stage.store.write() as work:
        await work.executors.insert(
            make_executor(
                first.ref, status=status, language="java", dbos_version="1.0.0"
            )
        )

    async def die(_: object) -> object:
        stage.disconnect(first)
        stage.connect("other", sdk=DIRECT)
        return await lost("first", delivered=True)(None)

    first.on(RecoveryRequest, die)
    stage.start()
    await stage.pass_time(timedelta(seconds=60))

    assert ((await stage.find(recovery)).state is DONE) is not is_blocking


async def test_many_dead_executors_are_spread_over_the_living(stage: Stage) -> None:
    """Thirty deaths at once do not all fall on one peer."""
    recoveries = [await stage.bury(f"dead-{n}") for n in range(30)]
    peers = [stage.connect(name) for name in ("a", "b", "c")]

    stage.start()
    for recovery in recoveries:
        await stage.reach(recovery, DONE)

    shares = [len(peer.asked(RecoveryRequest)) for peer in peers]
    assert sum(shares) == 30
    assert min(shares) >= 8


async def test_gauges_show_open_recoveries(stage: Stage) -> None:
    """Count and age of what is open, by state."""
    await stage.bury()
    stage.connect("foreign", V2)
    stage.start()
    await stage.pass_time(timedelta(seconds=20))

    read = stage.metrics.registry.get_sample_value
    labels = {"state": "STRANDED"}
    assert read("relay_recoveries", labels) == 1
    age = read("relay_recovery_oldest_seconds", labels)
    assert age is not None
    assert age >= 15


async def test_stranded_and_long_waiting_rows_raise_one_error_each(
    stage: Stage,
) -> None:
    """One line an operator can alert on, not one an attempt."""
    await stage.bury()
    await stage.add_application(OTHER)
    await stage.bury("alone", application=OTHER)
    stage.connect("foreign", V2)

    with capture_logs() as logs:
        stage.start()
        await stage.pass_time(timedelta(minutes=11))

    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert sorted((e["event"], e["executor_id"]) for e in errors) == [
        ("recovery_stranded", "dead"),
        ("recovery_waiting", "alone"),
    ]


async def is_true(value: bool) -> bool:
    return value


async def is_done(stage: Stage, recovery: RecoveryId) -> bool:
    return (await stage.find(recovery)).state is DONE


def unknown(peer: str) -> UnknownMessageError:
    return UnknownMessageError(ExecutorId(peer), "Unknown message type")


async def bring_back(stage: Stage) -> None:
    """The executor connected and died again; its first recovery was overlooked."""
    async with stage.store.write() as work:
        executor = await work.executors.find(dead_ref().key)
        assert executor is not None
        is_saved = await work.executors.save(
            replace(executor, epoch=Epoch(4)),
            expected_epoch=executor.epoch,
            expected_status=executor.status,
        )
        assert is_saved


def assert_each_order_follows_a_question(requests: list[type]) -> None:
    is_asked = False
    for request in requests:
        if request is RecoveryRequest:
            assert is_asked, "an order without a question before it"
            is_asked = False
        elif request is ExistPendingWorkflowsRequest:
            is_asked = True
