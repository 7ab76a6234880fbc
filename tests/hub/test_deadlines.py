"""One timer for many things with one time-out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from relay.hub.deadlines import Deadlines
from relay.testing.clock import FakeClock

SPAN = timedelta(seconds=25)


class Watch:
    """Deadlines at work, and what expired when."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.expired: list[tuple[str, float, bool]] = []
        self.deadlines: Deadlines[str] = Deadlines(SPAN, clock, self._note)
        self.on_expiry: Callable[[str], object] = lambda key: None

    def _note(self, key: str, is_late: bool) -> None:
        self.expired.append((key, self.clock.monotonic(), is_late))
        self.on_expiry(key)


@pytest.fixture
async def watch(clock: FakeClock) -> AsyncIterator[Watch]:
    watch = Watch(clock)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.deadlines.run())
        await clock.settle()
        yield watch
        running.cancel()


async def test_untouched_key_expires_after_the_span(watch: Watch) -> None:
    """It is told once, exactly when its time is over, and then forgotten."""
    watch.deadlines.touch("a")

    await watch.clock.advance(3 * SPAN)

    assert watch.expired == [("a", 25.0, False)]
    assert len(watch.deadlines) == 0


async def test_touch_gives_a_whole_span(watch: Watch) -> None:
    """A key that is touched in time outlives one that is not."""
    watch.deadlines.touch("a")
    watch.deadlines.touch("b")
    await watch.clock.advance(timedelta(seconds=10))
    watch.deadlines.touch("a")

    await watch.clock.advance(2 * SPAN)

    assert watch.expired == [("b", 25.0, False), ("a", 35.0, False)]


async def test_key_that_comes_while_nothing_is_watched_is_not_late(
    watch: Watch,
) -> None:
    """The sleeper over an empty set does not delay a newcomer."""
    await watch.clock.advance(timedelta(seconds=17))

    watch.deadlines.touch("a")
    await watch.clock.advance(2 * SPAN)

    assert watch.expired == [("a", 42.0, False)]


async def test_discarded_key_does_not_expire(watch: Watch) -> None:
    """What is no longer watched is not told."""
    watch.deadlines.touch("a")
    watch.deadlines.discard("a")
    watch.deadlines.discard("never watched")

    await watch.clock.advance(2 * SPAN)

    assert watch.expired == []


async def test_expiry_may_discard_another_due_key(watch: Watch) -> None:
    """The second of two that are due is spared when the first one's end drops it."""
    watch.deadlines.touch("a")
    watch.deadlines.touch("b")
    watch.on_expiry = lambda key: watch.deadlines.discard("b")

    await watch.clock.advance(2 * SPAN)

    assert [key for key, _, _ in watch.expired] == ["a"]


class StallingClock(FakeClock):
    """A clock whose sleepers oversleep once: the loop stood still meanwhile."""

    oversleep = timedelta(0)
    on_wake: Callable[[], None] | None = None

    async def sleep(self, span: timedelta) -> None:
        await super().sleep(span)
        if span > timedelta(0) and self.oversleep:
            stall, self.oversleep = self.oversleep, timedelta(0)
            self._move_to(self.now() + stall)
        elif self.on_wake is not None:
            self.on_wake()


async def test_late_timer_lets_the_loop_read_first() -> None:
    """After a stall, bytes that had arrived before the deadline still save a peer."""
    clock = StallingClock()
    watch = Watch(clock)
    clock.oversleep = timedelta(seconds=3)
    clock.on_wake = lambda: watch.deadlines.touch("alive")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.deadlines.run())
        watch.deadlines.touch("alive")
        watch.deadlines.touch("silent")

        await clock.advance(SPAN)

        running.cancel()

    assert watch.expired == [("silent", 28.0, True)]


async def test_crowd_expires_in_portions(watch: Watch) -> None:
    """What came at once goes within milliseconds, not within one turn of the loop."""
    for number in range(250):
        watch.deadlines.touch(str(number))

    await watch.clock.advance(SPAN + timedelta(milliseconds=10))

    moments = [at for _, at, _ in watch.expired]
    assert len(moments) == 250
    assert max(moments.count(at) for at in set(moments)) == 25


async def test_oldest_can_be_taken(watch: Watch) -> None:
    """A line of waiting people: the first one that came, and it does not expire."""
    for key in ("a", "b"):
        watch.deadlines.touch(key)

    assert watch.deadlines.take_oldest() == "a"
    assert watch.deadlines.take_oldest() == "b"
    assert watch.deadlines.take_oldest() is None
    await watch.clock.advance(2 * SPAN)
    assert watch.expired == []
