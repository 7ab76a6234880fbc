"""Asking one executor: how many at a time, for how long, and until which moment."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from relay.errors import (
    ConnectionLostError,
    ExecutorBusyError,
    ExecutorFailedError,
    InvalidInputError,
    ReplyInvalidError,
    ReplyTimeoutError,
    RequestWithdrawnError,
    UnknownMessageError,
)
from relay.hub.connection import OUTBOX_FRAMES, Connection
from relay.hub.keepalive import PROBE_INTERVAL
from relay.hub.replies import HELD_SECONDS
from relay.ids import AppVersion, ExecutorId
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    RecoveryRequest,
    RetentionRequest,
)
from relay.testing.answers import Failure, Reply, Silence, Slow
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import Bench, eventually, executor_ref
from tests.hub.test_frames import PaddingRequest

ORDER = RecoveryRequest((ExecutorId("dead-1"),))
QUESTION = ExistPendingWorkflowsRequest(ExecutorId("dead-1"), AppVersion("v1"))
RETENTION = RetentionRequest(
    gc_cutoff=None, gc_rows_threshold=None, timeout_cutoff=None
)
SPAN = timedelta(seconds=30)


class Export(PaddingRequest):
    """A request of the type that Java bears no other one beside."""

    message_type = "export_workflow"


class Import(PaddingRequest):
    """A request that takes minutes."""

    message_type = "import_workflow"


def find(bench: Bench) -> Connection:
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    return connection


def start(
    bench: Bench,
    request: Any,
    span: timedelta = SPAN,
    still_wanted: Callable[[], bool] | None = None,
) -> asyncio.Task[Any]:
    """Ask in the background."""
    return bench.hub.switchboard.tasks.spawn(
        _outcome(find(bench), request, span, still_wanted), name="ask"
    )


async def _outcome(
    connection: Connection,
    request: Any,
    span: timedelta,
    still_wanted: Callable[[], bool] | None,
) -> Any:
    try:
        return await connection.ask(request, span, still_wanted=still_wanted)
    except Exception as error:
        return error


@pytest.mark.parametrize(
    ("language", "version", "cap"),
    [
        ("python", "3.2.0", 8),
        ("typescript", "5.2.11", 16),
        ("go", "v1.2.0", 1),
        ("java", "1.0.0", 8),
        ("cobol", "1.0", 1),
        (None, None, 1),
    ],
)
async def test_sdk_decides_how_many_requests_are_in_flight(
    bench: Bench, language: str | None, version: str | None, cap: int
) -> None:
    """The rest wait, in order, and each reply lets the next one go."""
    async with await bench.connect(
        language=language, dbos_version=version, script={"padding": [Silence()]}
    ) as executor:
        asked = [start(bench, PaddingRequest(str(n))) for n in range(cap + 2)]
        await executor.wait_for("padding", cap)
        await executor.ping()

        assert len(executor.received("padding")) == cap
        assert find(bench).in_flight == cap + 2
        first = executor.received("padding")[0]
        await executor.reply(first, {"pad": "0"})
        await executor.wait_for("padding", cap + 1)

        pads = [request["pad"] for request in executor.received("padding")]
        assert pads == [str(n) for n in range(cap + 1)]
        assert (await asked[0])["pad"] == "0"


async def test_export_is_alone_on_a_java_socket(bench: Bench) -> None:
    """It waits for the others to be answered, and the others wait for it."""
    async with await bench.connect(
        language="java",
        dbos_version="1.0.0",
        script={"padding": [Silence()], "export_workflow": [Silence()]},
    ) as executor:
        start(bench, PaddingRequest("before"))
        start(bench, Export())
        start(bench, PaddingRequest("after"))
        before = await executor.wait_for("padding")
        await executor.ping()
        assert executor.received("export_workflow") == []

        await executor.reply(before)
        export = await executor.wait_for("export_workflow")
        await executor.ping()
        assert len(executor.received("padding")) == 1

        await executor.reply(export)
        assert (await executor.wait_for("padding", 2))["pad"] == "after"


async def test_waiting_request_times_out_unsent(bench: Bench, clock: FakeClock) -> None:
    """Its deadline runs while it waits; it is never sent and does not count."""
    async with await bench.connect(
        language="go", dbos_version="1.2.0", script={"padding": [Silence()]}
    ) as executor:
        start(bench, PaddingRequest("first"), timedelta(minutes=9))
        await executor.wait_for("padding")
        waiting = [start(bench, QUESTION, timedelta(seconds=5)) for _ in range(3)]
        await clock.advance(timedelta(seconds=5))

        errors = [await task for task in waiting]
        assert [type(error) for error in errors] == [ReplyTimeoutError] * 3
        assert not any(error.delivered for error in errors)
        assert find(bench).is_responsive
        assert find(bench).in_flight == 1
        await executor.reply(executor.received("padding")[0])
        await executor.ping()
        assert executor.received("exist_pending_workflows") == []


async def test_cancelled_request_is_not_sent_any_more(bench: Bench) -> None:
    """Whoever stops waiting takes its place in the queue along."""
    async with await bench.connect(
        language="go", dbos_version="1.2.0", script={"padding": [Silence()]}
    ) as executor:
        start(bench, PaddingRequest())
        sent = await executor.wait_for("padding")
        waiting = start(bench, QUESTION)
        await eventually(lambda: find(bench).in_flight == 2)

        waiting.cancel()
        await eventually(waiting.done)
        await executor.reply(sent)
        await executor.ping()

        assert find(bench).in_flight == 0
        assert executor.received("exist_pending_workflows") == []


async def test_withdrawn_request_is_not_sent(bench: Bench) -> None:
    """An order is not written when its executor came back while it waited."""
    wanted = True
    async with await bench.connect(
        language="go", dbos_version="1.2.0", script={"padding": [Silence()]}
    ) as executor:
        start(bench, PaddingRequest())
        sent = await executor.wait_for("padding")
        order = start(bench, ORDER, still_wanted=lambda: wanted)
        question = start(bench, QUESTION)
        await eventually(lambda: find(bench).in_flight == 3)

        wanted = False
        await executor.reply(sent)

        assert isinstance(await order, RequestWithdrawnError)
        assert await question is False
        assert executor.received("recovery") == []


async def test_wish_is_asked_in_the_turn_of_the_write(bench: Bench) -> None:
    """Nothing else runs between the last look and the transport."""
    async with await bench.connect() as executor:
        connection = find(bench)
        loop = asyncio.get_running_loop()
        looked_later: list[bool] = []

        def look() -> None:
            looked_later.append(connection.is_asked("recovery"))

        def still_wanted() -> bool:
            assert not connection.is_asked("recovery")
            loop.call_soon(look)
            return True

        await start(bench, ORDER, still_wanted=still_wanted)

        assert looked_later == [True]
        assert len(executor.received("recovery")) == 1


async def test_failing_wish_reaches_its_asker_only(bench: Bench) -> None:
    """The queue goes on behind it."""

    def still_wanted() -> bool:
        raise LookupError("a defect")

    async with await bench.connect() as executor:
        assert isinstance(
            await start(bench, ORDER, still_wanted=still_wanted), LookupError
        )
        assert await start(bench, QUESTION) is False
        assert executor.received("recovery") == []


async def test_error_reply_is_an_error(bench: Bench) -> None:
    """Its message is kept whole; `UnknownMessageError` is told apart."""
    trace = "Traceback\n  File x\nValueError: no"
    async with await bench.connect(
        script={
            "recovery": [Failure(trace)],
            "retention": [Failure("Unknown message type")],
            "exist_pending_workflows": [Reply({"exist": "perhaps"})],
        }
    ):
        failed = await start(bench, ORDER)
        unknown = await start(bench, RETENTION)
        invalid = await start(bench, QUESTION)

    assert type(failed) is ExecutorFailedError
    assert failed.message == trace
    assert failed.summary == "ValueError: no"
    assert type(unknown) is UnknownMessageError
    assert type(invalid) is ReplyInvalidError


async def test_request_that_must_not_be_sent_fails_alone(bench: Bench) -> None:
    """It is the asker's mistake, and costs nobody anything."""
    async with await bench.connect():
        error = await start(bench, RecoveryRequest(()))

        assert isinstance(error, InvalidInputError)
        assert find(bench).in_flight == 0


async def test_lost_connection_cannot_be_asked(bench: Bench) -> None:
    """The asker learns at once that nothing left."""
    executor = await bench.connect()
    connection = find(bench)
    executor.abort()
    await eventually(lambda: bench.listener.departures)

    with pytest.raises(ConnectionLostError) as failure:
        await connection.ask(ORDER, SPAN)

    assert not failure.value.delivered


async def test_outbox_is_bounded(bench: Bench) -> None:
    """What does not fit is told at once, and the rest still waits."""
    async with await bench.connect(
        language="go", dbos_version="1.2.0", script={"padding": [Silence()]}
    ):
        for _ in range(OUTBOX_FRAMES + 1):
            start(bench, PaddingRequest())
        await eventually(lambda: find(bench).in_flight == OUTBOX_FRAMES + 1)

        assert isinstance(await start(bench, QUESTION), ExecutorBusyError)
        assert find(bench).in_flight == OUTBOX_FRAMES + 1


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


async def test_slow_reply_within_the_timeout_is_taken(
    bench: Bench, clock: FakeClock
) -> None:
    """Patience is the asker's to choose."""
    async with await bench.connect(
        clock=clock, script={"recovery": [Slow(timedelta(seconds=20))]}
    ) as executor:
        order = start(bench, ORDER)
        await executor.wait_for("recovery")
        await clock.advance(timedelta(seconds=20))

        assert (await order).success


async def test_outcomes_are_counted(bench: Bench) -> None:
    """By message type and by what came of it."""
    async with await bench.connect(script={"retention": [Failure("no")]}):
        await start(bench, ORDER)
        await start(bench, RETENTION)

    def count(message: str, outcome: str) -> float:
        return bench.sample(
            "relay_executor_requests_total", message=message, outcome=outcome
        )

    assert count("recovery", "ok") == 1
    assert count("retention", "failed") == 1
    assert bench.sample("relay_executor_request_seconds_count", message="recovery") == 1
