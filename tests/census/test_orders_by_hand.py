"""A stranger stays a stranger, whatever an operator has had recovered of it."""

from datetime import timedelta

import pytest

from relay.census.policy import REOPEN_PAUSE
from relay.ids import AppVersion, ExecutorId
from relay.protocol.messages import RecoveryRequest
from relay.records import AuditSubject, OwnerKind, RecoveryRecord, RecoveryState
from relay.recovery import Ledger
from relay.recovery.policy import Finish
from relay.recovery.transitions import finished
from tests.census.town import Town, shown
from tests.recovery.records import SHOP, V1, V2, dead_ref

pytestmark = pytest.mark.parametrize(
    "engine_name", ["sqlite", "postgresql-18"], indirect=True
)

MINUTE = timedelta(minutes=1)
ANN = AuditSubject(kind="user", id="ann", display="Ann")
STRANGER = ExecutorId("stranger")


async def recover(town: Town, ledger: Ledger, version: AppVersion) -> RecoveryRecord:
    """Ann orders it, and it comes to its end; then time passes."""
    ordered = await ledger.order(SHOP, STRANGER, version, by=ANN)
    engine = town.start()
    record = await town.reach(ordered.id, RecoveryState.DONE)
    await town.kill(engine)
    await town.clock.advance(REOPEN_PAUSE + MINUTE)
    return record


@pytest.mark.parametrize("version", [V1, V2])
async def test_a_stranger_that_was_recovered_by_hand_is_a_stranger_again(
    town: Town, ledger: Ledger, version: AppVersion
) -> None:
    """It may be alive without a key: what it claims now is not taken from it."""
    peer = await town.join("peer")
    town.work.add(STRANGER, "v1", "w-1")
    await recover(town, ledger, V1)
    town.work.add(STRANGER, version, "w-2")

    report = await town.take_census()

    assert shown(report) == [(STRANGER, version, OwnerKind.UNKNOWN, 1)]
    assert len(peer.asked(RecoveryRequest)) == 1
    assert len(await town.list_recoveries()) == 1
    assert await town.list_entries("census.reopen") == []


async def test_a_version_that_nobody_has_is_said_to_be_the_only_one_asked_about(
    town: Town, ledger: Ledger
) -> None:
    """A slip before the first census: the work of the right version is still there."""
    await town.join("peer")
    town.work.add(STRANGER, "v1", "w-1")

    record = await recover(town, ledger, AppVersion("typo"))

    assert record.reason == (
        "nothing of version typo is pending; nobody was asked about other versions"
    )
    assert shown(await town.take_census()) == [(STRANGER, "v1", OwnerKind.UNKNOWN, 1)]
    assert (await recover(town, ledger, V1)).reason is None
    assert town.work.owners["w-1"] == ("peer", "v1")


async def test_an_unverified_end_of_a_stranger_is_not_reopened(
    town: Town, ledger: Ledger
) -> None:
    """The row that guarded the order is no sign that it was ever connected."""
    await town.join("peer")
    town.work.add(STRANGER, "v1", "w-1")
    ordered = await ledger.order(SHOP, STRANGER, V1, by=ANN)
    async with town.store.write() as work:
        await work.recoveries.save(
            finished(ordered, Finish(is_verified=False), now=work.now),
            expected_revision=ordered.revision,
        )
    await town.clock.advance(REOPEN_PAUSE + MINUTE)

    report = await town.take_census()

    assert shown(report) == [(STRANGER, "v1", OwnerKind.UNKNOWN, 1)]
    assert len(await town.list_recoveries()) == 1


async def test_what_was_given_up_of_a_stranger_says_nothing_of_another_version(
    town: Town, ledger: Ledger
) -> None:
    """The one stays given up, the other unknown; neither is recovered by itself."""
    await town.join("peer")
    town.work.add(STRANGER, "v1", "w-1")
    town.work.add(STRANGER, "v2", "w-2")
    ordered = await ledger.order(SHOP, STRANGER, V1, by=ANN)
    await ledger.abandon(ordered.id, "it lives", by=ANN)
    await town.clock.advance(REOPEN_PAUSE + MINUTE)

    report = await town.take_census()

    assert sorted(shown(report)) == [
        (STRANGER, "v1", OwnerKind.ABANDONED, 1),
        (STRANGER, "v2", OwnerKind.UNKNOWN, 1),
    ]
    assert len(await town.list_recoveries()) == 1


async def test_an_executor_that_was_connected_once_is_remembered(
    town: Town, ledger: Ledger
) -> None:
    """Whoever gave it up, and then had it recovered: it is known, and gone."""
    peer = await town.join("peer")
    recovery = await town.lose(await town.join(STRANGER))
    town.work.add(STRANGER, "v1", "w-1")
    await ledger.abandon(recovery, "repaired by hand", by=ANN)
    await recover(town, ledger, V1)
    assert await town.find_executor(STRANGER) is None
    town.work.add(STRANGER, "v1", "w-2")

    await town.take_census()

    [entry] = await town.list_entries("census.reopen")
    assert entry.details["executor_id"] == STRANGER
    assert len(peer.asked(RecoveryRequest)) == 1


async def test_a_forgotten_executor_that_is_recovered_by_hand_stays_known(
    town: Town, ledger: Ledger
) -> None:
    """Its new row never had a socket; its tombstone says that it had one before."""
    await town.join("peer", V2)
    recovery = await town.lose(await town.join(STRANGER))
    engine = town.start()
    await town.reach(recovery, RecoveryState.DONE)
    await town.kill(engine)
    await town.clock.advance(MINUTE)
    town.work.add(STRANGER, "v2", "w-1")
    await recover(town, ledger, V2)
    town.work.add(STRANGER, "v2", "w-2")

    await town.take_census()

    assert len(await town.list_entries("census.reopen")) == 1
    async with town.store.read() as work:
        remembered = await work.tombstones.find(dead_ref(STRANGER).key)
    assert remembered is not None
    assert remembered.app_version == V2


async def test_the_census_leaves_a_quarter_of_an_hour_after_an_order_by_hand(
    town: Town, ledger: Ledger
) -> None:
    """As after one of its own, whether the record was kept then or is gone."""
    await town.join("peer")
    recovery = await town.lose(await town.join(STRANGER))
    await ledger.abandon(recovery, "it lives", by=ANN)
    await town.clock.advance(MINUTE)
    town.work.add(STRANGER, "v1", "w-1")
    ordered = await ledger.order(SHOP, STRANGER, V1, by=ANN)
    engine = town.start()
    await town.reach(ordered.id, RecoveryState.DONE)
    await town.kill(engine)
    town.work.add(STRANGER, "v1", "w-2")
    await town.clock.advance(5 * MINUTE)

    await town.census.take_now()
    assert await town.list_entries("census.reopen") == []
    await town.clock.advance(REOPEN_PAUSE)
    await town.census.take_now()
    assert len(await town.list_entries("census.reopen")) == 1
