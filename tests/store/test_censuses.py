"""The last count of each application, and the disputes about databases."""

from dataclasses import replace
from datetime import timedelta

from relay.ids import ExecutorId
from relay.records import CensusRecord, DisputeRecord, DisputeSide
from relay.store import Store
from relay.testing.clock import START
from tests.store.rows import APP, OTHER_APP, register

CENSUS = CensusRecord(
    application_id=APP.id,
    taken_at=START,
    answered_by=ExecutorId("e1"),
    pending_count=7,
    is_complete=True,
)
DISPUTE = DisputeRecord(
    application_id=APP.id,
    since=START,
    sides=(
        DisputeSide(frozenset([ExecutorId("a"), ExecutorId("b")]), 3),
        DisputeSide(frozenset([ExecutorId("w")]), 1),
    ),
)


async def test_the_last_census_is_kept(store: Store) -> None:
    """One an application."""
    await register(store, APP, OTHER_APP)
    newer = replace(CENSUS, pending_count=8, is_complete=False)

    async with store.write() as work:
        await work.censuses.save(CENSUS)
        await work.censuses.save(newer)

    async with store.read() as work:
        assert await work.censuses.find(APP.id) == newer
        assert await work.censuses.find(OTHER_APP.id) is None


async def test_a_dispute_is_begun_changed_and_ended(store: Store) -> None:
    """Whoever writes learns whether it is news."""
    await register(store, APP, OTHER_APP)
    grown = replace(DISPUTE, sides=(DISPUTE.sides[0], DisputeSide(frozenset(), 1)))

    async with store.write() as work:
        assert await work.disputes.save(DISPUTE)
        assert await work.disputes.find(APP.id) == DISPUTE
        assert not await work.disputes.save(grown)
        assert await work.disputes.find(APP.id) == grown
        assert await work.disputes.find(OTHER_APP.id) is None
        assert await work.disputes.delete(APP.id)
        assert not await work.disputes.delete(APP.id)
        assert await work.disputes.find(APP.id) is None


async def test_disputes_are_listed_the_oldest_first(store: Store) -> None:
    """After a restart, before anything is deleted."""
    await register(store, APP, OTHER_APP)
    older = replace(
        DISPUTE, application_id=OTHER_APP.id, since=START - timedelta(hours=1)
    )

    async with store.write() as work:
        await work.disputes.save(DISPUTE)
        await work.disputes.save(older)
        found = await work.disputes.list_all()

    assert list(found) == [older, DISPUTE]
