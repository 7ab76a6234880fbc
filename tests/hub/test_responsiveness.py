"""An executor that leaves questions unanswered, and how it comes back."""

from datetime import timedelta
from typing import Any

import pytest

from relay.errors import ReplyTimeoutError
from relay.hub.keepalive import PROBE_INTERVAL
from relay.hub.replies import HELD_SECONDS, SLOW_SPAN
from relay.protocol.workflow_orders import CancelRequest
from relay.testing.answers import Silence
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.asking import ORDER, QUESTION, RETENTION, Export, find, start
from tests.hub.conftest import Bench, eventually
from tests.hub.test_frames import PaddingRequest


class Import(PaddingRequest):
    """A request that takes minutes."""

    message_type = "import_workflow"


async def time_out(bench: Bench, clock: FakeClock, executor: FakeExecutor) -> None:
    """Let one question time out that the executor has seen."""
    seen = len(executor.received("exist_pending_workflows"))
    asking = start(bench, QUESTION, timedelta(seconds=2))
    await executor.wait_for("exist_pending_workflows", seen + 1)
    await clock.advance(timedelta(seconds=2))
    assert isinstance(await asking, ReplyTimeoutError)


async def test_two_timeouts_in_a_row_make_unresponsive(
    bench: Bench, clock: FakeClock
) -> None:
    """One does not, and an answer between them starts the count again."""
    async with await bench.connect(
        script={"exist_pending_workflows": [Silence()]}
    ) as executor:
        await time_out(bench, clock, executor)
        assert find(bench).is_responsive
        assert (await start(bench, ORDER)).success

        await time_out(bench, clock, executor)
        assert find(bench).is_responsive
        await time_out(bench, clock, executor)
        assert not find(bench).is_responsive


async def test_serial_executor_that_hangs_is_unresponsive_too(
    bench: Bench, clock: FakeClock
) -> None:
    """One request at a time is all it gets, so the second time-out is never sent."""
    async with await bench.connect(
        language="go",
        dbos_version="1.2.0",
        script={"exist_pending_workflows": [Silence()]},
    ) as executor:
        await time_out(bench, clock, executor)
        assert find(bench).is_responsive
        asking = start(bench, QUESTION, timedelta(seconds=2))
        await clock.advance(timedelta(seconds=2))
        error = await asking

        assert isinstance(error, ReplyTimeoutError)
        assert not error.delivered
        assert not find(bench).is_responsive


async def test_late_answer_makes_responsive_again(
    bench: Bench, clock: FakeClock
) -> None:
    """An executor that was busy is back with whatever it answers first."""
    async with await bench.connect(
        script={"exist_pending_workflows": [Silence()]}
    ) as executor:
        await time_out(bench, clock, executor)
        await time_out(bench, clock, executor)

        await executor.reply(executor.received("exist_pending_workflows")[0])

        await eventually(lambda: find(bench).is_responsive)


async def test_unresponsive_executor_is_probed_until_it_answers(
    bench: Bench, clock: FakeClock
) -> None:
    """One probe at a time; its answer is the way back."""
    async with await bench.connect(
        script={"exist_pending_workflows": [Silence()]}
    ) as executor:
        executor.script("executor_info", Silence())
        await time_out(bench, clock, executor)
        await time_out(bench, clock, executor)
        for _ in range(3):
            await executor.ping()
            await clock.advance(PROBE_INTERVAL)
        await executor.ping()
        (_, probe) = executor.received("executor_info")
        assert not find(bench).is_responsive

        await executor.reply(probe, executor.info)

        await eventually(lambda: find(bench).is_responsive)
        await executor.ping()
        await clock.advance(PROBE_INTERVAL)
        await executor.ping()
        assert len(executor.received("executor_info")) == 2


@pytest.mark.parametrize("slow", [RETENTION, Import(), Export()])
async def test_timeouts_behind_work_of_minutes_do_not_count(
    bench: Bench, clock: FakeClock, slow: Any
) -> None:
    """Python 2 lets everything else wait for it."""
    name = slow.message_type
    async with await bench.connect(
        script={name: [Silence()], "exist_pending_workflows": [Silence()]}
    ) as executor:
        working = start(bench, slow, timedelta(seconds=1))
        await executor.wait_for(name)
        await clock.advance(timedelta(seconds=1))
        assert isinstance(await working, ReplyTimeoutError)

        for _ in range(3):
            await time_out(bench, clock, executor)

        assert find(bench).is_responsive


@pytest.mark.parametrize(
    ("span", "is_responsive"),
    [(2 * SLOW_SPAN, True), (SLOW_SPAN, False)],
    ids=["minutes", "usual"],
)
async def test_timeouts_behind_an_order_that_is_given_minutes_do_not_count(
    bench: Bench, clock: FakeClock, span: timedelta, is_responsive: bool
) -> None:
    """A thousand workflows may be cancelled by the same message as one."""
    order = CancelRequest(workflow_ids=("w-1", "w-2"))
    async with await bench.connect(
        script={"cancel": [Silence()], "exist_pending_workflows": [Silence()]}
    ) as executor:
        working = start(bench, order, span)
        await executor.wait_for("cancel")

        for _ in range(2):
            asked = start(bench, QUESTION, timedelta(seconds=1))
            await executor.ping()
            await clock.advance(timedelta(seconds=1))
            assert isinstance(await asked, ReplyTimeoutError)

        assert find(bench).is_responsive is is_responsive
        working.cancel()


async def test_timed_out_request_keeps_its_place_for_a_while(
    bench: Bench, clock: FakeClock
) -> None:
    """The executor still works on it; a reply that never comes frees it in the end."""
    async with await bench.connect(
        language="go",
        dbos_version="1.2.0",
        script={"exist_pending_workflows": [Silence()]},
    ) as executor:
        await time_out(bench, clock, executor)
        waiting = start(bench, ORDER, timedelta(seconds=HELD_SECONDS * 2))
        await executor.ping()
        assert executor.received("recovery") == []

        for _ in range(int(HELD_SECONDS / 20) + 1):
            await clock.advance(timedelta(seconds=20))
            await executor.ping()
        start(bench, QUESTION)

        assert (await waiting).success
