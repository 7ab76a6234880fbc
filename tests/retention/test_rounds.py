"""Who gets the message of an application, and when."""

from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.errors import ExecutorFailedError, UnknownMessageError
from relay.ids import ExecutorId
from relay.protocol.messages import (
    Acknowledgement,
    RetentionRequest,
)
from relay.tasks import TaskSet
from tests.recovery.stage import (
    failing,
    lost,
    replying,
    silence,
)
from tests.retention.room import BLOG, HOUR, OLD_PYTHON, Room, on_sqlite, settings_of


async def has_requests(peer: Any, number: int) -> bool:
    return len(peer.asked(RetentionRequest)) >= number


@on_sqlite
async def test_cut_off_is_counted_from_the_databases_clock(room: Room) -> None:
    """One message, one hour back."""
    peer = room.stage.connect("peer")

    await room.dispatch()

    assert peer.requests == [
        RetentionRequest(
            gc_cutoff=room.stage.clock.now() - HOUR,
            gc_rows_threshold=None,
            timeout_cutoff=None,
        )
    ]


@on_sqlite
async def test_application_without_thresholds_is_left_alone(room: Room) -> None:
    """Its executors hear nothing."""
    await room.set(settings_of())
    peer = room.stage.connect("peer")

    await room.dispatch()

    assert peer.requests == []


@on_sqlite
async def test_executors_take_turns(room: Room) -> None:
    """One message a round, and each executor one in three rounds."""
    peers = [room.stage.connect(name) for name in ("a", "b", "c")]

    counts = []
    for _ in range(6):
        await room.dispatch()
        counts.append([len(p.asked(RetentionRequest)) for p in peers])

    assert [sum(count) for count in counts] == [1, 2, 3, 4, 5, 6]
    assert counts[2] == [1, 1, 1]
    assert counts[5] == [2, 2, 2]


@on_sqlite
async def test_failing_executor_does_not_keep_its_turn(room: Room) -> None:
    """The next round goes to the other one."""
    failure = ExecutorFailedError(ExecutorId("bad"), "disk full")
    bad, good = room.stage.connect("bad"), room.stage.connect("good")
    bad.on(RetentionRequest, failing(failure))

    for _ in range(4):
        await room.dispatch()

    assert len(bad.asked(RetentionRequest)) == 2
    assert len(good.asked(RetentionRequest)) == 2


@on_sqlite
async def test_rounds_come_at_the_interval(room: Room) -> None:
    """The first after one interval, not at the start."""
    peer = room.stage.connect("peer")

    async with TaskSet("test") as tasks:
        tasks.spawn(room.retention.run(), name="retention")
        await room.stage.pass_time(timedelta(seconds=299))
        assert peer.requests == []
        await room.stage.pass_time(timedelta(seconds=302))
        assert len(peer.requests) == 2


@on_sqlite
async def test_unanswered_message_is_not_repeated(room: Room) -> None:
    """An older Python works on it for minutes; other applications go on."""
    await room.set(settings_of(BLOG, rows=100))
    slow = room.stage.connect("slow", sdk=OLD_PYTHON)
    slow.on(RetentionRequest, silence)
    other = room.stage.connect("other", application=BLOG, sdk=OLD_PYTHON)

    async with TaskSet("test") as tasks:
        tasks.spawn(room.retention.run(), name="retention")
        await room.stage.run_until(
            lambda: has_requests(other, 3), step=timedelta(seconds=10), within=HOUR
        )

        assert len(slow.requests) == 1


@on_sqlite
async def test_message_is_given_up_after_half_an_hour(room: Room) -> None:
    """Then the application is served again, and the failure is told."""
    slow = room.stage.connect("slow", sdk=OLD_PYTHON)
    slow.on(RetentionRequest, silence)

    async with TaskSet("test") as tasks:
        tasks.spawn(room.retention.run(), name="retention")
        took = await room.stage.run_until(
            lambda: has_requests(slow, 2), step=timedelta(seconds=10), within=2 * HOUR
        )

    assert timedelta(minutes=30) <= took <= timedelta(minutes=45)
    [entry] = await room.list_entries("retention.fail")
    assert entry.details["reason"] == "did not answer within 1800 s"


@on_sqlite
async def test_same_failure_is_told_once(room: Room) -> None:
    """Whoever fails; another reason, or a failure after a success, is news."""
    peers = [room.stage.connect("a"), room.stage.connect("b")]

    async def fail(reason: str) -> None:
        for peer in peers:
            error = ExecutorFailedError(peer.ref.executor_id, reason)
            peer.on(RetentionRequest, failing(error))
        for _ in range(3):
            await room.dispatch()

    await fail("disk full")
    await fail("no table")
    for peer in peers:
        peer.behaviours.clear()
    await room.dispatch()
    await fail("no table")

    entries = await room.list_entries("retention.fail")
    assert [e.details["reason"] for e in entries] == [
        "failed: no table",
        "failed: no table",
        "failed: disk full",
    ]
    assert {e.details["application_name"] for e in entries} == {"shop"}


@on_sqlite
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            UnknownMessageError(ExecutorId("peer"), "Unknown message type"),
            "failed: Unknown message type",
        ),
        (None, "did not succeed, and gave no reason"),
    ],
)
async def test_refusals_are_failures(
    room: Room, error: Exception | None, reason: str
) -> None:
    """An SDK without retention, and a bare no."""
    peer = room.stage.connect("peer")
    no = replying(Acknowledgement(success=False))
    peer.on(RetentionRequest, failing(error) if error else no)

    await room.dispatch()

    [entry] = await room.list_entries("retention.fail")
    assert entry.details["reason"] == reason
    assert entry.details["executor_id"] == "peer"


@on_sqlite
async def test_nobody_connected_is_no_failure(room: Room) -> None:
    """It is counted, and that is all."""
    await room.dispatch()

    assert await room.list_entries("retention.fail") == []
    read = room.stage.metrics.registry.get_sample_value
    assert read("relay_retentions_total", {"outcome": "nobody"}) == 1


@on_sqlite
async def test_lost_message_goes_to_the_next_executor(room: Room) -> None:
    """Deleting old history twice harms nobody."""
    room.stage.connect("a").on(RetentionRequest, lost("a", delivered=True))
    room.stage.connect("b").on(RetentionRequest, lost("b", delivered=True))
    third = room.stage.connect("c")

    await room.dispatch()

    assert len(third.asked(RetentionRequest)) == 1
    assert await room.list_entries("retention.fail") == []


@on_sqlite
async def test_round_is_skipped_while_the_store_is_away(room: Room) -> None:
    """And the next one comes at its time."""
    peer = room.stage.connect("peer")

    async with TaskSet("test") as tasks:
        tasks.spawn(room.retention.run(), name="retention")
        room.stage.store.is_down = True
        with capture_logs() as logs:
            await room.stage.pass_time(timedelta(seconds=310))
        room.stage.store.is_down = False
        assert peer.requests == []
        await room.stage.pass_time(timedelta(seconds=300))
        assert len(peer.requests) == 1

    assert "retention_skipped" in {entry["event"] for entry in logs}


@on_sqlite
async def test_failure_that_could_not_be_told_is_told_later(room: Room) -> None:
    """The store was away when the answer came."""
    peer = room.stage.connect("peer")

    async def fail_during_outage(_: object) -> object:
        room.stage.store.is_down = True
        raise ExecutorFailedError(ExecutorId("peer"), "disk full")

    peer.on(RetentionRequest, fail_during_outage)
    await room.dispatch()
    room.stage.store.is_down = False
    peer.on(RetentionRequest, failing(ExecutorFailedError(ExecutorId("peer"), "no")))
    await room.dispatch()

    assert len(await room.list_entries("retention.fail")) == 1
