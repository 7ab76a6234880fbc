"""Who is asked for the count of pending work, and what when nobody can count."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from relay.census.counting import LISTED
from relay.errors import StoreUnavailableError, UnknownMessageError
from relay.ids import ExecutorId
from relay.protocol.aggregates import GetWorkflowAggregatesRequest, PendingCount
from relay.protocol.messages import (
    ListWorkflowsRequest,
)
from relay.records import (
    OwnerKind,
)
from tests.census.town import Town, shown
from tests.recovery.records import SHOP, V1, V2
from tests.recovery.stage import Behaviour, failing, silence

pytestmark = pytest.mark.parametrize(
    "engine_name", ["sqlite", "postgresql-18"], indirect=True
)


MINUTE = timedelta(minutes=1)


def cannot() -> Behaviour:
    """The answer of an SDK that does not know the question."""
    return failing(UnknownMessageError(ExecutorId("a"), "Unknown message type"))


async def test_one_executor_is_asked_and_the_report_says_which(town: Town) -> None:
    """And when, and how much is pending altogether."""
    readers = [await town.join("a"), await town.join("b")]
    town.work.add("a", "v1", "w-1", "w-2")
    town.work.add("stranger", "v1", "w-3")

    report = await town.take_census()

    assert report.census is not None
    assert report.census.taken_at == town.clock.now()
    assert report.census.answered_by in {"a", "b"}
    assert report.census.pending_count == 3
    assert report.census.is_complete
    asked = [
        r for reader in readers for r in reader.asked(GetWorkflowAggregatesRequest)
    ]
    assert asked == [GetWorkflowAggregatesRequest(SHOP.name)]


async def test_the_next_one_is_asked_when_one_is_silent(town: Town) -> None:
    """A census is not lost to a single executor."""
    silent, other = await town.join("a"), await town.join("b")
    for reader in (silent, other):
        reader.on(GetWorkflowAggregatesRequest, silence)
    town.work.add("stranger", "v1", "w-1")
    del other.behaviours[GetWorkflowAggregatesRequest]

    for _ in range(2):  # whoever comes first
        await town.run_beside(town.census.take_now())
        await town.clock.advance(MINUTE)
        await town.settle()

    report = await town.report()
    assert report.census is not None
    assert report.census.answered_by == "b"
    assert len(report.owners) == 1


async def test_where_no_sdk_can_count_the_oldest_work_is_listed(town: Town) -> None:
    """What nobody takes care of is old, so that it is seen."""
    old = await town.join("a")
    old.on(GetWorkflowAggregatesRequest, cannot())
    town.work.add("stranger", "v1", "w-1", "w-2")
    town.work.add("done", "v1", "w-3")
    town.work.finish("w-3")

    report = await town.take_census()

    assert shown(report) == [("stranger", "v1", OwnerKind.UNKNOWN, 2)]
    assert report.census is not None
    assert report.census.is_complete
    [listing] = old.asked(ListWorkflowsRequest)
    assert (listing.limit, listing.newest_first) == (LISTED, False)


async def test_an_incomplete_listing_forgets_nobody(town: Town) -> None:
    """Whoever is missing may stand further down."""
    old = await town.join("a")
    town.work.add("stranger", "v1", "late")
    await town.census.take_now()
    old.on(GetWorkflowAggregatesRequest, cannot())
    town.work.forget("late")
    town.work.add("a", "v1", *(f"w-{number}" for number in range(LISTED)))
    town.work.add("stranger", "v1", "late")
    await town.clock.advance(5 * MINUTE)

    report = await town.take_census()

    assert shown(report) == [("stranger", "v1", OwnerKind.UNKNOWN, 1)]
    assert report.census is not None
    assert not report.census.is_complete


async def test_nobody_who_can_answer_costs_one_census(town: Town) -> None:
    """What was known stays as it was, and the next census comes."""
    only = await town.join("a")
    town.work.add("stranger", "v1", "w-1")
    before = await town.take_census()
    await town.clock.advance(5 * MINUTE)

    only.on(GetWorkflowAggregatesRequest, cannot())
    only.on(ListWorkflowsRequest, cannot())
    assert await town.take_census() == before
    town.disconnect(only)
    assert await town.take_census() == before


async def test_the_word_of_compared_executors_is_preferred(town: Town) -> None:
    """One that has only just connected may read another database."""
    for name in ("a", "b"):
        await town.join(name)
    town.work.add("a", "v1", "w-1")
    await town.look()
    fresh = await town.join("fresh")

    for _ in range(4):
        await town.census.take_now()

    assert fresh.asked(GetWorkflowAggregatesRequest) == []


async def test_a_census_is_taken_every_interval(town: Town) -> None:
    """Not at once: after a start, executors are still redialling."""
    reader = await town.join("a")
    census = town.make_census(census_interval_secs=300)
    await town.run_beside(census.run())

    await town.clock.advance(timedelta(seconds=299))
    assert reader.asked(GetWorkflowAggregatesRequest) == []
    for _ in range(2):
        await town.clock.advance(timedelta(seconds=151))
        await town.settle()
        await town.clock.advance(timedelta(seconds=150))
        await town.settle()

    assert len(reader.asked(GetWorkflowAggregatesRequest)) == 2


async def test_a_store_that_is_away_costs_one_census(town: Town) -> None:
    """Nothing is asked meanwhile, and the loop goes on."""
    reader = await town.join("a")
    await town.run_beside(town.make_census(census_interval_secs=300).run())
    town.store.is_down = True
    await town.clock.advance(timedelta(seconds=301))
    assert reader.requests == []

    town.store.is_down = False
    await town.clock.advance(timedelta(seconds=301))
    await town.settle()

    assert len(reader.asked(GetWorkflowAggregatesRequest)) == 1


async def test_a_store_that_leaves_during_a_census_costs_that_one(town: Town) -> None:
    """The answer is dropped; the next census brings a newer one."""
    reader = await town.join("a")
    town.work.add("stranger", "v1", "w-1")

    async def answer(_: object) -> Sequence[PendingCount]:
        town.store.is_down = True
        return [PendingCount(ExecutorId("stranger"), V1, 1)]

    reader.on(GetWorkflowAggregatesRequest, answer)
    with pytest.raises(StoreUnavailableError):
        await town.census.take_now()  # the figures cannot be read either
    town.store.is_down = False
    reader.behaviours.clear()

    assert len((await town.take_census()).owners) == 1


async def test_workflows_without_care_are_a_figure(town: Town) -> None:
    """By kind, so that an alarm can be set on it."""
    await town.join("a")
    await town.join("local", V2)
    town.work.add("local", "v1", "w-1")
    town.work.add("stranger", "v1", "w-2", "w-3")

    await town.census.take_now()

    def figure(kind: OwnerKind) -> float | None:
        return town.metrics.registry.get_sample_value(
            "relay_unattended_workflows", {"kind": kind.value}
        )

    assert figure(OwnerKind.UNKNOWN) == 2
    assert figure(OwnerKind.OTHER_VERSION) == 1
    assert figure(OwnerKind.ABANDONED) == 0
