"""Rows that wait: for a version, for anybody, for silent executors, for the start."""

from collections import Counter
from datetime import timedelta

import pytest

from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    ExecutorId,
)
from relay.protocol.messages import (
    RecoveryRequest,
)
from relay.records import RecoveryState, VersionPolicy
from relay.recovery import engine
from relay.recovery.engine import APPLICATION_SHARE
from tests.recovery.moves import is_done
from tests.recovery.records import ORGANIZATION, V1, V2, dead_ref
from tests.recovery.stage import (
    Stage,
    silence,
)

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

DONE = RecoveryState.DONE
OTHER = ApplicationRef(ApplicationId("app-other"), ORGANIZATION, AppName("other"))


async def test_stranded_work_is_taken_when_its_version_connects(stage: Stage) -> None:
    """A v2 executor alone is never ordered; a v1 executor ends it."""
    recovery = await stage.bury()
    foreign = stage.connect("foreign", V2)
    stage.start()
    stranded = await stage.reach(recovery, RecoveryState.STRANDED)

    assert foreign.asked(RecoveryRequest) == []
    assert "v1" in (stranded.reason or "")
    assert stage.workflows.pending(ExecutorId("dead"), V1) != []
    stage.connect("peer", V1)
    took = await stage.run_until(lambda: is_done(stage, recovery))

    # The survey finds it although no event has woken the row.
    assert took <= timedelta(seconds=16)
    assert (await stage.find(recovery)).target == "peer"
    operations = await stage.list_operations(recovery)
    assert operations.count("recovery.strand") == 1


async def test_stranded_row_is_looked_at_every_five_minutes(stage: Stage) -> None:
    """Work that was cancelled or migrated meanwhile ends it."""
    recovery = await stage.bury()
    stage.connect("foreign", V2)
    stage.start()
    await stage.reach(recovery, RecoveryState.STRANDED)

    stage.workflows.take_over(ExecutorId("dead"), V1)
    took = await stage.run_until(lambda: is_done(stage, recovery))

    assert timedelta(minutes=4) < took < timedelta(minutes=6)
    assert await stage.find_executor() is None


async def test_recovery_waits_without_executors(stage: Stage) -> None:
    """The first executor of the application makes it go on."""
    recovery = await stage.bury()
    stage.start()
    waiting = await stage.reach(recovery, RecoveryState.WAITING)

    assert waiting.next_attempt_at is None
    stage.connect("peer")
    assert (await stage.reach(recovery, DONE)).is_verified


async def test_woken_recovery_goes_on_at_once(stage: Stage) -> None:
    """The monitor wakes the row and the engine in the moment of the connection."""
    recovery = await stage.bury()
    engine = stage.start()
    await stage.reach(recovery, RecoveryState.WAITING)

    peer = stage.connect("peer")
    async with stage.store.write() as work:
        await work.recoveries.wake(peer.ref.application.id, V1)
    engine.wake()
    await stage.settle()

    assert (await stage.find(recovery)).state is DONE


async def test_application_whose_orders_hang_holds_up_nobody_else(
    stage: Stage,
) -> None:
    """However many of its executors died first."""
    await stage.add_application(OTHER)
    for number in range(2 * APPLICATION_SHARE):
        await stage.bury(f"dead-{number}", pending=[f"w-{number}"])
    recovery = await stage.bury("late", application=OTHER, pending=["w"])
    stage.connect("hung").on(RecoveryRequest, silence)
    stage.connect("peer", application=OTHER)

    stage.start()

    await stage.reach(recovery, DONE, within=timedelta(seconds=10))


async def test_many_applications_that_hang_hold_up_nobody_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they fill all places, and one without an attempt still gets one."""
    monkeypatch.setattr(engine, "APPLICATION_SHARE", 4)
    monkeypatch.setattr(engine, "ATTEMPTS_AT_ONCE", 8)
    await stage.add_application(OTHER)
    hanging = [
        ApplicationRef(ApplicationId(f"app-{n}"), ORGANIZATION, AppName(f"hangs-{n}"))
        for n in range(4)
    ]
    for application in hanging:
        await stage.add_application(application)
        for number in range(10):
            await stage.bury(f"d-{application.name}-{number}", application=application)
        stage.connect("hung", application=application).on(RecoveryRequest, silence)
    recovery = await stage.bury("late", application=OTHER)
    peer = stage.connect("peer", application=OTHER)

    stage.start()
    await stage.reach(recovery, DONE, within=timedelta(seconds=10))

    assert len(peer.asked(RecoveryRequest)) == 1
    async with stage.store.read() as work:
        claimed = await work.recoveries.list_claimed()
    shares = Counter(record.executor.application.id for record in claimed)
    assert set(shares) == {application.id for application in hanging}
    assert max(shares.values()) < 2 * 4


async def test_silent_executors_are_left_alone_and_then_ordered(stage: Stage) -> None:
    """Whoever does not answer is the hub's to probe, and asked for nothing else."""
    recovery = await stage.bury()
    peer = stage.connect("peer")
    peer.is_responsive = False
    stage.start()
    await stage.reach(recovery, RecoveryState.WAITING)
    await stage.pass_time(timedelta(seconds=31))

    assert peer.requests == []
    peer.is_responsive = True
    assert (await stage.reach(recovery, DONE)).target == "peer"


async def test_silent_executor_is_told_once(stage: Stage) -> None:
    """Silence of an hour is one entry in the audit log, not two hundred."""
    peer = stage.connect("peer")
    peer.is_responsive = False
    stage.start()
    await stage.pass_time(timedelta(seconds=60))

    async with stage.store.read() as work:
        entries = await work.audit.list_entries(
            peer.ref.application.organization,
            operation="executor.unresponsive",
            limit=10,
        )
    assert [e.entry.details["executor_id"] for e in entries] == ["peer"]


async def test_silent_executor_is_ordered_when_its_version_has_no_other(
    stage: Stage,
) -> None:
    """Somebody of another version answered the question."""
    recovery = await stage.bury()
    stage.connect("foreign", V2)
    peer = stage.connect("peer")
    peer.is_responsive = False

    stage.start()

    assert (await stage.reach(recovery, DONE)).target == "peer"


async def test_any_version_policy_orders_a_foreign_version_once(stage: Stage) -> None:
    """It takes nothing, which the question shows, and then the row is stranded."""
    ref = dead_ref().application
    async with stage.store.write() as work:
        await work.applications.delete(ref.id)
    await stage.add_application(version_policy=VersionPolicy.ANY)
    recovery = await stage.bury()
    foreign = stage.connect("foreign", V2)

    stage.start()
    record = await stage.reach(recovery, RecoveryState.STRANDED)

    assert record.tried_versions == (V2,)
    assert len(foreign.asked(RecoveryRequest)) == 1


async def test_nothing_is_ordered_in_the_first_seconds(stage: Stage) -> None:
    """The question may be asked, and a row without work may end."""
    idle = await stage.bury("idle", pending=[])
    busy = await stage.bury("busy")
    peer = stage.connect("peer")

    stage.start(stage.make_engine(start_hold_secs=30))
    await stage.reach(idle, DONE, within=timedelta(seconds=3))
    await stage.pass_time(timedelta(seconds=25))
    assert peer.asked(RecoveryRequest) == []
    took = await stage.run_until(lambda: is_done(stage, busy))

    assert took < timedelta(seconds=8)


async def test_time_before_the_sockets_may_come_is_not_held_against_them(
    stage: Stage,
) -> None:
    """The start may wait for its store for minutes, and then executors redial."""
    await stage.bury("busy")
    peer = stage.connect("peer")
    engine = stage.make_engine(start_hold_secs=30)
    await stage.pass_time(timedelta(minutes=5))

    stage.start(engine)
    await stage.pass_time(timedelta(seconds=25))

    assert peer.asked(RecoveryRequest) == []
