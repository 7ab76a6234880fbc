"""How long an order waits for others, and for whom it does not."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from relay.errors import ExecutorFailedError
from relay.ids import ExecutorId
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import RecoveryState
from relay.recovery import Ledger
from relay.recovery.orders import GATHERING
from relay.registry import SHELL_ACTOR
from relay.tasks import TaskSet
from tests.recovery.crowd import (
    bury_all,
    named_in,
    reach_all,
)
from tests.recovery.records import V1, V2
from tests.recovery.stage import Stage, silence

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE


async def test_nobody_waits_long_for_a_slow_question(stage: Stage) -> None:
    """A batch is open for a moment; who comes later is ordered later."""
    recoveries = await bury_all(stage)
    peer = stage.connect("peer")

    async def be_slow_about_d4(request: ExistPendingWorkflowsRequest) -> object:
        if request.executor_id == "d4":
            await stage.clock.sleep(timedelta(seconds=5))
        return bool(stage.workflows.pending(request.executor_id, request.app_version))

    peer.on(ExistPendingWorkflowsRequest, be_slow_about_d4)
    stage.start()
    await stage.settle()
    assert named_in(peer) == []
    await stage.clock.advance(GATHERING)
    await stage.settle()

    assert named_in(peer) == [["d1", "d2", "d3"]]
    await reach_all(stage, recoveries, DONE)
    assert named_in(peer)[1:] == [["d4"]]


async def test_row_that_needs_no_order_keeps_nobody_waiting(stage: Stage) -> None:
    """As soon as nobody else can join, the order is given: no time passes."""
    busy = await bury_all(stage, ("d1", "d2"))
    idle = await stage.bury("idle", pending=[])
    peer = stage.connect("peer")

    stage.start()
    await stage.settle()

    assert named_in(peer) == [["d1", "d2"]]
    assert {(await stage.find(r)).state for r in (*busy, idle)} == {DONE}


async def test_slow_question_about_another_version_keeps_nobody_waiting(
    stage: Stage,
) -> None:
    """Its row cannot join."""
    await bury_all(stage, ("a1", "a2"), V1)
    await stage.bury("slow", version=V2)
    peer = stage.connect("peer", V1)

    async def be_silent_about_slow(request: ExistPendingWorkflowsRequest) -> object:
        if request.executor_id == "slow":
            return await silence(request)
        return bool(stage.workflows.pending(request.executor_id, request.app_version))

    peer.on(ExistPendingWorkflowsRequest, be_silent_about_slow)
    stage.start()
    await stage.settle()

    assert named_in(peer) == [["a1", "a2"]]


async def test_repeated_order_keeps_nobody_waiting(stage: Stage) -> None:
    """A row that is ordered alone is not waited for, however slow its question."""
    slow = await stage.bury("slow")
    peer = stage.connect("peer")

    async def refuse(_: object) -> object:
        raise ExecutorFailedError(ExecutorId("peer"), "no")

    peer.on(RecoveryRequest, refuse)
    engine = stage.start()
    await stage.reach(slow, RecoveryState.BACKOFF)
    peer.on(RecoveryRequest, silence)
    peer.on(ListWorkflowsRequest, silence)
    await stage.pass_time(timedelta(seconds=1))
    del peer.behaviours[ListWorkflowsRequest], peer.behaviours[RecoveryRequest]

    fresh = await stage.bury("fresh")
    engine.wake()
    await stage.settle()

    assert (await stage.find(fresh)).state is DONE


async def test_attempt_that_never_ran_keeps_nobody_waiting(
    stage: Stage, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that is cancelled before its first step runs nothing of its own."""
    peer = stage.connect("peer")
    never_ran = await stage.bury("never-ran")
    spawn = TaskSet.spawn

    def spawn_and_cancel(
        tasks: TaskSet, work: Coroutine[Any, Any, Any], *, name: str
    ) -> asyncio.Task[Any]:
        task = spawn(tasks, work, name=name)
        if name == never_ran:
            task.cancel()
        return task

    monkeypatch.setattr(TaskSet, "spawn", spawn_and_cancel)
    engine = stage.start()
    await stage.settle()
    assert peer.requests == []
    await ledger.abandon(never_ran, "a test", by=SHELL_ACTOR.subject)

    await bury_all(stage, ("d1", "d2"))
    engine.wake()
    await stage.settle()

    assert named_in(peer) == [["d1", "d2"]]


async def test_defect_is_reported_by_every_attempt_that_it_meets(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that wait for the one that gives the order do not end without a word."""
    await bury_all(stage)
    peer = stage.connect("peer")

    async def break_down(_: object) -> object:
        raise ZeroDivisionError

    peer.on(RecoveryRequest, break_down)
    stage.start()
    await stage.settle()

    failed = [each for each in caplog.records if each.message == "task_failed"]
    assert len(failed) == 4
