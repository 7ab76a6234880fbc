"""The notebook of refusals."""

from datetime import timedelta

from relay.registry.refusals import RefusalNotes
from relay.testing.clock import FakeClock


async def test_kind_is_news_once_an_hour() -> None:
    """The second time within the hour it is known."""
    clock = FakeClock()
    notes = RefusalNotes(clock)

    first = notes.is_news("a")
    second = notes.is_news("a")
    await clock.advance(timedelta(minutes=59, seconds=59))
    third = notes.is_news("a")
    await clock.advance(timedelta(seconds=1))
    fourth = notes.is_news("a")

    assert (first, second, third, fourth) == (True, False, False, True)


async def test_inventing_kinds_does_not_fill_the_log() -> None:
    """Beyond its capacity nothing is news, until the oldest has gone stale."""
    clock = FakeClock()
    notes = RefusalNotes(clock, capacity=3)

    news = [notes.is_news(kind) for kind in "abcdef"]
    await clock.advance(timedelta(hours=1))
    later = [notes.is_news(kind) for kind in "ghij"]

    assert news == [True, True, True, False, False, False]
    assert later == [True, True, True, False]


async def test_known_kind_stays_known_when_the_notebook_is_full() -> None:
    """Others do not push it out."""
    notes = RefusalNotes(FakeClock(), capacity=2)
    notes.is_news("a")
    notes.is_news("b")

    notes.is_news("c")

    assert not notes.is_news("a")


async def test_repeated_kind_moves_to_the_end() -> None:
    """A kind noted again counts from then."""
    clock = FakeClock()
    notes = RefusalNotes(clock, capacity=2)
    notes.is_news("a")
    await clock.advance(timedelta(minutes=30))
    notes.is_news("b")
    await clock.advance(timedelta(minutes=30))

    again = notes.is_news("a")
    await clock.advance(timedelta(minutes=30))
    other = notes.is_news("c")

    assert again
    assert other
    assert not notes.is_news("a")
