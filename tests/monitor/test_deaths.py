"""Deadlines, deaths, and what they leave in the ledger."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relay.ids import AppVersion, Epoch, InstanceId, RecoveryId
from relay.liveness.states import ExecutorStatus
from relay.monitor import sweep
from relay.records import RecoveryRecord, RecoveryState
from relay.recovery.transitions import open_recovery
from relay.store.executors import ExecutorKey
from relay.store.recoveries import RecoveryRepository
from tests.monitor.scene import (
    APPLICATION,
    FAULT_GRACE,
    GRACE,
    SECOND,
    Scene,
    ref_of,
)

HEALTHY = ExecutorStatus.HEALTHY
DISCONNECTED = ExecutorStatus.DISCONNECTED
DEAD = ExecutorStatus.DEAD


async def die(scene: Scene, executor: str, connection: str) -> None:
    await scene.disconnect(executor, connection)
    await scene.pass_time(GRACE)
    assert await scene.status(executor) is DEAD


async def save_recovery(scene: Scene, record: RecoveryRecord) -> None:
    async with scene.store.write() as work:
        assert await work.recoveries.save(record, expected_revision=record.revision)


async def test_nobody_dies_before_the_deadline(scene: Scene) -> None:
    """One second short of the grace is DISCONNECTED; the grace itself is DEAD."""
    await scene.disconnect("e1", "c1")

    await scene.pass_time(GRACE - SECOND)
    assert await scene.status("e1") is DISCONNECTED

    await scene.pass_time(SECOND)
    assert await scene.status("e1") is DEAD


async def test_death_opens_one_recovery_that_is_due_at_once(scene: Scene) -> None:
    """The ledger has one READY row of this death, and the engine is woken for it."""
    await die(scene, "e1", "c1")

    [recovery] = await scene.recoveries()
    assert recovery.executor == ref_of("e1")
    assert recovery.app_version == "v1"
    assert recovery.epoch == (await scene.row("e1")).epoch
    assert recovery.state is RecoveryState.READY
    assert recovery.next_attempt_at == scene.clock.now()
    assert recovery.lost_at == scene.clock.now() - GRACE
    assert scene.recovery_wakes == 1
    entry = (await scene.audit())[-1].entry
    assert entry.operation == "executor.dead"
    assert entry.recovery_id == recovery.id

    await scene.pass_time(GRACE)
    assert len(await scene.recoveries()) == 1


async def test_death_and_recovery_are_one_transaction(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the ledger cannot be written, the executor is not dead either."""

    async def refuse(self: RecoveryRepository, records: object) -> None:
        raise ArithmeticError("no ledger today")

    await scene.disconnect("e1", "c1")
    with monkeypatch.context() as patch:
        patch.setattr(RecoveryRepository, "insert_many", refuse)
        await scene.pass_time(GRACE)
        assert await scene.status("e1") is DISCONNECTED
        assert scene.recovery_wakes == 0

    await scene.turn()
    assert await scene.status("e1") is DEAD
    assert len(await scene.recoveries()) == 1


@pytest.mark.parametrize(
    "state", [RecoveryState.READY, RecoveryState.ORDERED, RecoveryState.STRANDED]
)
async def test_return_of_the_dead_ends_the_recovery(
    scene: Scene, state: RecoveryState
) -> None:
    """HEALTHY and RETURNED are written together, wherever the recovery stood."""
    await die(scene, "e1", "c1")
    [recovery] = await scene.recoveries()
    claimer = InstanceId("instance-1") if state is RecoveryState.ORDERED else None
    await save_recovery(scene, replace(recovery, state=state, claimed_by=claimer))
    scene.connect("e1", "c2")
    await scene.turn()

    row = await scene.row("e1")
    [ended] = await scene.recoveries()
    assert (row.status, row.epoch) == (HEALTHY, 2)
    assert (ended.id, ended.state) == (recovery.id, RecoveryState.RETURNED)
    assert ended.claimed_by is None
    assert ended.closed_at == scene.clock.now()
    entry = (await scene.audit())[-1].entry
    assert entry.operation == "executor.reconnect"
    assert entry.recovery_id == recovery.id
    assert entry.details["was"] == "DEAD"
    assert entry.details["recovery_was"] == state.value


async def test_a_second_death_has_a_recovery_of_its_own(scene: Scene) -> None:
    """Each death is one row, under the epoch of its own connection."""
    await die(scene, "e1", "c1")
    await die(scene, "e1", "c2")

    second, first = await scene.recoveries()
    assert (first.epoch, first.state) == (1, RecoveryState.RETURNED)
    assert (second.epoch, second.state) == (2, RecoveryState.READY)


async def test_a_recovery_ordered_for_an_unknown_id_ends_when_it_connects(
    scene: Scene,
) -> None:
    """An id that nobody knew is no longer recovered once it is on line."""
    async with scene.store.write() as work:
        await work.recoveries.insert(
            open_recovery(
                recovery_id=RecoveryId("r1"),
                executor=ref_of("e1"),
                app_version=AppVersion("v1"),
                epoch=Epoch(0),
                lost_at=None,
                now=work.now,
            )
        )
    scene.connect("e1", "c1")
    await scene.turn()

    [recovery] = await scene.recoveries()
    assert recovery.state is RecoveryState.RETURNED


async def test_a_recovery_that_is_open_already_becomes_the_one_of_the_death(
    scene: Scene,
) -> None:
    """A row that should not be there does not keep an executor from dying."""
    await scene.disconnect("e1", "c1")
    async with scene.store.write() as work:
        await work.recoveries.insert(
            replace(
                open_recovery(
                    recovery_id=RecoveryId("r1"),
                    executor=ref_of("e1"),
                    app_version=AppVersion("v0"),
                    epoch=Epoch(0),
                    lost_at=None,
                    now=work.now,
                ),
                state=RecoveryState.WAITING,
                next_attempt_at=None,
            )
        )
    await scene.pass_time(GRACE)

    [recovery] = await scene.recoveries()
    assert recovery.id == "r1"
    assert (recovery.epoch, recovery.app_version) == (1, "v1")
    assert recovery.state is RecoveryState.READY
    assert recovery.next_attempt_at is not None


async def test_a_return_ends_the_recovery_that_the_engine_has_just_changed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that moved on since it was read is read again, and ended."""
    await die(scene, "e1", "c1")
    [read] = await scene.recoveries()
    await save_recovery(scene, replace(read, state=RecoveryState.ORDERED, attempts=1))
    monkeypatch.setattr(RecoveryRepository, "find_open_many", answer_with(read))
    scene.connect("e1", "c2")
    await scene.turn()

    [ended] = await scene.recoveries()
    assert (ended.state, ended.attempts) == (RecoveryState.RETURNED, 1)


async def test_a_return_leaves_the_recovery_that_the_engine_has_just_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is closed stays as it was closed."""
    await die(scene, "e1", "c1")
    [read] = await scene.recoveries()
    await save_recovery(
        scene, replace(read, state=RecoveryState.ABANDONED, closed_at=read.opened_at)
    )
    monkeypatch.setattr(RecoveryRepository, "find_open_many", answer_with(read))
    scene.connect("e1", "c2")
    await scene.turn()

    assert await scene.status("e1") is HEALTHY
    [ended] = await scene.recoveries()
    assert ended.state is RecoveryState.ABANDONED


def answer_with(record: RecoveryRecord) -> Callable[..., Any]:
    async def find_open_many(
        self: RecoveryRepository, keys: object
    ) -> dict[ExecutorKey, RecoveryRecord]:
        return {record.executor.key: record}

    return find_open_many


async def test_a_connection_wakes_what_waits_for_it(scene: Scene) -> None:
    """Whoever connects can be ordered: WAITING and STRANDED rows become due."""
    await die(scene, "e1", "c1")
    [waiting] = await scene.recoveries()
    await save_recovery(
        scene, replace(waiting, state=RecoveryState.WAITING, next_attempt_at=None)
    )
    wakes = scene.recovery_wakes
    scene.connect("e2", "c2", version="v2")
    await scene.turn()

    [woken] = await scene.recoveries()
    assert woken.state is RecoveryState.READY
    assert woken.next_attempt_at == scene.clock.now()
    assert scene.recovery_wakes == wakes + 1


async def test_stranded_work_is_only_woken_by_its_own_version(scene: Scene) -> None:
    """An executor of another version cannot take it, so it is not tried."""
    await die(scene, "e1", "c1")
    [stranded] = await scene.recoveries()
    await save_recovery(
        scene, replace(stranded, state=RecoveryState.STRANDED, next_attempt_at=None)
    )

    scene.connect("e2", "c2", version="v2")
    await scene.turn()
    assert (await scene.recoveries())[0].state is RecoveryState.STRANDED

    scene.connect("e3", "c3", version="v1")
    await scene.turn()
    assert (await scene.recoveries())[0].state is RecoveryState.READY


async def test_a_deadline_waits_for_a_handshake(scene: Scene) -> None:
    """Redialled at 29 s of 30, answered at 31: no death between."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE - SECOND)
    scene.sockets.handshaking.add(APPLICATION.id)
    await scene.pass_time(2 * SECOND)
    assert await scene.status("e1") is DISCONNECTED

    scene.sockets.handshaking.clear()
    scene.connect("e1", "c2")
    await scene.turn()

    assert await scene.status("e1") is HEALTHY
    assert "executor.dead" not in await scene.operations()


async def test_endless_handshakes_do_not_keep_anybody_alive(scene: Scene) -> None:
    """A deadline waits for handshakes as long as one may take, and no longer."""
    await scene.disconnect("e1", "c1")
    scene.sockets.handshaking.add(APPLICATION.id)
    await scene.pass_time(GRACE + 9 * SECOND)
    assert await scene.status("e1") is DISCONNECTED

    await scene.pass_time(SECOND)
    assert await scene.status("e1") is DEAD


async def test_an_executor_on_line_is_not_judged(scene: Scene) -> None:
    """When only the row is late, it is brought up to date instead."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE - SECOND)
    arrival = scene.connect("e1", "c2")
    scene.monitor = scene.new_monitor()  # and with it goes the noted arrival
    await scene.monitor.start()
    await scene.pass_time(60 * SECOND)

    row = await scene.row("e1")
    assert (row.status, row.connection_id) == (HEALTHY, arrival.connection_id)
    assert await scene.recoveries() == []


async def test_a_shorter_timeout_moves_an_open_deadline(scene: Scene) -> None:
    """After PATCH to 5 s, an executor away for 10 s is dead at the next look."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(10 * SECOND)
    assert await scene.status("e1") is DISCONNECTED

    await scene.set_grace(5 * SECOND)
    await scene.turn()

    assert await scene.status("e1") is DEAD


async def test_a_longer_timeout_moves_an_open_deadline(scene: Scene) -> None:
    """After PATCH to 60 s, the old deadline kills nobody."""
    await scene.disconnect("e1", "c1")
    await scene.pass_time(GRACE - SECOND)
    await scene.set_grace(60 * SECOND)
    await scene.pass_time(30 * SECOND)
    assert await scene.status("e1") is DISCONNECTED

    await scene.pass_time(SECOND)
    assert await scene.status("e1") is DEAD


async def test_many_deaths_are_judged_a_page_at_a_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When more deadlines have passed than one look takes, the next look follows."""
    monkeypatch.setattr(sweep, "SWEEP_LIMIT", 2)
    for number in range(3):
        await scene.disconnect(f"e{number}", f"c{number}")
    await scene.pass_time(GRACE - SECOND)
    await scene.clock.advance(SECOND)

    assert await scene.turn() == timedelta(0)
    assert len(await scene.recoveries()) == 2
    assert await scene.turn() == SECOND
    assert len(await scene.recoveries()) == 3


async def test_the_wait_ends_at_the_next_deadline_or_after_a_second(
    scene: Scene,
) -> None:
    """A deadline is noticed on time; without a near one we look every second."""
    assert await scene.turn() == SECOND
    await scene.disconnect("e1", "c1")
    assert await scene.turn() == SECOND
    await scene.pass_time(GRACE - SECOND)
    await scene.clock.advance(timedelta(milliseconds=700))

    assert await scene.turn() == timedelta(milliseconds=300)


async def test_nobody_dies_of_a_relay_that_stops(scene: Scene) -> None:
    """While upgrades are refused, whoever redials in time cannot come back."""
    await scene.disconnect("e1", "c1")
    scene.sockets.is_draining = True
    await scene.pass_time(GRACE + SECOND)
    assert await scene.status("e1") is DISCONNECTED

    scene.sockets.is_draining = False
    await scene.restart()
    await scene.turn()

    assert (await scene.row("e1")).dead_after == scene.clock.now() + FAULT_GRACE
