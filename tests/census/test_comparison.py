"""Executors of one application that read different databases."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.census.comparison import EMPTY_PAUSE, LOOK_INTERVAL
from relay.census.disputes import Disputes
from relay.errors import ExecutorFailedError
from relay.ids import ApplicationId, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.protocol.messages import (
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    RecoveryRequest,
)
from relay.records import AuditStatus, AuditSubject, RecoveryState
from relay.recovery import Ledger
from relay.recovery.policy import doubt
from relay.testing.work import FakeWork
from tests.census.town import Reader, Town
from tests.recovery.records import SHOP, dead_ref, make_recovery
from tests.recovery.stage import failing

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

ANN = AuditSubject(kind="user", id="ann", display="Ann")
DISPUTED = doubt(make_recovery(), jitter=0.5).reason
MINUTE = timedelta(minutes=1)


async def quarrel(town: Town, *names: str) -> tuple[list[Reader], Reader]:
    """Executors on the database of the town, and one more on another."""
    right = [await town.join(name) for name in names]
    town.work.add(names[0], "v1", "w-1")
    wrong = await town.join("wrong", work=FakeWork())
    await town.look()
    assert town.comparison.is_disputed(SHOP.id)
    return right, wrong


def listings(*readers: Reader) -> int:
    return sum(len(reader.asked(ListWorkflowsRequest)) for reader in readers)


# --- finding it out ------------------------------------------------------------------


async def test_executors_on_one_database_are_compared_once(town: Town) -> None:
    """Each connection costs one question in its life."""
    readers = [await town.join(name) for name in ("a", "b", "c")]
    town.work.add("a", "v1", "w-1")

    await town.look()
    asked = listings(*readers)
    await town.look(5)

    assert asked == 3
    assert listings(*readers) == asked
    assert not town.comparison.is_disputed(SHOP.id)
    assert all(town.comparison.is_compared(reader.ref) for reader in readers)


async def test_a_new_connection_is_compared_at_the_next_look(town: Town) -> None:
    """An executor that came back is a new connection, if not a new process."""
    await town.join("a")
    b = await town.join("b")
    town.work.add("a", "v1", "w-1")
    await town.look()
    town.disconnect(b)
    await town.look()
    assert not town.comparison.is_compared(b.ref)

    again = await town.join("b", work=FakeWork())
    await town.look()

    assert listings(again) == 1
    assert town.comparison.is_disputed(SHOP.id)


async def test_two_databases_are_one_error_and_one_entry(town: Town) -> None:
    """With the names of those on either side."""
    with capture_logs() as logs:
        await quarrel(town, "a", "b")
        await town.look(3)

    [alarm] = [line for line in logs if line["event"] == "databases_disagree"]
    assert alarm["log_level"] == "error"
    assert alarm["executors"] == [["a", "b"], ["wrong"]]
    [entry] = await town.list_entries("census.disagree")
    assert entry.status is AuditStatus.FAILURE
    assert entry.details["executors"] == [["a", "b"], ["wrong"]]
    dispute = (await town.report()).dispute
    assert dispute is not None
    assert [sorted(side.executor_ids) for side in dispute.sides] == [
        ["a", "b"],
        ["wrong"],
    ]
    gauge = town.metrics.registry.get_sample_value("relay_disputed_applications")
    assert gauge == 1


async def test_one_that_is_alone_is_not_compared(town: Town) -> None:
    """There is nobody to compare it with."""
    only = await town.join("a")
    town.work.add("a", "v1", "w-1")

    await town.look(3)

    assert only.requests == []


async def test_empty_databases_are_looked_at_again_later(town: Town) -> None:
    """Where there is no workflow there is nothing to lose, and nothing to show."""
    a, w = await town.join("a"), await town.join("w", work=FakeWork())
    await town.look()
    asked = listings(a, w)
    await town.look(3)
    assert (asked, listings(a, w)) == (2, 2)

    town.work.add("a", "v1", "w-1")
    await town.look(EMPTY_PAUSE // LOOK_INTERVAL)

    assert town.comparison.is_disputed(SHOP.id)


async def test_whoever_has_workflows_is_the_reference(town: Town) -> None:
    """The others agreed once, and retention has deleted what they agreed on."""
    for name in ("a", "b"):
        await town.join(name)
    town.work.add("a", "v1", "w-1")
    await town.look()
    town.work.forget("w-1")
    other = FakeWork()
    other.add("w", "v1", "w-2")

    await town.join("w", work=other)
    await town.look()

    dispute = (await town.report()).dispute
    assert dispute is not None
    assert [sorted(side.executor_ids) for side in dispute.sides] == [["a", "b"], ["w"]]


async def test_an_executor_that_cannot_be_compared_is_left_alone(town: Town) -> None:
    """After a few tries; it is not disputed for that."""
    await town.join("a")
    await town.join("b")
    town.work.add("a", "v1", "w-1")
    await town.look()
    broken = await town.join("broken")
    error = ExecutorFailedError(ExecutorId("broken"), "no such table")
    broken.on(ListWorkflowsRequest, failing(error))

    await town.look(9)

    assert listings(broken) == 5
    assert not town.comparison.is_disputed(SHOP.id)
    assert not town.comparison.is_compared(broken.ref)


async def test_a_silent_reference_is_replaced(town: Town) -> None:
    """One that fails to name a workflow is not the end of it."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", "w-1")
    await town.look()
    error = ExecutorFailedError(ExecutorId("a"), "no such table")
    a.on(ListWorkflowsRequest, failing(error))

    await town.join("wrong", work=FakeWork())
    await town.look()

    assert town.comparison.is_disputed(SHOP.id)
    assert town.comparison.is_compared(b.ref)


async def test_other_applications_are_not_concerned(town: Town) -> None:
    """A dispute is one application's."""
    await quarrel(town, "a")

    assert not town.comparison.is_disputed(ApplicationId("another"))


# --- what it stops -------------------------------------------------------------------


async def test_no_record_is_deleted_while_executors_disagree(town: Town) -> None:
    """The one on the wrong database truly sees nothing pending."""
    right, wrong = await quarrel(town, "a", "b")
    town.work.add("b", "v1", "w-2")
    right[0].is_responsive = False
    recovery = await town.lose(right[1])

    town.start()
    record = await town.reach(recovery, RecoveryState.BACKOFF)

    assert record.reason == DISPUTED
    assert await town.find_executor("b") is not None
    await town.pass_time(2 * MINUTE)
    assert (await town.find(recovery)).state is not RecoveryState.DONE
    assert await town.find_executor("b") is not None
    assert wrong.asked(ExistPendingWorkflowsRequest)


async def test_orders_go_on_while_executors_disagree(town: Town) -> None:
    """Only the end waits: whoever sees work, or may see it, takes it over."""
    right, wrong = await quarrel(town, "a", "b")
    town.work.add("b", "v1", "w-2")
    recovery = await town.lose(right[1])

    async def is_handed_over() -> bool:
        return town.work.owners["w-2"] == ("a", "v1")

    town.start()
    await town.run_until(is_handed_over)
    await town.reach(recovery, RecoveryState.BACKOFF)

    assert wrong.asked(RecoveryRequest) == []
    assert (await town.find(recovery)).reason == DISPUTED


async def test_executors_that_were_not_compared_may_agree_with_anybody(
    town: Town,
) -> None:
    """One that cannot be compared is not kept from taking work over."""
    (a,), wrong = await quarrel(town, "a")
    third = dead_ref("third")

    assert not town.comparison.may_agree(a.ref, wrong.ref)
    assert town.comparison.may_agree(a.ref, a.ref)
    assert town.comparison.may_agree(a.ref, third)
    assert town.comparison.may_agree(third, wrong.ref)


async def test_the_word_of_compared_executors_comes_first(town: Town) -> None:
    """One on another database that has just connected is not asked if others are."""
    a, b, e = [await town.join(name) for name in ("a", "b", "e")]
    town.work.add("e", "v1", "w-1")
    await town.look()
    fresh = await town.join("fresh", work=FakeWork())
    recovery = await town.lose(e)

    town.start()
    await town.reach(recovery, RecoveryState.DONE)

    assert fresh.asked(ExistPendingWorkflowsRequest) == []
    assert a.asked(ExistPendingWorkflowsRequest) or b.asked(
        ExistPendingWorkflowsRequest
    )


async def test_a_disputed_census_forgets_nobody(town: Town) -> None:
    """Whoever is missing may stand in the other database."""
    (a,), wrong = await quarrel(town, "a")
    town.work.add("stranger", "v1", "w-2")
    wrong.is_responsive = False
    assert len((await town.take_census()).owners) == 1
    wrong.is_responsive, a.is_responsive = True, False
    await town.clock.advance(MINUTE)

    report = await town.take_census()

    assert report.census is not None
    assert report.census.answered_by == "wrong"
    assert len(report.owners) == 1


# --- how it ends ---------------------------------------------------------------------


async def test_it_ends_when_the_one_who_was_wrong_has_left(town: Town) -> None:
    """Told, and deletions go on."""
    _, wrong = await quarrel(town, "a", "b")
    recovery = await town.lose(wrong)

    await town.look()

    assert not town.comparison.is_disputed(SHOP.id)
    assert (await town.report()).dispute is None
    [entry] = await town.list_entries("census.agree")
    assert entry.status is AuditStatus.SUCCESS
    assert town.metrics.registry.get_sample_value("relay_disputed_applications") == 0
    town.start()
    await town.reach(recovery, RecoveryState.DONE)


async def test_its_end_and_that_of_its_application_may_come_together(
    town: Town,
) -> None:
    """Whoever is second finds nothing to forget, and that is no defect."""
    disputes = Disputes(
        store=town.store, audit=town.audit, peers=town.peers, metrics=town.metrics
    )
    here = {ExecutorId("a"): 0, ExecutorId("b"): 1}
    disputes.seat(SHOP.id, here, now=town.clock.now())
    town.store.on_next_commit = lambda: disputes.keep(())

    assert await disputes.review(SHOP)

    assert SHOP.id not in disputes


async def test_it_lasts_while_the_one_who_left_may_return(town: Town) -> None:
    """Otherwise each flap of its socket would be an end and a beginning."""
    _, wrong = await quarrel(town, "a", "b")
    await town.lose(wrong, ExecutorStatus.DISCONNECTED)

    await town.look(3)

    assert town.comparison.is_disputed(SHOP.id)
    assert len(await town.list_entries("census.disagree")) == 1


async def test_the_record_of_the_one_who_was_right_outlives_it(
    town: Town, ledger: Ledger
) -> None:
    """
    A and W disagree, A dies: W's word does not delete A's record.

    An executor that reads A's database takes the work over, and when W is stopped and
    given up, all is as it was.
    """
    (a,), wrong = await quarrel(town, "a")
    recovery = await town.lose(a)
    town.start()
    await town.pass_time(MINUTE)
    await town.look()

    assert town.comparison.is_disputed(SHOP.id)
    assert await town.find_executor("a") is not None
    second = await town.join("a2")
    await town.look()
    dispute = (await town.report()).dispute
    assert dispute is not None
    assert {"a", "a2"} in [side.executor_ids for side in dispute.sides]

    async def is_handed_over() -> bool:
        return town.work.owners["w-1"] == ("a2", "v1")

    await town.run_until(is_handed_over)
    assert second.asked(RecoveryRequest)
    assert await town.find_executor("a") is not None

    wrongs = await town.lose(wrong)
    await town.look()
    assert town.comparison.is_disputed(SHOP.id)
    await ledger.abandon(wrongs, "it read another database", by=ANN)
    await town.look()
    assert not town.comparison.is_disputed(SHOP.id)
    await town.reach(recovery, RecoveryState.DONE)
    assert await town.find_executor("a") is None


async def test_those_who_are_left_are_compared_anew(town: Town, ledger: Ledger) -> None:
    """They shared a side for not being on the other one, which is no agreement."""
    (a,), _ = await quarrel(town, "a")
    third = await town.join("third", work=FakeWork())
    third.work.add("third", "v1", "w-3")
    await town.look()
    await ledger.abandon(await town.lose(a), "its database is gone", by=ANN)

    await town.look(2)

    assert len(await town.list_entries("census.agree")) == 1
    assert len(await town.list_entries("census.disagree")) == 2


# --- faults --------------------------------------------------------------------------


async def test_it_is_known_again_after_a_restart(town: Town) -> None:
    """Before anything is deleted, and without a second alarm."""
    (a,), _ = await quarrel(town, "a")
    await town.lose(a)
    town.comparison = town.make_comparison()
    assert not town.comparison.is_disputed(SHOP.id)

    await town.comparison.restore()
    assert town.comparison.is_disputed(SHOP.id)
    await town.join("a2")
    await town.look(2)

    assert len(await town.list_entries("census.disagree")) == 1
    dispute = (await town.report()).dispute
    assert dispute is not None
    assert {"a", "a2"} in [side.executor_ids for side in dispute.sides]


async def test_it_counts_before_it_is_written(town: Town) -> None:
    """A store that is away keeps nobody from doubting; told when it is back."""
    await town.join("a")
    town.work.add("a", "v1", "w-1")
    wrong = await town.join("wrong", work=FakeWork())

    def leave() -> None:
        town.store.is_down = True

    wrong.once_before(ListWorkflowsRequest, leave)
    await town.look()
    assert town.comparison.is_disputed(SHOP.id)
    town.store.is_down = False
    assert (await town.report()).dispute is None
    await town.look()

    assert (await town.report()).dispute is not None
    assert len(await town.list_entries("census.disagree")) == 1


async def test_the_loop_looks_and_survives_an_outage(town: Town) -> None:
    """Every few seconds, for ever."""
    await town.join("a")
    town.work.add("a", "v1", "w-1")
    await town.join("wrong", work=FakeWork())
    await town.run_beside(town.comparison.run())

    town.store.is_down = True
    await town.clock.advance(LOOK_INTERVAL)
    assert not town.comparison.is_disputed(SHOP.id)
    town.store.is_down = False
    await town.clock.advance(LOOK_INTERVAL)
    await town.settle()

    assert town.comparison.is_disputed(SHOP.id)


async def test_a_deleted_application_takes_its_dispute_with_it(town: Town) -> None:
    """One of the same name is another application."""
    await quarrel(town, "a")
    async with town.store.write() as work:
        await work.applications.delete(SHOP.id)

    await town.look()

    assert not town.comparison.is_disputed(SHOP.id)
    assert town.metrics.registry.get_sample_value("relay_disputed_applications") == 0
