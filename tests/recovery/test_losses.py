"""The crash brake's books, on every engine."""

from collections.abc import Sequence
from datetime import timedelta

from relay.ids import ExecutorId, WorkflowId
from relay.records import RecoveryRecord, RecoveryState, WorkflowLossRecord
from relay.recovery.losses import LossBook
from relay.recovery.policy import Finding, NoAnswer, NothingPending, WorkRemains
from tests.recovery.claims import order_all
from tests.recovery.records import ME, NOW, SHOP
from tests.recovery.stage import Stage

PEER = ExecutorId("peer")
POISON = WorkflowId("poison")
MINUTE = timedelta(minutes=1)


def remains(*ids: str) -> WorkRemains:
    workflows = tuple(WorkflowId(id_) for id_ in ids)
    return WorkRemains(PEER, len(ids), workflows, {POISON: "charge"})


def make_losses(stage: Stage) -> LossBook:
    return LossBook(stage.store, stage.audit, instance_id=ME)


async def claim(stage: Stage) -> Sequence[RecoveryRecord]:
    """What is due, by executor."""
    claims = await stage.make_books().claim(10)
    return sorted(
        (claim.record for claim in claims), key=lambda r: r.executor.executor_id
    )


async def count(stage: Stage, losses: int, id_: WorkflowId = POISON) -> None:
    """So many losses have been counted, and the workflow handed on now."""
    async with stage.store.write() as work:
        await work.workflow_losses.save_many(
            [
                WorkflowLossRecord(
                    application_id=SHOP.id,
                    workflow_id=id_,
                    name=None,
                    losses=losses,
                    last_lost_at=stage.clock.now() - MINUTE,
                    handed_on_at=stage.clock.now(),
                )
            ]
        )


async def find(stage: Stage, *ids: str) -> dict[WorkflowId, WorkflowLossRecord]:
    async with stage.store.read() as work:
        return await work.workflow_losses.find_many(
            SHOP.id, [WorkflowId(id_) for id_ in ids]
        )


async def test_findings_are_weighed_together(stage: Stage) -> None:
    """Each row by its own work: one is braked, the other's attempt goes on."""
    await count(stage, 2)
    await stage.bury("a", lost_at=NOW)
    await stage.bury("b", lost_at=NOW)
    first, second = await claim(stage)

    going_on = await make_losses(stage).weigh(
        [(first, remains("w-1", POISON)), (second, remains("w-2"))]
    )

    assert list(going_on) == [second.id]
    found = await find(stage, "w-1", "w-2", POISON)
    assert {id_: counter.losses for id_, counter in found.items()} == {
        "w-1": 1,
        "w-2": 1,
        POISON: 3,
    }
    braked = await stage.find(first.id)
    assert (braked.state, braked.suspect_ids) == (RecoveryState.BRAKED, (POISON,))
    assert going_on[second.id] == await stage.find(second.id)
    assert going_on[second.id].pending_ids == ("w-2",)


async def test_rows_that_somebody_else_has_changed_count_nothing(
    stage: Stage,
) -> None:
    """Its executor came back: it was not lost for good."""
    await stage.bury("a", lost_at=NOW)
    [record] = await claim(stage)
    async with stage.store.write() as work:
        assert await work.recoveries.save(record, expected_revision=record.revision)
        changed = await work.recoveries.find(record.id)
        assert changed is not None
        assert await work.recoveries.save(changed, expected_revision=changed.revision)

    assert await make_losses(stage).weigh([(record, remains(POISON))]) == {}
    assert await find(stage, POISON) == {}


async def test_findings_without_weight_are_not_written(stage: Stage) -> None:
    """Most rows have nothing to count, and cost no transaction."""
    await stage.bury("a", lost_at=NOW)
    [record] = await claim(stage)
    stage.store.is_down = True

    async def weigh(finding: Finding) -> RecoveryRecord:
        return (await make_losses(stage).weigh([(record, finding)]))[record.id]

    assert (await weigh(NothingPending(PEER))).pending_count == 0
    assert (await weigh(WorkRemains(PEER, None, ()))).pending_count is None
    assert await weigh(NoAnswer("silence")) == record


async def test_work_of_a_deleted_application_is_dropped(stage: Stage) -> None:
    """Nothing refers to it any more."""
    await stage.bury("a", lost_at=NOW)
    [record] = await claim(stage)
    async with stage.store.write() as work:
        await work.applications.delete(SHOP.id)

    assert await make_losses(stage).weigh([(record, remains(POISON))]) == {}


async def test_order_and_acknowledgement_hand_the_work_on(stage: Stage) -> None:
    """Both times are the database's; the row keeps the second."""
    await stage.bury("a", lost_at=NOW)
    [record] = await claim(stage)
    losses = make_losses(stage)
    record = (await losses.weigh([(record, remains(POISON))]))[record.id]

    async def handed_on_after() -> timedelta | None:
        handed_on_at = (await find(stage, POISON))[POISON].handed_on_at
        return None if handed_on_at is None else handed_on_at - NOW

    assert await handed_on_after() is None
    stage.clock.jump(MINUTE)
    ordered = await order_all(stage, [record])
    assert await handed_on_after() == MINUTE
    stage.clock.jump(MINUTE)
    after = (await losses.acknowledge([ordered[record.id]]))[record.id]

    assert await handed_on_after() == 2 * MINUTE
    assert after == await stage.find(record.id)
    assert after.acknowledged_at == NOW + 2 * MINUTE
    assert after.order_deadline is None


async def test_an_acknowledgement_is_recognised_when_it_is_written_again(
    stage: Stage,
) -> None:
    """Its commit may have got no answer."""
    await stage.bury("a", lost_at=NOW)
    [record] = await claim(stage)
    ordered = await order_all(stage, [record])

    first = await make_losses(stage).acknowledge(list(ordered.values()))
    second = await make_losses(stage).acknowledge(list(ordered.values()))

    assert first == second
