"""Asking one executor: how many at a time, for how long, and until which moment."""

import asyncio
from datetime import timedelta

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
from relay.hub.connection import OUTBOX_FRAMES
from relay.protocol.messages import RecoveryRequest
from relay.testing.answers import Failure, Reply, Silence, Slow
from relay.testing.clock import FakeClock
from tests.hub.asking import ORDER, QUESTION, RETENTION, SPAN, Export, find, start
from tests.hub.conftest import Bench, eventually
from tests.hub.test_frames import PaddingRequest


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
