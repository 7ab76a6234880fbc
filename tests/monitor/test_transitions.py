"""What the monitor writes when executors come, go and die."""

import pytest
import structlog

from relay.errors import StoreUnavailableError
from relay.hub.events import Loss
from relay.ids import ConnectionId
from relay.liveness.states import ExecutorStatus
from relay.store.audit_log import AuditLogRepository
from tests.monitor.scene import (
    ADDRESS,
    APPLICATION,
    FAULT_GRACE,
    GRACE,
    SECOND,
    Scene,
)

HEALTHY = ExecutorStatus.HEALTHY
DISCONNECTED = ExecutorStatus.DISCONNECTED


async def test_first_connection_makes_a_row_and_an_audit_entry(scene: Scene) -> None:
    """A new executor is HEALTHY with all it said of itself, and that is audited."""
    scene.connect("e1", "c1")
    await scene.turn()

    row = await scene.row("e1")
    assert row.status is HEALTHY
    assert row.epoch == 1
    assert row.connection_id == "c1"
    assert row.owner == "instance-1"
    assert row.metadata == {"zone": "a"}
    assert row.created_at == row.last_seen_at == scene.clock.now()
    [record] = await scene.audit()
    assert record.entry.operation == "executor.connect"
    assert record.entry.source_ip == ADDRESS
    assert record.entry.details == {
        "application_name": "orders",
        "executor_id": "e1",
        "epoch": 1,
        "app_version": "v1",
        "hostname": "host-1",
        "language": "python",
        "dbos_version": "3.2.0",
    }


async def test_connection_of_an_old_sdk_carries_a_warning(scene: Scene) -> None:
    """Whoever runs an SDK below the floor can read so, in the audit log and the log."""
    scene.connect("e1", "c1", dbos_version="2.20.0")
    with structlog.testing.capture_logs() as logs:
        await scene.turn()

    [record] = await scene.audit()
    assert "too old" in record.entry.details["warning"]
    [log] = [log for log in logs if log["event"] == "executor_sdk_is_old"]
    assert (log["log_level"], log["executor_id"]) == ("warning", "e1")


async def test_application_takes_the_language_of_its_last_executor(
    scene: Scene,
) -> None:
    """The language is that of whoever connected last and said it."""
    scene.connect("e1", "c1", language="python")
    scene.connect("e2", "c2", language="typescript")
    scene.connect("e3", "c3", language=None)
    await scene.turn()

    assert (await scene.application()).language == "typescript"


@pytest.mark.parametrize(
    ("loss", "close_code"),
    [(Loss.CLOSED, 1000), (Loss.CLOSED, 1011), (Loss.RESET, None), (Loss.SILENT, None)],
)
async def test_any_loss_starts_the_grace(
    scene: Scene, loss: Loss, close_code: int | None
) -> None:
    """No way of going proves a stop, so every one gives the same grace."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.lose("e1", "c1", loss=loss, close_code=close_code, close_reason="")
    await scene.turn()

    row = await scene.row("e1")
    assert row.status is DISCONNECTED
    assert row.dead_after == scene.clock.now() + GRACE
    assert not row.grace_is_fault
    details = (await scene.audit())[-1].entry.details
    assert details["reason"] == loss.value
    assert details.get("close_code") == close_code
    assert details["grace_secs"] == GRACE.total_seconds()
    assert details["dead_after"] == row.dead_after.isoformat()


async def test_a_loss_that_relay_caused_gives_the_longer_grace(scene: Scene) -> None:
    """A drained executor has the floor, and a row that remembers why."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.lose("e1", "c1", loss=Loss.DRAINED, is_fault=True, close_code=1012)
    await scene.turn()

    row = await scene.row("e1")
    assert row.dead_after == scene.clock.now() + FAULT_GRACE
    assert row.grace_is_fault


async def test_a_loss_through_a_fault_of_the_executor_is_remembered(
    scene: Scene,
) -> None:
    """The last error survives the return: it explains the loss to an operator."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.lose("e1", "c1", loss=Loss.TOO_LARGE, close_reason="message above 100 MiB")
    scene.connect("e1", "c2")
    await scene.turn()

    assert (await scene.row("e1")).last_error == "too_large: message above 100 MiB"


async def test_a_silent_executor_was_last_seen_before_it_was_lost(
    scene: Scene,
) -> None:
    """A closed socket is a sign of life; the end of a silence is none."""
    scene.connect("e1", "c1")
    scene.connect("e2", "c2")
    await scene.turn()
    began = scene.clock.now()
    await scene.clock.advance(25 * SECOND)
    scene.lose("e1", "c1", loss=Loss.SILENT, silent_for=25 * SECOND)
    scene.lose("e2", "c2", loss=Loss.CLOSED)
    await scene.turn()

    assert (await scene.row("e1")).last_seen_at == began
    assert (await scene.row("e2")).last_seen_at == began + 25 * SECOND
    silent, closed = (record.entry.details for record in (await scene.audit())[-2:])
    assert silent["silent_for_secs"] == 25
    assert "silent_for_secs" not in closed


async def test_a_return_within_the_grace_opens_no_recovery(scene: Scene) -> None:
    """Back at 29 s of 30: a reconnect, and nothing else ever happens."""
    await scene.disconnect("e1", "c1")
    created_at = (await scene.row("e1")).created_at
    await scene.pass_time(29 * SECOND)
    scene.connect("e1", "c2")
    await scene.pass_time(60 * SECOND)

    row = await scene.row("e1")
    assert (row.status, row.epoch, row.created_at) == (HEALTHY, 2, created_at)
    assert await scene.recoveries() == []
    assert await scene.operations() == [
        "executor.connect",
        "executor.disconnect",
        "executor.reconnect",
    ]
    assert scene.recovery_wakes == 0


async def test_late_close_of_an_old_socket_changes_nothing(scene: Scene) -> None:
    """The old socket's end is no news once the executor is on another one."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.connect("e1", "c2")
    await scene.turn()
    before = await scene.row("e1")
    scene.lose("e1", "c1")
    await scene.turn()

    assert await scene.row("e1") == before
    assert (await scene.operations())[-1] == "executor.reconnect"


async def test_an_older_connection_is_closed_as_superseded(scene: Scene) -> None:
    """The newest connection wins, and only the older one is closed."""
    scene.connect("e1", "c1")
    scene.connect("e2", "c9")
    await scene.turn()
    scene.connect("e1", "c2")
    await scene.turn()

    assert (await scene.row("e1")).connection_id == "c2"
    assert scene.sockets.closed == [(ConnectionId("c1"), Loss.SUPERSEDED)]


async def test_nothing_is_closed_before_the_row_is_written(scene: Scene) -> None:
    """An old socket stays open as long as the new one is not on record."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.connect("e1", "c2")
    scene.store.is_down = True
    with pytest.raises(StoreUnavailableError):
        await scene.turn()
    assert scene.sockets.closed == []

    scene.store.is_down = False
    await scene.turn()
    assert scene.sockets.closed == [(ConnectionId("c1"), Loss.SUPERSEDED)]


async def test_a_repeated_batch_never_closes_the_current_socket(scene: Scene) -> None:
    """After a commit of unknown outcome the same news come again, and do no harm."""
    first = scene.connect("e1", "c1")
    second = scene.connect("e1", "c2")
    await scene.turn()
    scene.monitor.connected(first)
    scene.monitor.connected(second)
    await scene.turn()

    assert (await scene.row("e1")).connection_id == "c2"
    assert (ConnectionId("c2"), Loss.SUPERSEDED) not in scene.sockets.closed


async def test_a_collision_closes_nothing_and_is_audited_once_a_minute(
    scene: Scene,
) -> None:
    """Two processes with one id both stay, and the audit log says so, not too often."""
    scene.connect("e1", "c1")
    await scene.turn()
    for number in range(2, 6):
        scene.connect("e1", f"c{number}", is_collision=True)
        await scene.turn()
        await scene.clock.advance(SECOND)
    assert (await scene.operations()).count("executor.collision") == 1

    await scene.clock.advance(60 * SECOND)
    scene.connect("e1", "c6", is_collision=True)
    await scene.turn()

    assert scene.sockets.closed == []
    assert (await scene.row("e1")).connection_id == "c6"
    assert (await scene.operations()).count("executor.collision") == 2


async def test_a_collision_that_was_not_written_is_told_when_it_can_be(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said in a transaction that failed was not said."""

    async def refuse(self: AuditLogRepository, entries: object) -> None:
        raise StoreUnavailableError("not now")

    scene.connect("e1", "c1")
    await scene.turn()
    scene.connect("e1", "c2", is_collision=True)
    with monkeypatch.context() as patch:
        patch.setattr(AuditLogRepository, "append", refuse)
        with pytest.raises(StoreUnavailableError):
            await scene.turn()
    await scene.turn()

    assert (await scene.operations()).count("executor.collision") == 1


async def test_older_connection_stays_when_its_successor_has_gone(
    scene: Scene,
) -> None:
    """The successor may end while its arrival is written; then nobody else is left."""
    scene.connect("e1", "c1")
    await scene.turn()
    scene.connect("e1", "c2")
    scene.sockets.open.pop(ConnectionId("c2"))
    await scene.turn()

    assert scene.sockets.closed == []


async def test_socket_admitted_to_a_deleted_application_is_closed(
    scene: Scene,
) -> None:
    """It was let in on a reading from before the deletion, and nobody else knows."""
    async with scene.store.write() as work:
        await work.applications.delete(APPLICATION.id)
    scene.connect("e1", "c1")
    await scene.turn()

    assert scene.sockets.closed == [(ConnectionId("c1"), Loss.DELETED)]
    assert await scene.operations() == []


async def test_news_of_a_deleted_application_are_dropped(scene: Scene) -> None:
    """What still comes from the sockets of a deleted application writes nothing."""
    scene.connect("e1", "c1")
    await scene.turn()
    async with scene.store.write() as work:
        await work.applications.delete(APPLICATION.id)
    before = await scene.operations()
    scene.lose("e1", "c1", loss=Loss.DELETED)
    scene.connect("e2", "c2")
    await scene.turn()

    assert await scene.find("e1") is None
    assert await scene.find("e2") is None
    assert await scene.operations() == before


async def test_one_batch_may_hold_a_whole_story(scene: Scene) -> None:
    """News of one executor are folded in their order, each with its audit entry."""
    scene.connect("e1", "c1")
    scene.lose("e1", "c1")
    scene.connect("e1", "c2")
    scene.lose("e1", "c1")
    writes = scene.store.writes
    await scene.turn()

    assert scene.store.writes == writes + 1
    row = await scene.row("e1")
    assert (row.status, row.connection_id, row.epoch) == (HEALTHY, "c2", 2)
    assert await scene.operations() == [
        "executor.connect",
        "executor.disconnect",
        "executor.reconnect",
    ]


async def test_transitions_are_counted_by_operation(scene: Scene) -> None:
    """Each change of a status that is certain is counted once."""
    await scene.disconnect("e1", "c1")
    await scene.disconnect("e2", "c2")

    def count(operation: str) -> float | None:
        return scene.metrics.registry.get_sample_value(
            "relay_transitions_total", {"operation": operation}
        )

    assert count("executor.connect") == 2
    assert count("executor.disconnect") == 2
    assert count("executor.dead") is None
