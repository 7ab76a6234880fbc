"""Whether a request may reach a second executor, and which ones it may reach at all."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from relay.dispatch import Peer, Repeat
from relay.dispatch.dispatcher import COMPARED_AT_ONCE
from relay.errors import (
    ConflictError,
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    NoExecutorError,
    RelayError,
    ReplyTimeoutError,
    UnknownMessageError,
)
from relay.ids import ExecutorId
from relay.protocol.messages import ExecutorInfoRequest
from tests.dispatch.test_dispatcher import MINUTE, QUESTION, Room, unknown
from tests.recovery.records import SHOP
from tests.recovery.stage import failing, silence

FIRST = ExecutorId("first")
SECOND = timedelta(seconds=1)


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (ConnectionLostError(FIRST, delivered=False), "always undelivered"),
        (ConnectionLostError(FIRST, delivered=True), "always"),
        (ReplyTimeoutError(FIRST, SECOND, delivered=False), "always undelivered"),
        (ReplyTimeoutError(FIRST, SECOND, delivered=True), "always"),
        (ExecutorBusyError(FIRST, 1000), "always undelivered"),
        (unknown("first"), "always undelivered never"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("repeat", Repeat)
async def test_next_executor_is_asked_only_if_repeating_is_allowed(
    room: Room, error: DispatchError, goes_on: str, repeat: Repeat
) -> None:
    """What one executor may have done is not done by another one unasked."""
    room.connect("first").on(ExecutorInfoRequest, failing(error))
    second = room.connect("second", in_flight=1)

    async def ask() -> str:
        peer, _ = await room.dispatcher.ask_any(SHOP, QUESTION, MINUTE, repeat=repeat)
        return peer.ref.executor_id

    if repeat.value in goes_on.split():
        assert await ask() == "second"
    else:
        with pytest.raises(type(error)):
            await ask()
        assert second.requests == []


async def test_last_one_to_try_may_have_all_the_time(room: Room) -> None:
    """There is nobody for whom it would be saved."""
    for number in range(2):
        room.connect(f"silent-{number}").on(ExecutorInfoRequest, silence)

    asking = asyncio.gather(
        room.dispatcher.ask_any(
            SHOP, QUESTION, MINUTE, attempt_timeout=10 * SECOND, is_last_patient=True
        ),
        return_exceptions=True,
    )
    await room.clock.advance(MINUTE)

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert outcome.timeout == MINUTE


def unless(name: str, error: RelayError) -> Callable[[Peer], RelayError | None]:
    """Nobody but this one suits."""
    return lambda peer: None if peer.ref.executor_id == name else error


async def test_who_does_not_suit_is_passed_over(room: Room) -> None:
    """However idle it is."""
    idle = room.connect("idle")
    room.connect("fit", in_flight=3)

    peer, _ = await room.dispatcher.ask_any(
        SHOP, QUESTION, MINUTE, suits=unless("fit", ConflictError("unfit"))
    )

    assert peer.ref.executor_id == "fit"
    assert idle.requests == []


async def test_only_one_that_suits_is_found_among_hundreds(room: Room) -> None:
    """And asked once."""
    crowd = [room.connect(f"e-{n}") for n in range(3 * COMPARED_AT_ONCE)]

    peer, _ = await room.dispatcher.ask_any(
        SHOP, QUESTION, MINUTE, suits=unless("e-150", ConflictError("unfit"))
    )

    assert peer.ref.executor_id == "e-150"
    assert sum(len(peer.requests) for peer in crowd) == 1


async def test_reason_is_told_when_nobody_suits(room: Room) -> None:
    """It is not that nobody is there."""
    peer = room.connect("idle")

    with pytest.raises(ConflictError, match="unfit"):
        await room.dispatcher.ask_any(
            SHOP, QUESTION, MINUTE, suits=unless("fit", ConflictError("unfit"))
        )

    assert peer.requests == []


async def test_what_befell_the_one_that_suits_is_told(room: Room) -> None:
    """Rather than why the others do not."""
    room.connect("fit").on(ExecutorInfoRequest, failing(unknown("fit")))
    room.connect("unfit")

    with pytest.raises(UnknownMessageError):
        await room.dispatcher.ask_any(
            SHOP, QUESTION, MINUTE, suits=unless("fit", ConflictError("unfit"))
        )


async def test_nobody_has_to_suit_where_nobody_is(room: Room) -> None:
    """The caller may come back later."""
    with pytest.raises(NoExecutorError):
        await room.dispatcher.ask_any(
            SHOP, QUESTION, MINUTE, suits=unless("fit", ConflictError("unfit"))
        )
