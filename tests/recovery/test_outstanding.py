"""An order that is still out: operators, new deaths and SDKs that start directly."""

from datetime import timedelta

import pytest

from relay.errors import (
    ConflictError,
    ReplyInvalidError,
)
from relay.ids import (
    ExecutorId,
)
from relay.liveness.states import ExecutorStatus
from relay.protocol.messages import (
    RecoveryRequest,
)
from relay.records import AuditSubject, RecoveryState
from relay.recovery import Ledger
from tests.recovery.moves import is_done
from tests.recovery.records import V1, dead_ref, make_executor
from tests.recovery.stage import (
    DIRECT,
    Stage,
    failing,
    lost,
    silence,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE
SOMEBODY = AuditSubject(kind="user", id="u-1", display="Somebody")


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
