"""Pending work that no death has put into the ledger, and what becomes of it."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.census.counting import MOST_COUNTED, SHOWN_OWNERS, TOMBSTONE_AGE
from relay.census.policy import REOPEN_PAUSE
from relay.ids import AppVersion, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.protocol.aggregates import GetWorkflowAggregatesRequest, PendingCount
from relay.protocol.messages import (
    RecoveryRequest,
)
from relay.records import (
    AuditStatus,
    AuditSubject,
    OwnerKind,
    RecoveryState,
)
from relay.recovery import Ledger
from relay.recovery.policy import Finish
from relay.recovery.transitions import finished
from tests.census.town import Town, shown
from tests.recovery.records import SHOP, V1, V2, dead_ref
from tests.recovery.stage import replying

pytestmark = pytest.mark.parametrize(
    "engine_name", ["sqlite", "postgresql-18"], indirect=True
)

MINUTE = timedelta(minutes=1)
ANN = AuditSubject(kind="user", id="ann", display="Ann")


async def forget(town: Town, name: str) -> None:
    """An executor dies without work: verified, deleted, a tombstone."""
    reader = await town.join(name)
    recovery = await town.lose(reader)
    engine = town.start()
    await town.reach(recovery, RecoveryState.DONE)
    await town.kill(engine)
    assert await town.find_executor(name) is None
    await town.clock.advance(timedelta(seconds=1))


# --- tombstones ----------------------------------------------------------------------


async def test_a_forgotten_executor_that_owns_work_again_is_recovered(
    town: Town,
) -> None:
    """
    E was cut off but alive: DEAD, verified, deleted; it claims work and dies unseen.

    Nobody would ever ask for that work again.
    """
    peer = await town.join("peer")
    await forget(town, "e")
    town.work.add("e", "v1", "w-1", "w-2")

    town.start()
    await town.census.take_now()
    reopened = (await town.list_recoveries())[0]
    record = await town.reach(reopened.id, RecoveryState.DONE)

    assert record.is_verified is True
    assert peer.asked(RecoveryRequest) == [RecoveryRequest((ExecutorId("e"),))]
    assert town.work.owners["w-1"] == ("peer", "v1")
    assert await town.find_executor("e") is None
    assert await town.list_operations(record.id) == [
        "census.reopen",
        "recovery.order",
        "recovery.verify",
        "executor.delete",
    ]
    [entry] = await town.list_entries("census.reopen")
    assert entry.details["executor_id"] == "e"
    assert entry.details["pending_count"] == 2
    [tombstone] = (await town.report()).reopened
    assert tombstone.executor.executor_id == "e"


async def test_a_forgotten_executor_is_reopened_once_in_a_quarter_of_an_hour(
    town: Town,
) -> None:
    """It may be alive out of sight, and go on claiming what is taken from it."""
    await town.join("peer")
    await forget(town, "e")

    async def census_finds(workflow: str) -> bool:
        town.work.add("e", "v1", workflow)
        before = await town.list_recoveries()
        await town.census.take_now()
        after = await town.list_recoveries()
        if after != before:
            engine = town.start()
            await town.reach(after[0].id, RecoveryState.DONE)
            await town.kill(engine)
        return after != before

    assert await census_finds("w-1")
    await town.clock.advance(5 * MINUTE)
    assert not await census_finds("w-2")
    await town.clock.advance(REOPEN_PAUSE - 5 * MINUTE + timedelta(seconds=1))
    assert await census_finds("w-3")
    assert not town.work.list_pending(["e"])


async def test_a_forgotten_executor_that_is_on_line_is_never_named(town: Town) -> None:
    """It has come back in the moment between the verdict and the row."""
    await town.join("peer")
    await forget(town, "e")
    town.work.add("e", "v1", "w-1")

    def purged() -> None:
        town.store.on_next_commit = shown_to_operator

    def shown_to_operator() -> None:
        town.peers.online.add(dead_ref("e"))

    town.store.on_next_commit = purged
    await town.census.take_now()

    assert town.peers.is_online(dead_ref("e"))
    assert len(await town.list_recoveries()) == 1
    assert await town.list_entries("census.reopen") == []


async def test_work_of_another_version_of_a_forgotten_id_is_recovered(
    town: Town,
) -> None:
    """An id that stays the same over deployments leaves the work of its former self."""
    peer = await town.join("peer")
    fixed = await town.join("local", V2)
    town.work.add("local", "v1", "w-1")

    assert shown(await town.take_census()) == [
        ("local", "v1", OwnerKind.OTHER_VERSION, 1)
    ]
    assert await town.list_recoveries() == []
    recovery = await town.lose(fixed)
    town.start()
    await town.reach(recovery, RecoveryState.DONE)
    await town.clock.advance(MINUTE)
    report = await town.take_census()
    await town.reach((await town.list_recoveries())[0].id, RecoveryState.DONE)

    assert shown(report) == []
    assert town.work.owners["w-1"] == ("peer", "v1")
    assert len(peer.asked(RecoveryRequest)) == 1


async def test_tombstones_are_kept_for_thirty_days(town: Town) -> None:
    """After that, an id that owns work is a stranger."""
    await town.join("peer")
    await forget(town, "e")
    key = dead_ref("e").key

    async def is_remembered() -> bool:
        async with town.store.read() as work:
            return await work.tombstones.find(key) is not None

    await town.clock.advance(TOMBSTONE_AGE - MINUTE)
    await town.census.take_now()
    assert await is_remembered()
    await town.clock.advance(2 * MINUTE)
    await town.census.take_now()
    assert not await is_remembered()


# --- dead executors that are still known ---------------------------------------------


async def test_an_unverified_end_is_reopened_when_somebody_sees_work(
    town: Town,
) -> None:
    """The SDKs that were there could not tell; one that has come since can."""
    recovery = await town.lose(await town.join("e"))
    town.work.add("e", "v1", "w-1")
    async with town.store.write() as work:
        record = await work.recoveries.find(recovery)
        assert record is not None
        await work.recoveries.save(
            finished(record, Finish(is_verified=False), now=work.now),
            expected_revision=record.revision,
        )
    await town.join("newer")

    await town.census.take_now()
    assert len(await town.list_recoveries()) == 1
    await town.clock.advance(REOPEN_PAUSE + MINUTE)
    await town.census.take_now()
    reopened = (await town.list_recoveries())[0]
    town.start()
    record = await town.reach(reopened.id, RecoveryState.DONE)

    assert record.is_verified is True
    assert record.epoch == 3
    assert town.work.owners["w-1"] == ("newer", "v1")


async def test_what_an_operator_gave_up_on_is_shown_and_left(
    town: Town, ledger: Ledger
) -> None:
    """Relay does not know better; it does not let it be forgotten either."""
    await town.join("peer")
    recovery = await town.lose(await town.join("e"))
    town.work.add("e", "v1", "w-1")
    await ledger.abandon(recovery, "repaired by hand", by=ANN)
    await town.clock.advance(REOPEN_PAUSE + MINUTE)

    report = await town.take_census()

    assert shown(report) == [("e", "v1", OwnerKind.ABANDONED, 1)]
    assert len(await town.list_recoveries()) == 1
    assert await town.list_entries("census.unknown_owner") == []


@pytest.mark.parametrize(
    "status", [ExecutorStatus.HEALTHY, ExecutorStatus.DISCONNECTED]
)
async def test_executors_that_are_there_or_may_return_are_left_alone(
    town: Town, status: ExecutorStatus
) -> None:
    """The whole fleet owns pending work: that is what it is for."""
    await town.join("peer")
    reader = await town.join("e")
    town.work.add("e", "v1", "w-1")
    if status is ExecutorStatus.DISCONNECTED:
        await town.lose(reader, status)

    report = await town.take_census()

    assert shown(report) == []
    assert await town.list_recoveries() == []


async def test_an_open_recovery_is_left_to_itself(town: Town) -> None:
    """No second row, and nothing shown."""
    await town.join("peer", V2)
    await town.lose(await town.join("e"))
    town.work.add("e", "v1", "w-1")

    report = await town.take_census()

    assert shown(report) == []
    assert len(await town.list_recoveries()) == 1


# --- strangers -----------------------------------------------------------------------


async def test_a_stranger_is_listed_audited_once_and_never_ordered(town: Town) -> None:
    """It died before it connected, or has no key; or it lives."""
    peer = await town.join("peer")
    town.work.add("stranger", "v1", "w-1", "w-2")
    town.start()

    first = await town.take_census()
    await town.pass_time(MINUTE / 2)
    town.work.add("stranger", "v1", "w-3")
    second = await town.take_census()
    await town.pass_time(MINUTE / 2)
    await town.take_census()

    assert shown(first) == [("stranger", "v1", OwnerKind.UNKNOWN, 2)]
    assert shown(second) == [("stranger", "v1", OwnerKind.UNKNOWN, 3)]
    assert second.owners[0].first_seen_at == first.owners[0].first_seen_at
    [entry] = await town.list_entries("census.unknown_owner")
    assert entry.status is AuditStatus.FAILURE
    assert entry.details["executor_id"] == "stranger"
    assert entry.details["app_version"] == "v1"
    assert entry.details["pending_count"] == 2
    assert entry.details["answered_by"] == "peer"
    assert peer.asked(RecoveryRequest) == []
    assert await town.list_recoveries() == []


async def test_an_operator_has_the_work_of_a_stranger_recovered(
    town: Town, ledger: Ledger
) -> None:
    """The one way to it; verified like any other."""
    peer = await town.join("peer")
    town.work.add("stranger", "v1", "w-1")
    await town.census.take_now()

    ordered = await ledger.order(SHOP, ExecutorId("stranger"), V1, by=ANN)
    assert shown(await town.report()) == []
    town.start()
    record = await town.reach(ordered.id, RecoveryState.DONE)

    assert record.is_verified is True
    assert peer.asked(RecoveryRequest) == [RecoveryRequest((ExecutorId("stranger"),))]
    assert town.work.owners["w-1"] == ("peer", "v1")
    assert await town.find_executor("stranger") is None
    assert shown(await town.report()) == []
    await town.clock.advance(MINUTE)
    assert shown(await town.take_census()) == []


async def test_a_stranger_vanishes_with_its_work(town: Town) -> None:
    """Finished, cancelled or taken over by hand."""
    await town.join("peer")
    town.work.add("stranger", "v1", "w-1")
    await town.census.take_now()
    await town.clock.advance(5 * MINUTE)

    town.work.finish("w-1")

    assert shown(await town.take_census()) == []


async def test_a_stranger_that_connects_is_none_any_more(town: Town) -> None:
    """At once, although the next census is minutes away."""
    await town.join("peer")
    town.work.add("stranger", "v1", "w-1")
    await town.census.take_now()

    await town.join("stranger")

    assert shown(await town.report()) == []


async def test_strangers_are_shown_up_to_a_limit(town: Town) -> None:
    """Those with the most work; whoever answers can invent as many as it likes."""
    peer = await town.join("peer")
    many = tuple(
        PendingCount(ExecutorId(f"s{number}"), V1, number)
        for number in range(1, SHOWN_OWNERS + 3)
    )
    peer.on(GetWorkflowAggregatesRequest, replying(many))

    report = await town.take_census()

    assert len(report.owners) == SHOWN_OWNERS
    assert min(owner.pending_count for owner in report.owners) == 3


async def test_strangers_are_bounded_where_nobody_can_tell_that_they_have_gone(
    town: Town,
) -> None:
    """In a dispute those that are missing may be in the other database."""
    peer = await town.join("peer")
    town.comparison.is_disputed = lambda application_id: True  # type: ignore[method-assign]  # as if two databases were found
    for turn in "ab":
        many = tuple(
            PendingCount(ExecutorId(f"{turn}{number}"), V1, 1)
            for number in range(SHOWN_OWNERS)
        )
        peer.on(GetWorkflowAggregatesRequest, replying(many))
        await town.census.take_now()
        await town.clock.advance(MINUTE)

    report = await town.report()
    assert len(report.owners) == SHOWN_OWNERS
    assert {owner.owner.executor_id[0] for owner in report.owners} == {"b"}


async def test_owners_whom_no_executor_can_be_are_left_out(town: Town) -> None:
    """Nobody could introduce itself like that, nor be named by an operator."""
    peer = await town.join("peer")
    long = PendingCount(ExecutorId("x" * 513), V1, 1)
    other = PendingCount(ExecutorId("x"), AppVersion("v" * 513), 1)
    wide = PendingCount(ExecutorId("\N{OLD PERSIAN SIGN A}" * 512), V1, 1)
    peer.on(GetWorkflowAggregatesRequest, replying((long, other, wide)))

    assert shown(await town.take_census()) == []


async def test_counts_that_cannot_be_are_cut_to_what_can_be_added_up(
    town: Town,
) -> None:
    """Two of the largest would fit into no column, and no census would be taken."""
    peer = await town.join("peer")
    absurd = [PendingCount(ExecutorId(name), V1, 2**63 - 1) for name in ("x", "y")]
    peer.on(GetWorkflowAggregatesRequest, replying(tuple(absurd)))

    report = await town.take_census()

    assert [owner.pending_count for owner in report.owners] == [MOST_COUNTED] * 2
    assert report.census is not None
    assert report.census.pending_count == 2 * MOST_COUNTED
    assert (
        town.metrics.registry.get_sample_value(
            "relay_unattended_workflows", {"kind": OwnerKind.UNKNOWN.value}
        )
        == 2 * MOST_COUNTED
    )


async def test_work_that_nobody_owns_is_told_once_and_left(town: Town) -> None:
    """There is nobody whom an order could name."""
    peer = await town.join("peer")
    rows = (PendingCount(None, V1, 4), PendingCount(ExecutorId("e"), None, 1))
    peer.on(GetWorkflowAggregatesRequest, replying(rows))

    with capture_logs() as logs:
        report = await town.take_census()
        await town.census.take_now()

    assert shown(report) == []
    assert [
        (line["event"], line["workflows"])
        for line in logs
        if line["event"] == "pending_workflows_without_owner"
    ] == [("pending_workflows_without_owner", 5)]


async def test_of_a_deleted_application_nothing_is_remembered(town: Town) -> None:
    """Registered again, it is told of again."""
    peer = await town.join("peer")
    peer.on(GetWorkflowAggregatesRequest, replying((PendingCount(None, V1, 4),)))
    await town.census.take_now()
    async with town.store.write() as work:
        await work.applications.delete(SHOP.id)
    await town.census.take_now()
    await town.add_application()

    with capture_logs() as logs:
        await town.census.take_now()

    assert "pending_workflows_without_owner" in [line["event"] for line in logs]
