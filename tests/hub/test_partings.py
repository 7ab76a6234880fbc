"""Closing in portions, so that the loop does other things in between."""

from datetime import timedelta

from relay.clock import SystemClock
from relay.hub.partings import CLOSED_PER_TURN, Partings


class Transport:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


async def turn() -> None:
    """Let the loop run once what is ready."""
    await SystemClock().sleep(timedelta(0))


async def test_a_crowd_is_closed_in_portions_in_the_order_of_its_coming() -> None:
    partings = Partings()
    crowd = [Transport() for _ in range(3 * CLOSED_PER_TURN + 1)]
    for transport in crowd:
        partings.add(transport)
    assert not any(transport.closed for transport in crowd)

    for portion in range(1, 4):
        await turn()
        closed = [transport.closed for transport in crowd]
        assert closed == sorted(closed, reverse=True)
        assert sum(closed) == portion * CLOSED_PER_TURN
    await turn()

    assert all(transport.closed == 1 for transport in crowd)


async def test_who_comes_later_is_closed_too() -> None:
    """Also after everybody before has been closed, and in the middle of a crowd."""
    partings = Partings()
    first, last = Transport(), Transport()
    partings.add(first)
    await turn()
    crowd = [Transport() for _ in range(CLOSED_PER_TURN)]
    for transport in crowd:
        partings.add(transport)
    partings.add(last)
    await turn()
    latest = Transport()
    partings.add(latest)
    await turn()

    assert [t.closed for t in (first, *crowd, last, latest)] == [1] * (len(crowd) + 3)
