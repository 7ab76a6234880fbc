"""The engine's side of the ledger: every write is guarded."""

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    ExecutorId,
    InstanceId,
    WorkflowId,
)
from relay.liveness.states import ExecutorStatus
from relay.records import (
    AuditStatus,
    AuditSubject,
    RecoveryState,
    VersionPolicy,
)
from relay.recovery import Ledger
from relay.recovery.bookkeeping import Settlement
from relay.recovery.policy import BackOff, Finish, Hold, Strand, Wait
from tests.recovery.claims import (
    MINUTE,
    change_executor,
    claim_all,
    claim_one,
    order,
    order_all,
    order_one,
    settle,
)
from tests.recovery.records import (
    ME,
    ORGANIZATION,
    V2,
    dead_ref,
)
from tests.recovery.stage import Stage

OTHER = ApplicationRef(ApplicationId("app-other"), ORGANIZATION, AppName("other"))
SOMEBODY = AuditSubject(kind="user", id="u-1", display="Somebody")
NEXT = InstanceId("next")


async def test_due_row_is_claimed_once(stage: Stage) -> None:
    """A claimed row is not due for anybody else."""
    recovery = await stage.bury()
    books = stage.make_books()

    assert await books.find_due_in() == timedelta(0)
    [claim] = await books.claim(10)

    assert claim.record.id == recovery
    assert claim.record.claimed_by == ME
    assert await books.claim(10) == []
    assert await books.find_due_in() is None


async def test_claim_brings_the_version_policy(stage: Stage) -> None:
    """The setting of the row's own application."""
    await stage.add_application(OTHER, version_policy=VersionPolicy.ANY)
    await stage.bury()
    await stage.bury("alone", application=OTHER)

    claims = await stage.make_books().claim(10)

    assert {c.record.executor.executor_id: c.version_policy for c in claims} == {
        "dead": VersionPolicy.SAME,
        "alone": VersionPolicy.ANY,
    }


async def test_order_is_recorded_with_its_facts(stage: Stage) -> None:
    """The row and the audit entry stand before anything is sent."""
    recovery = await stage.bury()
    record = replace(
        await claim_one(stage), pending_count=1, pending_ids=(WorkflowId("w-1"),)
    )

    await order(stage, record)

    stored = await stage.find(recovery)
    assert stored.state is RecoveryState.ORDERED
    assert (stored.target, stored.attempts) == ("peer", 1)
    assert stored.order_deadline == stage.clock.now() + MINUTE
    assert (stored.pending_count, stored.pending_ids) == (1, ("w-1",))
    [entry] = [r.entry for r in await stage.list_story(recovery)]
    assert entry.operation == "recovery.order"
    assert entry.status is AuditStatus.SUCCESS
    assert entry.subject.id == "relay"
    assert entry.target is not None
    assert entry.target.id == "shop"


async def test_batch_is_recorded_in_each_row(stage: Stage) -> None:
    """One transaction, and each row has its own entry, which tells of the others."""
    recoveries = [await stage.bury(name) for name in ("b", "a", "c")]
    records = await claim_all(stage)

    written = await order_all(stage, records)

    assert written.keys() == set(recoveries)
    for recovery in recoveries:
        stored = await stage.find(recovery)
        assert stored == written[recovery]
        assert (stored.state, stored.attempts) == (RecoveryState.ORDERED, 1)
        [entry] = [r.entry for r in await stage.list_story(recovery)]
        assert entry.operation == "recovery.order"
        assert entry.details["batch_size"] == 3


async def test_rows_drop_out_of_a_batch_one_by_one(
    stage: Stage, ledger: Ledger
) -> None:
    """One executor is back, one row was closed, one died again: the fourth is named."""
    recoveries = [await stage.bury(name) for name in ("back", "closed", "again", "d")]
    records = await claim_all(stage)
    await change_executor(stage, "back", status=ExecutorStatus.HEALTHY)
    await ledger.abandon(recoveries[1], "lost cause", by=SOMEBODY)
    await change_executor(stage, "again", epoch=4)

    written = await order_all(stage, records)

    assert written.keys() == {recoveries[3]}
    assert [(await stage.find(r)).state for r in recoveries] == [
        RecoveryState.RETURNED,
        RecoveryState.ABANDONED,
        RecoveryState.RETURNED,
        RecoveryState.ORDERED,
    ]
    [entry] = [r.entry for r in await stage.list_story(recoveries[3])]
    assert entry.operation == "recovery.order"


async def test_attempts_end_together_and_each_in_its_own_way(
    stage: Stage, ledger: Ledger
) -> None:
    """Proven, unproven, at rest, returned and closed by somebody else."""
    names = ("proven", "unproven", "resting", "back", "closed")
    recoveries = [await stage.bury(name) for name in names]
    records = {r.executor.executor_id: r for r in await claim_all(stage)}
    await change_executor(stage, "back", status=ExecutorStatus.HEALTHY)
    await ledger.abandon(recoveries[4], "lost cause", by=SOMEBODY)
    decisions: list[Finish | BackOff] = [
        Finish(is_verified=True),
        Finish(is_verified=False),
        BackOff(MINUTE, "why"),
        Finish(is_verified=True),
        Finish(is_verified=True),
    ]

    written = await stage.make_books().settle(
        [
            Settlement(records[ExecutorId(name)], decision)
            for name, decision in zip(names, decisions, strict=True)
        ]
    )

    assert written.keys() == set(recoveries[:3])
    assert [(await stage.find(r)).state for r in recoveries] == [
        RecoveryState.DONE,
        RecoveryState.DONE,
        RecoveryState.BACKOFF,
        RecoveryState.RETURNED,
        RecoveryState.ABANDONED,
    ]
    assert [name for name in names if await stage.find_executor(name) is None] == [
        "proven"
    ]
    assert await stage.list_operations(recoveries[0]) == [
        "recovery.verify",
        "executor.delete",
    ]


@pytest.mark.parametrize(
    "status", [ExecutorStatus.HEALTHY, ExecutorStatus.DISCONNECTED]
)
async def test_nobody_but_the_dead_is_ordered_away(
    stage: Stage, status: ExecutorStatus
) -> None:
    """The executor's row decides, under lock; the recovery is closed."""
    recovery = await stage.bury()
    record = await claim_one(stage)
    await change_executor(stage, status=status)

    ordered = await order(stage, record)

    assert ordered is None
    assert (await stage.find(recovery)).state is RecoveryState.RETURNED


async def test_order_of_an_older_death_is_not_sent(stage: Stage) -> None:
    """The executor came back and died again: another row is about that."""
    recovery = await stage.bury()
    record = await claim_one(stage)
    await change_executor(stage, epoch=4)

    ordered = await order(stage, record)

    assert ordered is None
    assert (await stage.find(recovery)).state is RecoveryState.RETURNED


async def test_late_proof_does_not_delete_a_returned_executor(stage: Stage) -> None:
    """Order sent, executor back, "nothing is pending" arrives: the record stays."""
    recovery = await stage.bury()
    record = await order_one(stage)
    await change_executor(stage, status=ExecutorStatus.HEALTHY)

    after = await settle(stage, record, Finish(is_verified=True))

    assert after is None
    assert await stage.find_executor() is not None
    assert (await stage.find(recovery)).state is RecoveryState.RETURNED
    assert "executor.delete" not in await stage.list_operations(recovery)


async def test_late_proof_does_not_delete_after_abandonment(
    stage: Stage, ledger: Ledger
) -> None:
    """The operator's word is final, and the transaction changes nothing at all."""
    recovery = await stage.bury()
    record = await order_one(stage)
    await ledger.abandon(recovery, "lost cause", by=SOMEBODY)

    after = await settle(stage, record, Finish(is_verified=True))

    assert after is None
    assert await stage.find_executor() is not None
    assert (await stage.find(recovery)).state is RecoveryState.ABANDONED
    assert await stage.list_operations(recovery) == [
        "recovery.order",
        "recovery.abandon",
    ]


async def test_proof_deletes_the_record_and_leaves_a_tombstone(stage: Stage) -> None:
    """One transaction: DONE, no executor, a tombstone, two audit entries."""
    recovery = await stage.bury()
    record = await order_one(stage)

    assert await settle(stage, record, Finish(is_verified=True))

    assert (await stage.find(recovery)).state is RecoveryState.DONE
    assert await stage.find_executor() is None
    async with stage.store.read() as work:
        tombstone = await work.tombstones.find(dead_ref().key)
    assert tombstone is not None
    assert tombstone.recovery_id == recovery
    assert (await stage.list_operations(recovery))[1:] == [
        "recovery.verify",
        "executor.delete",
    ]


async def test_proof_about_another_version_keeps_the_record(stage: Stage) -> None:
    """Nobody asked about the version that the executor ran last."""
    await stage.bury()
    await change_executor(stage, app_version=V2)
    record = await claim_one(stage)

    assert await settle(stage, record, Finish(is_verified=True))

    assert await stage.find_executor() is not None


async def test_end_without_proof_keeps_the_record(stage: Stage) -> None:
    """It is told as a failure, because nobody knows."""
    recovery = await stage.bury()
    record = await order_one(stage)

    assert await settle(stage, record, Finish(is_verified=False))

    assert await stage.find_executor() is not None
    entry = (await stage.list_story(recovery))[-1].entry
    assert entry.operation == "recovery.verify"
    assert entry.status is AuditStatus.FAILURE
    assert entry.details["is_verified"] is False


@pytest.mark.parametrize(
    ("rest", "state", "operations"),
    [
        (BackOff(MINUTE, "why"), RecoveryState.BACKOFF, ["recovery.fail"]),
        (Strand(MINUTE, "no v1"), RecoveryState.STRANDED, ["recovery.strand"]),
        (Wait("nobody"), RecoveryState.WAITING, []),
        (Hold(MINUTE, "too early"), RecoveryState.READY, []),
    ],
)
async def test_row_comes_to_rest_and_its_claim_ends(
    stage: Stage,
    rest: BackOff | Strand | Wait | Hold,
    state: RecoveryState,
    operations: list[str],
) -> None:
    """Anybody may claim it when it is due again."""
    recovery = await stage.bury()
    record = await claim_one(stage)

    await settle(stage, record, rest)

    stored = await stage.find(recovery)
    assert (stored.state, stored.claimed_by) == (state, None)
    assert stored.reason == rest.reason
    assert await stage.list_operations(recovery) == operations


@pytest.mark.parametrize(
    ("rest", "operation", "status"),
    [
        (BackOff(MINUTE, "x"), "recovery.fail", AuditStatus.FAILURE),
        (Wait("x"), "recovery.fail", AuditStatus.FAILURE),
        (Hold(MINUTE, "x"), "recovery.release", AuditStatus.SUCCESS),
    ],
)
async def test_order_without_effect_is_always_told(
    stage: Stage,
    rest: BackOff | Wait | Hold,
    operation: str,
    status: AuditStatus,
) -> None:
    """What became of an order in the audit log; withdrawing one is no failure."""
    recovery = await stage.bury()

    await settle(stage, await order_one(stage), rest)

    entry = (await stage.list_story(recovery))[-1].entry
    assert (entry.operation, entry.status) == (operation, status)
    assert entry.details["reason"] == "x"


async def test_second_look_at_a_stranded_row_is_not_told(stage: Stage) -> None:
    """It is stranded as before."""
    recovery = await stage.bury()
    await settle(stage, await claim_one(stage), Strand(MINUTE, "no v1"))
    await stage.clock.advance(MINUTE)

    await settle(stage, await claim_one(stage), Strand(MINUTE, "no v1"))

    assert await stage.list_operations(recovery) == ["recovery.strand"]


async def test_outcome_of_a_row_changed_meanwhile_is_dropped(
    stage: Stage, ledger: Ledger
) -> None:
    """Neither the row nor the audit log shows it."""
    recovery = await stage.bury()
    record = await claim_one(stage)
    await ledger.abandon(recovery, "lost cause", by=SOMEBODY)

    assert await settle(stage, record, BackOff(MINUTE, "why")) is None
    assert await order(stage, record) is None

    assert (await stage.find(recovery)).state is RecoveryState.ABANDONED
    assert await stage.list_operations(recovery) == ["recovery.abandon"]


async def test_recorded_order_is_recognised(stage: Stage) -> None:
    """Asked again after a commit without an answer, it is neither lost nor doubled."""
    recovery = await stage.bury()
    record = await claim_one(stage)

    first = await order(stage, record)
    second = await order(stage, record)

    assert second == first
    assert (await stage.find(recovery)).attempts == 1
    assert await stage.list_operations(recovery) == ["recovery.order"]


async def test_orphaned_order_is_due_again(stage: Stage) -> None:
    """The process that sent it is gone."""
    recovery = await stage.bury()
    await order_one(stage)

    assert await stage.make_books(NEXT).release_orphans(set()) == 1

    record = await stage.find(recovery)
    assert record.state is RecoveryState.BACKOFF
    assert record.next_attempt_at == stage.clock.now()
    assert record.claimed_by is None
    assert "recovery.fail" in await stage.list_operations(recovery)


async def test_orphaned_claim_is_lifted_without_a_word(stage: Stage) -> None:
    """Nothing had happened to that row yet."""
    recovery = await stage.bury()
    await claim_one(stage)

    assert await stage.make_books(NEXT).release_orphans(set()) == 1

    assert (await stage.find(recovery)).state is RecoveryState.READY
    assert await stage.make_books(NEXT).claim(10) != []
    assert await stage.list_operations(recovery) == []


async def test_running_attempts_are_no_orphans(stage: Stage) -> None:
    """Their rows stay claimed."""
    recovery = await stage.bury()
    await order_one(stage)

    assert await stage.make_books().release_orphans({recovery}) == 0

    assert (await stage.find(recovery)).state is RecoveryState.ORDERED
