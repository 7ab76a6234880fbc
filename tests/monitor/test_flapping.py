"""An executor that comes and goes: right in its row, and told once."""

from datetime import timedelta
from typing import Any

import pytest
import structlog

from relay.audit import engine_entry
from relay.errors import StoreUnavailableError
from relay.hub.events import Loss
from relay.liveness.states import ExecutorStatus
from relay.monitor.flapping import (
    CUTS_TO_FLAPPING,
    STEADY_AFTER,
    WINDOW,
    Histories,
    History,
    condense,
)
from relay.monitor.recorder import SETTLED_AT_ONCE
from relay.records import AuditEntry
from relay.store.audit_log import AuditLogRepository
from tests.monitor.scene import APPLICATION, GRACE, SECOND, Scene, ref_of

HEALTHY = ExecutorStatus.HEALTHY
ALICE = ref_of("alice")


async def cut(scene: Scene, times: int, *, every: timedelta, first: int = 0) -> int:
    """The socket of e1 is cut so many times; it is back a second later."""
    for number in range(first, first + times):
        scene.connect("e1", f"c{number}")
        await scene.pass_time(every - SECOND)
        scene.lose("e1", f"c{number}", loss=Loss.RESET, close_code=None)
        await scene.pass_time(SECOND)
    return first + times


async def details_of(scene: Scene, operation: str) -> list[Any]:
    return [
        dict(record.entry.details)
        for record in await scene.audit()
        if record.entry.operation == operation
    ]


async def test_thirty_cuts_in_ten_minutes_are_one_entry(scene: Scene) -> None:
    """Nobody dies, nothing is recovered, and the history stays short."""
    with structlog.testing.capture_logs() as logs:
        cuts = await cut(scene, 30, every=20 * SECOND)
    scene.connect("e1", f"c{cuts}")
    await scene.turn()

    assert await scene.status("e1") is HEALTHY
    assert await scene.recoveries() == []
    assert await scene.operations() == [
        "executor.connect",
        "executor.disconnect",
        "executor.reconnect",
        "executor.disconnect",
        "executor.reconnect",
        "executor.disconnect",
        "executor.flapping",
    ]
    [flapping] = await details_of(scene, "executor.flapping")
    assert flapping == {
        "application_name": "orders",
        "executor_id": "e1",
        "cuts": 3,
        "within_secs": 40,
        "last_reason": "reset",
    }
    [warning] = [log for log in logs if log["event"] == "executor_flapped"]
    assert (warning["log_level"], warning["executor_id"]) == ("warning", "e1")


async def test_rows_and_figures_of_a_flapping_executor_stay_true(scene: Scene) -> None:
    """Only the audit log is spared."""
    await cut(scene, 10, every=20 * SECOND)

    row = await scene.row("e1")
    assert (row.status, row.epoch) == (ExecutorStatus.DISCONNECTED, 10)
    assert row.dead_after == scene.clock.now() + GRACE
    for operation, number in {"disconnect": 10, "reconnect": 9, "connect": 1}.items():
        assert (
            scene.metrics.registry.get_sample_value(
                "relay_transitions_total", {"operation": f"executor.{operation}"}
            )
            == number
        )


async def test_a_steady_executor_is_told_of_once(scene: Scene) -> None:
    """Five minutes after its last cut, with the number of what was left out."""
    cuts = await cut(scene, 10, every=20 * SECOND)
    scene.connect("e1", f"c{cuts}")
    assert scene.monitor.is_flapping(ref_of("e1"))
    await scene.pass_time(STEADY_AFTER - 2 * SECOND)
    assert await details_of(scene, "executor.steady") == []

    await scene.pass_time(15 * SECOND)

    assert not scene.monitor.is_flapping(ref_of("e1"))
    [steady] = await details_of(scene, "executor.steady")
    # 10 connections, 10 cuts and a return, of which 3, 3 and none were written.
    assert steady["entries_left_out"] == 15
    assert steady["is_online"] is True
    assert steady["last_reason"] == "reset"

    await scene.pass_time(STEADY_AFTER)
    scene.lose("e1", f"c{cuts}")
    await scene.turn()
    assert (await scene.operations())[-2:] == ["executor.steady", "executor.disconnect"]


async def test_death_of_a_flapping_executor_is_written_and_ends_it(
    scene: Scene,
) -> None:
    """Its recovery tells why it was lost; who returns from the dead is told of."""
    await cut(scene, 5, every=20 * SECOND)
    await scene.pass_time(GRACE)
    scene.connect("e1", "back")
    await scene.turn()

    [recovery] = await scene.recoveries()
    story = [record.entry for record in (await scene.audit())[-3:]]
    assert [entry.operation for entry in story] == [
        "executor.dead",
        "executor.steady",
        "executor.reconnect",
    ]
    assert {entry.recovery_id for entry in story} == {recovery.id}
    assert story[1].details["last_reason"] == "reset"
    assert story[1].details["is_online"] is False
    assert not scene.monitor.is_flapping(ref_of("e1"))


async def test_rare_cuts_are_all_told(scene: Scene) -> None:
    """Two within the window are not enough, however often."""
    await cut(scene, 8, every=WINDOW / 2 + SECOND)

    assert await details_of(scene, "executor.flapping") == []
    assert len(await details_of(scene, "executor.disconnect")) == 8


async def test_one_that_flaps_does_not_silence_another(scene: Scene) -> None:
    """Each executor has its own history."""
    cuts = await cut(scene, 4, every=20 * SECOND)
    await scene.disconnect("e2", "other")
    await cut(scene, 1, every=20 * SECOND, first=cuts)

    assert (await scene.operations())[-2:] == [
        "executor.connect",
        "executor.disconnect",
    ]


async def test_news_that_were_not_written_count_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is repeated because the store was away makes nobody flap."""

    async def refuse(self: AuditLogRepository, entries: object) -> None:
        raise StoreUnavailableError("not now")

    await cut(scene, 1, every=20 * SECOND)
    scene.connect("e1", "next")
    await scene.turn()
    scene.lose("e1", "next")
    with monkeypatch.context() as patch:
        patch.setattr(AuditLogRepository, "append", refuse)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await scene.turn()
    await scene.turn()

    assert await scene.status("e1") is ExecutorStatus.DISCONNECTED
    assert not scene.monitor.is_flapping(ref_of("e1"))


async def test_nothing_is_told_of_an_application_that_is_gone(scene: Scene) -> None:
    """Its flapping executors are forgotten without a word."""
    await cut(scene, 5, every=20 * SECOND)
    async with scene.database.write() as work:
        await work.applications.delete(APPLICATION.id)
    await scene.pass_time(STEADY_AFTER + 15 * SECOND)

    assert not scene.monitor.is_flapping(ref_of("e1"))
    assert await details_of(scene, "executor.steady") == []


async def test_a_crowd_that_is_steady_is_told_of_in_portions(scene: Scene) -> None:
    """A proxy that cuts everybody makes everybody flap, and steady at one moment."""
    crowd = [f"e{number}" for number in range(SETTLED_AT_ONCE + 1)]
    for number in range(CUTS_TO_FLAPPING):
        for executor in crowd:
            scene.connect(executor, f"{executor}-{number}")
            scene.lose(executor, f"{executor}-{number}")
    for executor in crowd:
        scene.connect(executor, f"{executor}-last")
    while await scene.find(crowd[-1]) is None or not scene.monitor.is_flapping(
        ref_of(crowd[-1])
    ):
        await scene.turn()
    await scene.turn()
    await scene.clock.advance(STEADY_AFTER)

    await scene.turn()
    assert len(await details_of(scene, "executor.steady")) == SETTLED_AT_ONCE
    await scene.turn()
    assert len(await details_of(scene, "executor.steady")) == len(crowd)


def entry(operation: str, **details: Any) -> AuditEntry:
    return engine_entry(f"executor.{operation}", ALICE, **details)


def test_a_connection_that_another_replaces_was_cut_too() -> None:
    """A half-open socket is replaced before its end is noticed."""
    replaced = entry("reconnect", was="HEALTHY")

    condensed = condense(History(ref=ALICE), [replaced] * 3, now=0.0)

    assert condensed.history.is_flapping
    assert condensed.history.last_reason == "superseded"


def test_a_return_is_no_cut() -> None:
    """It is the end of one."""
    returned = entry("reconnect", was="DISCONNECTED")

    assert condense(History(ref=ALICE), [returned], now=0.0).history.cuts == ()


def test_one_batch_may_hold_the_third_cut_and_what_follows() -> None:
    """From the entry that says so on, the rest of the batch is left out."""
    loss, back = entry("disconnect", reason="reset"), entry("reconnect", was="X")

    condensed = condense(History(ref=ALICE), [loss, back, loss, back, loss, back], 0.0)

    assert [kept.operation for kept in condensed.entries] == [
        "executor.disconnect",
        "executor.reconnect",
        "executor.disconnect",
        "executor.reconnect",
        "executor.disconnect",
        "executor.flapping",
    ]
    assert condensed.history.left_out == 1


def test_histories_are_forgotten_when_they_no_longer_matter() -> None:
    """However many executors were cut once, memory does not grow for ever."""
    histories = Histories()
    for number in range(1000):
        ref = ref_of(f"e{number}")
        loss = engine_entry("executor.disconnect", ref, reason="reset")
        histories.keep(condense(History(ref=ref), [loss], now=0.0).history)
    assert len(histories) == 1000

    assert histories.list_steady(WINDOW.total_seconds() + 1) == []

    assert len(histories) == 0
