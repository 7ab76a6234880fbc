"""What the gate remembers, for how long, and how much of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.ids import ApplicationId, ApplicationRef, AppName
from relay.registry import LOCAL_ORGANIZATION
from relay.registry.memory import Absence, Memory
from relay.testing.clock import START, FakeClock
from tests.store.rows import make_key

SECOND = timedelta(seconds=1)


def application(name: str) -> ApplicationRef:
    """An application of that name."""
    return ApplicationRef(ApplicationId(name), LOCAL_ORGANIZATION, AppName(name))


@pytest.fixture
def memory(clock: FakeClock) -> Memory:
    """It holds three of a kind."""
    return Memory(clock, capacity=3)


def test_what_was_confirmed_longest_ago_is_forgotten_first(memory: Memory) -> None:
    """However often a name is asked for, what counts is when the store last had it."""
    for name in ("one", "two", "three", "one", "four"):
        memory.learn_application(AppName(name), application(name))

    known = {
        name: memory.recall_application(AppName(name))
        for name in ("one", "two", "three", "four")
    }
    assert known == {
        "one": application("one"),
        "two": None,
        "three": application("three"),
        "four": application("four"),
    }


async def test_a_fact_has_the_age_of_its_last_confirmation(
    memory: Memory, clock: FakeClock
) -> None:
    """It is recalled for as long as the asker allows, or for ever."""
    name = AppName("shop")
    memory.learn_application(name, application("shop"))
    await clock.advance(SECOND)
    assert memory.recall_application(name, within=SECOND) is None
    assert memory.recall_application(name) == application("shop")

    memory.learn_application(name, application("shop"))

    assert memory.recall_application(name, within=SECOND) == application("shop")


def test_a_name_that_is_free_is_not_remembered(memory: Memory) -> None:
    """Somebody may register it in the next moment; a deleted one needs a PUT."""
    name = AppName("shop")
    memory.learn_application(name, application("shop"))
    memory.learn_application(name, Absence.UNREGISTERED)
    assert memory.recall_application(name) is None

    memory.learn_application(name, Absence.DELETED)

    assert memory.recall_application(name) is Absence.DELETED


def test_a_revoked_key_stays_revoked(memory: Memory) -> None:
    """A read that began before the revocation may end after it."""
    living = make_key("worker")
    revoked = replace(living, revoked_at=START)
    memory.learn_key(b"1", living)
    memory.learn_key(b"2", make_key("other"))

    memory.learn_revocation(revoked)
    memory.learn_key(b"1", living)

    assert memory.recall_key(b"1") == revoked
    assert memory.recall_key(b"2") == make_key("other")


def test_the_revocation_of_an_unknown_key_is_no_news(memory: Memory) -> None:
    """Without its hash it cannot be recognised anyway."""
    memory.learn_revocation(replace(make_key("worker"), revoked_at=START))

    assert memory.recall_key(b"1") is None
