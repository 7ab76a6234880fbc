"""Which executor is asked for a caller, how long, and how often."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.db import Database
from relay.dispatch import Repeat
from relay.errors import (
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    NoExecutorError,
    NotFoundError,
    RelayError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
    UnknownMessageError,
)
from relay.operations.asking import TRY_TIMEOUT
from tests.operations.crew import DONE, FIRST, Crew, unanswered
from tests.recovery.stage import Behaviour, failing, lost, replying, silence

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

ABOUT = ("workflow", "w-1")
ALL = frozenset(Repeat)
UNLESS_DELIVERED = frozenset({Repeat.ALWAYS, Repeat.UNDELIVERED})


@pytest.mark.parametrize("repeat", Repeat)
@pytest.mark.parametrize(
    ("befalls", "goes_on"),
    [
        pytest.param(
            lost("first", delivered=False), UNLESS_DELIVERED, id="lost before"
        ),
        pytest.param(
            lost("first", delivered=True), frozenset({Repeat.ALWAYS}), id="lost after"
        ),
        pytest.param(unanswered(delivered=False), UNLESS_DELIVERED, id="late before"),
        pytest.param(
            unanswered(delivered=True), frozenset({Repeat.ALWAYS}), id="late after"
        ),
        pytest.param(
            failing(ExecutorBusyError(FIRST, 1000)), UNLESS_DELIVERED, id="busy"
        ),
        pytest.param(
            failing(UnknownMessageError(FIRST, "Unknown message type")),
            ALL,
            id="unknown message",
        ),
        pytest.param(
            failing(ExecutorFailedError(FIRST, "out of memory")),
            frozenset(),
            id="error reply",
        ),
        pytest.param(
            failing(ReplyInvalidError(FIRST, "no JSON")), frozenset(), id="unusable"
        ),
        pytest.param(
            failing(ReplyTooLargeError(FIRST, 100)), frozenset(), id="too large"
        ),
    ],
)
async def test_change_is_repeated_only_as_it_may_be(
    crew: Crew, repeat: Repeat, befalls: Behaviour, goes_on: frozenset[Repeat]
) -> None:
    """Each thing that can befall a request, for each kind of change."""
    first = crew.connect("first", befalls)
    second = crew.connect("second", replying(DONE))

    if repeat in goes_on:
        assert await crew.change(repeat) is DONE
    else:
        with pytest.raises(DispatchError):
            await crew.change(repeat)

    assert len(first.requests) == 1
    assert len(second.requests) == (1 if repeat in goes_on else 0)


@pytest.mark.parametrize(
    ("repeat", "asked"),
    [(Repeat.ALWAYS, 2), (Repeat.UNDELIVERED, 1), (Repeat.NEVER, 1)],
)
async def test_silent_executor_costs_a_try_only_where_another_may_be_asked(
    crew: Crew, repeat: Repeat, asked: int
) -> None:
    """What was delivered and must not be repeated is waited for to the end."""
    crew.connect("first", silence)
    second = crew.connect("second", replying(DONE))

    asking = asyncio.gather(crew.change(repeat), return_exceptions=True)
    await crew.clock.advance(TRY_TIMEOUT)
    assert len(second.requests) == asked - 1
    await crew.clock.advance(timedelta(seconds=15))

    [outcome] = await asking
    if asked == 2:
        assert outcome is DONE
    else:
        assert isinstance(outcome, ReplyTimeoutError)
        assert outcome.timeout == timedelta(seconds=25)


@pytest.mark.parametrize("delivered", [True, False])
async def test_read_goes_to_the_next_executor(crew: Crew, delivered: bool) -> None:
    """Nothing changes however often it is asked."""
    crew.connect("first", lost("first", delivered=delivered))
    crew.connect("second", replying("mail"))

    assert await crew.read() == "mail"


async def test_read_of_the_only_executor_waits_as_long_as_the_caller_does(
    crew: Crew,
) -> None:
    """It would be no faster to ask it twice."""
    crew.connect("only", silence)

    asking = asyncio.gather(crew.read(), return_exceptions=True)
    await crew.clock.advance(timedelta(seconds=25))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert outcome.timeout == timedelta(seconds=25)


async def test_time_for_all_tries_is_a_setting(database: Database) -> None:
    """Clients give up after 30 s."""
    crew = Crew(database, request_timeout_secs=12)
    for number in range(3):
        crew.connect(f"e-{number}", silence)

    asking = asyncio.gather(crew.read(), return_exceptions=True)
    await crew.clock.advance(timedelta(seconds=12))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert sum(len(peer.requests) for peer in crew.peers.peers) == 2


@pytest.mark.parametrize("ask", [Crew.read, Crew.change])
async def test_slow_operation_may_take_its_time_at_one_executor(
    crew: Crew, ask: Callable[..., Any]
) -> None:
    """An export of minutes is not begun at the next one after ten seconds."""
    crew.connect("first", silence)
    second = crew.connect("second", replying(DONE))

    asking = asyncio.gather(
        ask(crew, within=timedelta(minutes=5)), return_exceptions=True
    )
    await crew.clock.advance(timedelta(minutes=5))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert second.requests == []


async def test_nobody_connected_is_told(crew: Crew) -> None:
    """The caller may try again later."""
    with pytest.raises(NoExecutorError):
        await crew.read()


@pytest.mark.parametrize("ask", [Crew.read, Crew.change])
async def test_error_of_an_executor_is_told_as_what_it_means(
    crew: Crew, ask: Callable[..., Any]
) -> None:
    """Of what was asked for; the others would say the same."""
    crew.connect("first", failing(ExecutorFailedError(FIRST, "Workflow a not found")))
    second = crew.connect("second", replying(DONE))

    with pytest.raises(NotFoundError) as caught:
        await ask(crew, about=ABOUT)

    assert (caught.value.kind, caught.value.name) == ABOUT
    assert second.requests == []


async def test_whole_error_text_is_in_the_log_at_debug_only(crew: Crew) -> None:
    """It may hold row values; the caller gets one line of it."""
    text = "Traceback\n  secret\nRuntimeError: no"
    crew.connect("first", failing(ExecutorFailedError(FIRST, text)))

    with capture_logs() as logs, pytest.raises(ExecutorFailedError) as caught:
        await crew.read()

    assert caught.value.summary == "RuntimeError: no"
    [entry] = logs
    assert (entry["log_level"], entry["event"]) == ("debug", "executor_failed")
    assert (entry["executor_id"], entry["error"]) == ("first", text)


@pytest.mark.parametrize(
    "text",
    [
        "Traceback\n  f('secret')\nValueError: bad 'secret'",
        "invalid input syntax for type json: secret",
    ],
)
async def test_error_text_of_a_private_application_goes_nowhere(
    crew: Crew, text: str
) -> None:
    """Its last line, too, often holds the value that was wrong."""
    crew.application = replace(crew.application, private_mode=True)
    crew.connect("first", failing(ExecutorFailedError(FIRST, text)))

    with capture_logs() as logs, pytest.raises(RelayError) as caught:
        await crew.read()

    assert "private mode" in str(caught.value)
    assert "secret" not in str((logs, caught.value, caught.value.__dict__))


async def test_what_an_error_of_a_private_application_means_is_told(crew: Crew) -> None:
    crew.application = replace(crew.application, private_mode=True)
    crew.connect("first", failing(ExecutorFailedError(FIRST, "Workflow a not found")))

    with pytest.raises(NotFoundError, match="w-1"):
        await crew.read(about=ABOUT)
