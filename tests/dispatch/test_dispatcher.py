"""Whom the dispatcher asks, and when it asks the next."""

import asyncio
from datetime import timedelta

import pytest

from relay.dispatch import Dispatcher
from relay.dispatch.dispatcher import COMPARED_AT_ONCE
from relay.errors import (
    ConnectionLostError,
    ExecutorBusyError,
    ExecutorFailedError,
    NoExecutorError,
    ReplyTimeoutError,
    UnknownMessageError,
)
from relay.ids import ApplicationId, ApplicationRef, AppName, ExecutorId
from relay.protocol.messages import ExecutorInfo, ExecutorInfoRequest
from relay.protocol.sdk import capabilities_of
from relay.testing.clock import FakeClock
from tests.recovery.records import ORGANIZATION, SHOP, V1, dead_ref
from tests.recovery.stage import (
    MODERN,
    FakePeer,
    FakePeers,
    Workflows,
    failing,
    lost,
    silence,
)

OTHER = ApplicationRef(ApplicationId("app-other"), ORGANIZATION, AppName("other"))
QUESTION = ExecutorInfoRequest()
MINUTE = timedelta(minutes=1)


class Room:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.peers = FakePeers()
        self.dispatcher = Dispatcher(self.peers, self.clock)

    def connect(
        self,
        name: str,
        *,
        in_flight: int = 0,
        is_responsive: bool = True,
        application: ApplicationRef = SHOP,
    ) -> FakePeer:
        peer = FakePeer(
            dead_ref(name, application),
            ExecutorInfo(ExecutorId(name), V1, None, None, None, None),
            capabilities_of(MODERN),
            Workflows(),
            self.clock,
            in_flight=in_flight,
            is_responsive=is_responsive,
        )
        self.peers.peers.append(peer)
        return peer

    async def ask(self, *, attempt_timeout: timedelta | None = None) -> str:
        peer, info = await self.dispatcher.ask_any(
            SHOP, QUESTION, MINUTE, attempt_timeout=attempt_timeout
        )
        assert info.executor_id == peer.ref.executor_id
        return info.executor_id


class LateClock(FakeClock):
    """A clock whose time passes while nobody waits for it."""

    late_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late_seconds


@pytest.fixture
def room() -> Room:
    return Room()


async def test_nobody_connected_is_told_at_once(room: Room) -> None:
    """Executors of other applications do not count."""
    room.connect("foreign", application=OTHER)

    with pytest.raises(NoExecutorError, match="shop"):
        await room.ask()


async def test_least_busy_executor_is_asked(room: Room) -> None:
    """And nobody else."""
    busy = room.connect("busy", in_flight=3)
    room.connect("idle", in_flight=1)

    assert await room.ask() == "idle"
    assert busy.requests == []


async def test_few_of_hundreds_are_compared(room: Room) -> None:
    """The least busy among a part of them is asked, each time of another part."""
    for number in range(3 * COMPARED_AT_ONCE):
        room.connect(f"busy-{number}", in_flight=5)
    room.connect("idle")

    answered_by = [await room.ask() for _ in range(COMPARED_AT_ONCE)]

    assert len(set(answered_by)) > COMPARED_AT_ONCE / 2


async def test_everybody_of_hundreds_is_tried_once(room: Room) -> None:
    """The only one who knows the message is found, and the silent come last."""
    number = 2 * COMPARED_AT_ONCE + 10
    crowd = [room.connect(f"old-{n}", is_responsive=n % 2 == 0) for n in range(number)]
    for peer in crowd:
        peer.on(ExecutorInfoRequest, failing(unknown(peer.ref.executor_id)))
    del crowd[9].behaviours[ExecutorInfoRequest]

    assert await room.ask() == "old-9"
    assert {len(peer.requests) for peer in crowd[::2]} == {1}
    assert max(len(peer.requests) for peer in crowd) == 1


async def test_wanted_executor_of_hundreds_is_asked_first(room: Room) -> None:
    """However busy it is; unless it is silent, and then it is asked last."""
    crowd = [room.connect(f"e-{n}", in_flight=n) for n in range(3 * COMPARED_AT_ONCE)]
    wanted = crowd[-1]

    async def ask() -> str:
        peer, _ = await room.dispatcher.ask_any(
            SHOP, QUESTION, MINUTE, first=wanted.ref.executor_id
        )
        return peer.ref.executor_id

    assert await ask() == wanted.ref.executor_id
    wanted.is_responsive = False
    assert await ask() != wanted.ref.executor_id
    assert len(wanted.requests) == 1


async def test_silent_executor_is_asked_last(room: Room) -> None:
    """However idle it is; but it is asked when the others fail."""
    room.connect("silent", is_responsive=False)
    busy = room.connect("busy", in_flight=3)

    assert await room.ask() == "busy"
    busy.on(ExecutorInfoRequest, lost("busy", delivered=True))
    assert await room.ask() == "silent"


async def test_equal_executors_take_turns(room: Room) -> None:
    """Three questions reach three executors."""
    for name in ("a", "b", "c"):
        room.connect(name)

    assert {await room.ask() for _ in range(3)} == {"a", "b", "c"}


async def test_preferred_executor_is_asked_before_an_idler_one(room: Room) -> None:
    """A preference beats the load, but not silence."""
    room.connect("idle")
    room.connect("wanted", in_flight=5)
    room.connect("mute", is_responsive=False)
    ranks = {"mute": 0, "wanted": 1, "idle": 2}

    peer, _ = await room.dispatcher.ask_any(
        SHOP, QUESTION, MINUTE, prefer=lambda peer: ranks[peer.ref.executor_id]
    )

    assert peer.ref.executor_id == "wanted"


@pytest.mark.parametrize("delivered", [True, False])
async def test_next_executor_is_asked_when_one_is_lost(
    room: Room, delivered: bool
) -> None:
    """Requests to any executor can be repeated."""
    room.connect("first").on(ExecutorInfoRequest, lost("first", delivered=delivered))
    room.connect("second", in_flight=1)

    assert await room.ask() == "second"


async def test_next_executor_is_asked_when_one_takes_no_more(room: Room) -> None:
    """Nothing was queued there."""
    busy = ExecutorBusyError(ExecutorId("first"), 1000)
    room.connect("first").on(ExecutorInfoRequest, failing(busy))
    room.connect("second", in_flight=1)

    assert await room.ask() == "second"


async def test_next_executor_is_asked_when_one_is_slow(room: Room) -> None:
    """Each gets the span of one try."""
    room.connect("slow").on(ExecutorInfoRequest, silence)
    room.connect("second", in_flight=1)

    asking = asyncio.gather(room.ask(attempt_timeout=timedelta(seconds=5)))
    await room.clock.advance(timedelta(seconds=5))

    [answered_by] = await asking
    assert answered_by == "second"


async def test_whole_time_is_bounded(room: Room) -> None:
    """Nobody is begun with when the time is spent."""
    silent = [room.connect(f"silent-{n}") for n in range(30)]
    for peer in silent:
        peer.on(ExecutorInfoRequest, silence)

    asking = asyncio.gather(
        room.ask(attempt_timeout=timedelta(seconds=25)), return_exceptions=True
    )
    await room.clock.advance(MINUTE)

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert sum(len(peer.requests) for peer in silent) == 3
    assert outcome.timeout == MINUTE


async def test_all_who_did_not_answer_are_told_with_the_whole_time(room: Room) -> None:
    """What was left for the last one says nothing of what has happened."""
    room.connect("e1").on(ExecutorInfoRequest, silence)
    room.connect("e2", in_flight=1).on(ExecutorInfoRequest, lost("e2", delivered=True))
    room.connect("old", in_flight=2).on(ExecutorInfoRequest, failing(unknown("old")))
    room.connect("e3", in_flight=3).on(ExecutorInfoRequest, silence)

    asking = asyncio.gather(
        room.ask(attempt_timeout=timedelta(seconds=10)), return_exceptions=True
    )
    await room.clock.advance(timedelta(seconds=20))

    [outcome] = await asking
    assert str(outcome) == "3 executors did not answer within 20 s; the last was e3"


async def test_what_was_delivered_to_anybody_may_have_been_done(room: Room) -> None:
    """Also if the last one has certainly not got it."""
    room.connect("e1").on(ExecutorInfoRequest, lost("e1", delivered=True))
    late = ReplyTimeoutError(ExecutorId("e2"), MINUTE, delivered=False)
    room.connect("e2", in_flight=1).on(ExecutorInfoRequest, failing(late))

    with pytest.raises(ReplyTimeoutError) as caught:
        await room.ask()

    assert caught.value.delivered


async def test_last_failure_is_told(room: Room) -> None:
    """When everybody was lost, the caller learns of the last one."""
    room.connect("first").on(ExecutorInfoRequest, lost("first", delivered=True))
    room.connect("second", in_flight=1).on(
        ExecutorInfoRequest, lost("second", delivered=False)
    )

    with pytest.raises(ConnectionLostError) as caught:
        await room.ask()

    assert caught.value.executor == "second"


async def test_error_of_an_executor_is_not_asked_for_twice(room: Room) -> None:
    """It answered; the others would say the same."""
    room.connect("first").on(
        ExecutorInfoRequest, failing(ExecutorFailedError(ExecutorId("first"), "no"))
    )
    second = room.connect("second", in_flight=1)

    with pytest.raises(ExecutorFailedError):
        await room.ask()

    assert second.requests == []


async def test_executor_that_knows_the_message_is_found(room: Room) -> None:
    """Fleets may be mixed."""
    room.connect("old").on(ExecutorInfoRequest, failing(unknown("old")))
    room.connect("new", in_flight=1)

    assert await room.ask() == "new"


async def test_message_that_nobody_knows_is_told(room: Room) -> None:
    """Every one of them has said so."""
    room.connect("old").on(ExecutorInfoRequest, failing(unknown("old")))
    room.connect("older").on(ExecutorInfoRequest, failing(unknown("older")))

    with pytest.raises(UnknownMessageError):
        await room.ask()


async def test_message_is_not_unknown_while_somebody_may_know_it(room: Room) -> None:
    """The one that was lost on the way might have had the answer."""
    room.connect("old").on(ExecutorInfoRequest, failing(unknown("old")))
    room.connect("gone", in_flight=1).on(
        ExecutorInfoRequest, lost("gone", delivered=False)
    )

    with pytest.raises(ConnectionLostError):
        await room.ask()


async def test_time_that_is_spent_at_once_is_not_that_nobody_is_there(
    room: Room,
) -> None:
    """The caller of a change looked something up first, which took all of it."""
    peer = room.connect("here")

    with pytest.raises(ReplyTimeoutError, match="here") as caught:
        await room.dispatcher.ask_any(SHOP, QUESTION, timedelta(seconds=-1))

    assert not caught.value.delivered
    assert peer.requests == []


async def test_message_is_not_unknown_while_somebody_was_not_asked(room: Room) -> None:
    """There was no time for it, and it might know the message."""
    clock = LateClock()

    async def answer_late(_: object) -> object:
        clock.late_seconds = MINUTE.total_seconds()
        raise unknown("old")

    room.connect("old").on(ExecutorInfoRequest, answer_late)
    room.connect("new", in_flight=1)

    with pytest.raises(ReplyTimeoutError) as caught:
        await Dispatcher(room.peers, clock).ask_any(SHOP, QUESTION, MINUTE)

    assert caught.value.executor == "new"


def unknown(name: str) -> UnknownMessageError:
    return UnknownMessageError(ExecutorId(name), "Unknown message type")
