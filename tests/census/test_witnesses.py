"""Whether two executors read one database, as far as they say."""

import pytest

from relay.census.witnesses import Agreeing, call_witnesses, compare
from relay.errors import ExecutorFailedError
from relay.ids import ExecutorId
from relay.protocol.messages import ListWorkflowsRequest
from relay.testing.work import FakeWork
from tests.census.town import Reader, Town
from tests.recovery.records import V1
from tests.recovery.stage import failing, replying, summary

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


async def verdict(reference: Reader, other: Reader) -> Agreeing:
    witnesses = await call_witnesses(reference)
    assert witnesses
    return await compare(reference, witnesses, other)


async def test_executors_on_one_database_know_the_same(town: Town) -> None:
    """Finished workflows too: a quiet application has no other."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", *(f"w-{number}" for number in range(9)))
    town.work.finish("w-8")

    assert await verdict(a, b) is Agreeing.SAME
    [newest] = a.asked(ListWorkflowsRequest)
    assert (newest.newest_first, newest.limit, newest.statuses) == (True, 3, ())
    [by_id] = b.asked(ListWorkflowsRequest)
    assert by_id.workflow_ids == ("w-6", "w-7", "w-8")
    assert by_id.application is None


async def test_an_executor_on_another_database_knows_nothing_of_them(
    town: Town,
) -> None:
    """An empty database disagrees with one that has workflows."""
    a, w = await town.join("a"), await town.join("w", work=FakeWork())
    town.work.add("a", "v1", "w-1")

    assert await verdict(a, w) is Agreeing.DIFFERENT


async def test_the_same_ids_in_two_databases_do_not_agree(town: Town) -> None:
    """The same schedule gives its workflows the same ids everywhere, at other times."""
    a, w = await town.join("a"), await town.join("w", work=FakeWork())
    for work in (a.work, w.work):
        work.add("any", "v1", "sched-nightly-2026-01-01", "sched-nightly-2026-01-02")

    assert await verdict(a, w) is Agreeing.DIFFERENT


async def test_ids_alone_do_where_no_instant_is_told(town: Town) -> None:
    """An SDK that does not say when a workflow was created is believed."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", "w-1")
    b.on(ListWorkflowsRequest, replying((summary("w-1", ExecutorId("a"), V1),)))

    assert await verdict(a, b) is Agreeing.SAME


async def test_work_that_comes_and_goes_is_no_disagreement(town: Town) -> None:
    """Under load, workflows begin and end between any two questions."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", "w-1", "w-2")

    def go_on() -> None:
        town.work.finish("w-1", "w-2")
        town.work.add("b", "v1", "w-3", "w-4", "w-5", "w-6")

    b.once_before(ListWorkflowsRequest, go_on)

    assert await verdict(a, b) is Agreeing.SAME


async def test_workflows_that_were_deleted_meanwhile_prove_nothing(town: Town) -> None:
    """Retention ran between the questions."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", "w-1", "w-2")
    b.once_before(ListWorkflowsRequest, lambda: town.work.forget("w-1", "w-2"))

    assert await verdict(a, b) is Agreeing.UNCLEAR


async def test_what_was_not_deleted_meanwhile_is_proof_enough(town: Town) -> None:
    """One of several that both know."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", "w-1", "w-2")
    b.once_before(ListWorkflowsRequest, lambda: town.work.forget("w-1"))

    assert await verdict(a, b) is Agreeing.SAME


async def test_whoever_cannot_look_by_id_is_not_judged(town: Town) -> None:
    """It names workflows that it was not asked about."""
    a, b = await town.join("a"), await town.join("b")
    town.work.add("a", "v1", "w-1")
    b.on(ListWorkflowsRequest, replying((summary("old", ExecutorId("a"), V1),)))

    assert await verdict(a, b) is Agreeing.UNCLEAR


@pytest.mark.parametrize("who_fails", ["a", "w"])
async def test_without_an_answer_there_is_no_verdict(
    town: Town, who_fails: str
) -> None:
    """The reference fails when it is asked again, or the other one at once."""
    a, w = await town.join("a"), await town.join("w", work=FakeWork())
    town.work.add("a", "v1", "w-1")
    witnesses = await call_witnesses(a)
    assert witnesses
    failure = failing(ExecutorFailedError(ExecutorId("x"), "out of order"))
    {"a": a, "w": w}[who_fails].on(ListWorkflowsRequest, failure)

    assert await compare(a, witnesses, w) is Agreeing.UNCLEAR
    w.on(ListWorkflowsRequest, failure)
    assert await call_witnesses(w) is None
