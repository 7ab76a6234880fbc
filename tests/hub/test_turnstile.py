"""How many may be on their way in."""

from relay.hub.turnstile import PEER_LIMIT, PLACES, Turnstile
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock


def test_a_place_is_taken_once_and_given_back(clock: FakeClock) -> None:
    """Whoever asks for room is called when there is some again."""
    turnstile, calls = Turnstile(clock), []
    turnstile.watch(lambda: calls.append(turnstile.room))

    turnstile.enter("a")
    turnstile.enter("a")
    assert turnstile.room == PLACES - 1

    turnstile.leave("a")
    turnstile.leave("a")
    assert calls == [PLACES]


async def test_a_place_ends_when_the_peer_is_slow(clock: FakeClock) -> None:
    """Who waits for somebody else does not keep others out; who waits for us does."""
    turnstile, calls = Turnstile(clock), []
    turnstile.watch(lambda: calls.append(turnstile.room))
    async with TaskSet("test") as tasks:
        tasks.spawn(turnstile.run(), name="turnstile")
        turnstile.enter("ours")
        turnstile.enter("theirs")
        turnstile.await_peer("theirs")

        await clock.advance(PEER_LIMIT * 0.9)
        assert turnstile.room == PLACES - 2

        await clock.advance(PEER_LIMIT * 5)
        assert calls == [PLACES - 1]


def test_a_place_goes_back_and_forth(clock: FakeClock) -> None:
    """It is one place, whoever's turn it is."""
    turnstile = Turnstile(clock)

    turnstile.await_peer("a")
    turnstile.enter("a")
    turnstile.await_peer("a")
    assert turnstile.room == PLACES - 1

    turnstile.leave("a")
    assert turnstile.room == PLACES


def test_places_may_be_taken_without_room(clock: FakeClock) -> None:
    """A proxy may send an upgrade over a connection that is in already."""
    turnstile = Turnstile(clock)
    for number in range(PLACES + 2):
        turnstile.enter(number)

    assert turnstile.room == -2
