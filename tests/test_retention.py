"""Retention: from the settings of an application to the frame, and who gets it."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.db import Database
from relay.errors import ExecutorFailedError, UnknownMessageError
from relay.ids import ApplicationId, ApplicationRef, AppName, ExecutorId, RequestId
from relay.protocol.envelope import encode
from relay.protocol.messages import (
    Acknowledgement,
    ListWorkflowsRequest,
    RetentionRequest,
)
from relay.protocol.sdk import Sdk
from relay.records import ApplicationRecord, AuditEntry
from relay.retention import Retention, make_request
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from tests.recovery.records import (
    ORGANIZATION,
    SHOP,
    V1,
    make_application,
    make_settings,
)
from tests.recovery.stage import (
    Stage,
    failing,
    lost,
    replying,
    silence,
    summary,
)

on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

BLOG = ApplicationRef(ApplicationId("app-blog"), ORGANIZATION, AppName("blog"))
OLD_PYTHON = Sdk("python", "2.31.1")
HOUR = timedelta(hours=1)


def settings_of(
    ref: ApplicationRef = SHOP,
    *,
    age: timedelta | None = None,
    rows: int | None = None,
    overdue: timedelta | None = None,
) -> ApplicationRecord:
    return replace(
        make_application(ref),
        gc_time_threshold=age,
        gc_rows_threshold=rows,
        global_timeout=overdue,
    )


def frame_of(application: ApplicationRecord, now: datetime) -> dict[str, Any]:
    request = make_request(application, now)
    assert request is not None
    frame: dict[str, Any] = json.loads(encode(request, RequestId("r-1")))
    return frame


# --- from the settings to the frame --------------------------------------------------


def test_frame_holds_cut_offs_in_milliseconds() -> None:
    """Now minus each setting, since 1970; the batch size is always the same."""
    now = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
    now_ms = 1767323045678
    application = settings_of(
        age=timedelta(days=30), rows=5000, overdue=timedelta(hours=2)
    )

    frame = frame_of(application, now)

    assert frame == {
        "type": "retention",
        "request_id": "r-1",
        "body": {
            "gc_cutoff_epoch_ms": now_ms - 30 * 24 * 60 * 60 * 1000,
            "gc_rows_threshold": 5000,
            "timeout_cutoff_epoch_ms": now_ms - 2 * 60 * 60 * 1000,
            "gc_batch_size": 10000,
        },
    }


def test_one_millisecond_is_one_millisecond() -> None:
    """Nothing on the way counts in seconds."""
    now = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    millisecond = timedelta(milliseconds=1)

    body = frame_of(settings_of(age=millisecond, overdue=2 * millisecond), now)["body"]

    assert body["gc_cutoff_epoch_ms"] == 999
    assert body["timeout_cutoff_epoch_ms"] == 998


@pytest.mark.parametrize(
    ("application", "key"),
    [
        (settings_of(age=HOUR), "gc_cutoff_epoch_ms"),
        (settings_of(rows=1), "gc_rows_threshold"),
        (settings_of(overdue=HOUR), "timeout_cutoff_epoch_ms"),
    ],
)
def test_three_keys_are_always_there(application: ApplicationRecord, key: str) -> None:
    """Python fails without one; what is off is null."""
    body = frame_of(application, datetime(2026, 1, 1, tzinfo=UTC))["body"]

    keys = {"gc_cutoff_epoch_ms", "gc_rows_threshold", "timeout_cutoff_epoch_ms"}
    assert keys <= body.keys()
    assert {k for k in keys if body[k] is not None} == {key}


@pytest.mark.parametrize(
    "application",
    [settings_of(), settings_of(age=timedelta(0), rows=0, overdue=timedelta(0))],
)
def test_nothing_is_sent_when_all_is_off(application: ApplicationRecord) -> None:
    """Zero is off like null: "keep nothing" is never meant."""
    assert make_request(application, datetime(2026, 1, 1, tzinfo=UTC)) is None


# --- who gets it, and when -----------------------------------------------------------


class Room:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.retention = Retention(
            store=stage.store,
            audit=stage.audit,
            dispatcher=stage.dispatcher,
            peers=stage.peers,
            settings=make_settings(retention_interval_secs=300),
            clock=stage.clock,
            metrics=stage.metrics,
            jitter=lambda: 0.5,
        )

    async def set(self, application: ApplicationRecord) -> None:
        async with self.stage.store.write() as work:
            if not await work.applications.update(application):
                await work.applications.insert(application)

    async def dispatch(self) -> None:
        await self.retention.dispatch_now()
        await self.stage.settle()

    async def list_entries(self, operation: str) -> list[AuditEntry]:
        async with self.stage.store.read() as work:
            records = await work.audit.list_entries(
                ORGANIZATION, operation=operation, limit=100
            )
        return [record.entry for record in records]


@pytest.fixture
async def room(database: Database, clock: FakeClock) -> Any:
    async with Stage(database, clock) as stage:
        room = Room(stage)
        await room.set(settings_of(age=HOUR))
        yield room


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


# --- two applications on one database ------------------------------------------------


@on_sqlite
async def test_shared_database_is_told_once(room: Room) -> None:
    """A connected executor of the other application owns workflows seen from here."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer")
    room.stage.connect("blogger", application=BLOG)
    rows = (summary("w-1", ExecutorId("blogger")),)
    peer.on(ListWorkflowsRequest, replying(rows))

    for _ in range(3):
        await room.dispatch()

    [entry] = await room.list_entries("retention.shared_database")
    assert entry.details["application_name"] == "shop"
    assert entry.details["shared_with"] == "blog"
    assert len(peer.asked(ListWorkflowsRequest)) == 1


@on_sqlite
async def test_databases_of_their_own_are_not_told(room: Room) -> None:
    """No row of the other application's executors, no warning."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer")
    room.stage.connect("blogger", application=BLOG)

    for _ in range(3):
        await room.dispatch()

    assert await room.list_entries("retention.shared_database") == []
    assert peer.asked(ListWorkflowsRequest)[0] == ListWorkflowsRequest(
        (ExecutorId("blogger"),), (), (), 1, BLOG.name
    )


@on_sqlite
async def test_neighbours_are_not_sought_where_retention_keeps_to_itself(
    room: Room,
) -> None:
    """These SDKs delete history of their own application only."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer", V1, sdk=OLD_PYTHON)
    room.stage.connect("blogger", application=BLOG)

    await room.dispatch()

    assert peer.asked(ListWorkflowsRequest) == []


@on_sqlite
async def test_failing_search_for_neighbours_is_no_failure(room: Room) -> None:
    """It is a courtesy."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer")
    room.stage.connect("blogger", application=BLOG)
    peer.on(ListWorkflowsRequest, lost("peer", delivered=True))

    await room.dispatch()

    assert await room.list_entries("retention.fail") == []


async def has_requests(peer: Any, number: int) -> bool:
    return len(peer.asked(RetentionRequest)) >= number
