"""The counters of the crash brake: one a workflow, kept while they say something."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from relay.ids import ApplicationRef, WorkflowId
from relay.records import WorkflowLossRecord
from relay.store import Store
from relay.testing.clock import START, FakeClock
from tests.store.rows import APP, OTHER_APP, make_loss, register

W1, W2, W3 = (WorkflowId(f"w{number}") for number in (1, 2, 3))


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


async def save(store: Store, *records: WorkflowLossRecord) -> None:
    async with store.write() as work:
        await work.workflow_losses.save_many(records)


async def find(
    store: Store, *ids: WorkflowId, application: ApplicationRef = APP
) -> dict[WorkflowId, WorkflowLossRecord]:
    async with store.read() as work:
        return await work.workflow_losses.find_many(application.id, ids)


@pytest.fixture(autouse=True)
async def applications(store: Store) -> None:
    """Two registered applications."""
    await register(store, APP, OTHER_APP)


async def test_counters_survive_a_round_trip(store: Store) -> None:
    """Every field comes back as it was; unknown workflows are missing."""
    first = make_loss(losses=3, last_lost_at=after(1), handed_on_at=after(2))
    second = make_loss(W2, name=None)
    await save(store, first, second)

    assert await find(store, W1, W2, W3) == {W1: first, W2: second}
    assert await find(store) == {}


async def test_save_writes_new_counters_and_known_ones(store: Store) -> None:
    """Both at once, in any order; the others stay as they are."""
    await save(store, make_loss(W1), make_loss(W3))
    changed = make_loss(W1, name="pay", losses=2, last_lost_at=after(70))

    await save(store, make_loss(W2), changed)

    assert await find(store, W1, W2, W3) == {
        W1: changed,
        W2: make_loss(W2),
        W3: make_loss(W3),
    }


async def test_a_workflow_counts_for_its_application_only(store: Store) -> None:
    """Two applications may use the same ids."""
    await save(store, make_loss(losses=3), make_loss(application=OTHER_APP))

    async with store.write() as work:
        await work.workflow_losses.forget(APP.id, [W1])

    assert await find(store, W1) == {}
    assert await find(store, W1, application=OTHER_APP) == {
        W1: make_loss(application=OTHER_APP)
    }


async def test_handing_on_is_noted_for_what_is_counted(
    store: Store, clock: FakeClock
) -> None:
    """With the time of the database; a workflow without a counter gets none."""
    await save(store, make_loss(W1), make_loss(W3))
    clock.jump(timedelta(seconds=9))

    async with store.write() as work:
        await work.workflow_losses.hand_on(APP.id, [W1, W2])

    assert await find(store, W1, W2, W3) == {
        W1: replace(make_loss(W1), handed_on_at=after(9)),
        W3: make_loss(W3),
    }


async def test_purge_takes_what_was_not_lost_again(store: Store) -> None:
    """Of every application, and no more at once than asked for."""
    await save(
        store,
        make_loss(W1, last_lost_at=after(1)),
        make_loss(W2, last_lost_at=after(2)),
        make_loss(W3, last_lost_at=after(3)),
        make_loss(W1, OTHER_APP, last_lost_at=after(1)),
    )

    async with store.write() as work:
        first = await work.workflow_losses.purge(after(3), limit=2)
    async with store.write() as work:
        second = await work.workflow_losses.purge(after(3), limit=2)

    assert (first, second) == (2, 1)
    assert await find(store, W1, W2, W3) == {W3: make_loss(W3, last_lost_at=after(3))}
    assert await find(store, W1, application=OTHER_APP) == {}


async def test_thousands_of_counters_are_written_at_once(store: Store) -> None:
    """As many as a hundred executors with a hundred workflows each have."""
    ids = [WorkflowId(f"w{number:05}") for number in range(2500)]

    await save(store, *(make_loss(id_) for id_ in ids))
    await save(store, *(make_loss(id_, losses=2) for id_ in ids))

    found = await find(store, *ids)
    assert len(found) == 2500
    assert {record.losses for record in found.values()} == {2}


async def test_counters_go_with_their_application(store: Store) -> None:
    """A new one of the same name starts with none."""
    await save(store, make_loss())

    async with store.write() as work:
        await work.applications.delete(APP.id)

    assert await find(store, W1) == {}
