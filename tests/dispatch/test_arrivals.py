"""When nobody is connected, and somebody is just arriving."""

import asyncio
from datetime import timedelta

import pytest

from relay.dispatch import Peer
from relay.dispatch.dispatcher import ARRIVAL_PATIENCE
from relay.errors import NoExecutorError
from relay.protocol.messages import ExecutorInfo
from tests.dispatch.test_dispatcher import MINUTE, OTHER, QUESTION, Room
from tests.recovery.records import SHOP
from tests.recovery.stage import FakePeer


@pytest.fixture
def room() -> Room:
    return Room()


def start(
    room: Room, timeout: timedelta = MINUTE
) -> "asyncio.Future[tuple[tuple[Peer, ExecutorInfo] | BaseException]]":
    """Ask in the background."""
    return asyncio.gather(
        room.dispatcher.ask_any(SHOP, QUESTION, timeout), return_exceptions=True
    )


async def arrive(room: Room) -> FakePeer:
    """Somebody who was on the way in is on line."""
    peer = room.connect("newcomer")
    room.peers.arriving.clear()
    await room.clock.advance(timedelta(milliseconds=100))
    return peer


async def test_executor_that_is_arriving_is_waited_for(room: Room) -> None:
    """After a restart of Relay the first call of a client is answered."""
    room.peers.arriving.add(SHOP)
    asking = start(room)
    await room.clock.advance(timedelta(seconds=1))
    assert not asking.done()

    newcomer = await arrive(room)

    [outcome] = await asking
    assert not isinstance(outcome, BaseException)
    assert outcome[0] is newcomer


async def test_arrival_is_not_waited_for_long(room: Room) -> None:
    """The caller can come back itself."""
    room.peers.arriving.add(SHOP)
    asking = start(room)

    await room.clock.advance(ARRIVAL_PATIENCE)

    [outcome] = await asking
    assert isinstance(outcome, NoExecutorError)


async def test_who_does_not_arrive_after_all_is_not_waited_for(room: Room) -> None:
    """It was refused, or has hung up."""
    room.peers.arriving.add(SHOP)
    asking = start(room)
    await room.clock.advance(timedelta(milliseconds=500))

    room.peers.arriving.clear()
    await room.clock.advance(timedelta(milliseconds=100))

    [outcome] = await asking
    assert isinstance(outcome, NoExecutorError)


async def test_arrivals_of_other_applications_are_not_waited_for(room: Room) -> None:
    """They would not help."""
    room.peers.arriving.add(OTHER)

    with pytest.raises(NoExecutorError):
        await room.ask()


async def test_nobody_waits_for_an_arrival_beside_somebody_on_line(room: Room) -> None:
    """Whoever is there is asked in the same moment."""
    room.peers.arriving.add(SHOP)
    room.connect("here")

    assert await room.ask() == "here"


async def test_wait_for_an_arrival_counts(room: Room) -> None:
    """It is part of the time that the caller gives."""
    room.peers.arriving.add(SHOP)
    asking = start(room, timedelta(seconds=1))

    await room.clock.advance(timedelta(seconds=1))

    assert asking.done()
    [outcome] = await asking
    assert isinstance(outcome, NoExecutorError)
