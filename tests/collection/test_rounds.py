"""Who is asked, when, for what, and what is written down."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.errors import DispatchError, ExecutorFailedError, UnknownMessageError
from relay.ids import ApplicationId, ApplicationRef, AppName, ExecutorId
from relay.protocol.statistics import GetMetricsRequest
from relay.records import MetricType
from relay.tasks import TaskSet
from relay.testing.clock import START
from tests.collection.room import ANCIENT, PERIOD, SECOND, Room
from tests.recovery.records import ORGANIZATION, SHOP
from tests.recovery.stage import FakePeer, failing, lost, silence

on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

BLOG = ApplicationRef(ApplicationId("app-blog"), ORGANIZATION, AppName("blog"))


def windows_of(*peers: FakePeer) -> list[tuple[timedelta, timedelta]]:
    """Start (since the beginning of the test) and length of all that was asked."""
    return sorted(
        (request.start - START, request.end - request.start)
        for peer in peers
        for request in peer.asked(GetMetricsRequest)
    )


def list_complaints(logs: Sequence[Mapping[str, Any]]) -> list[str]:
    return [e["reason"] for e in logs if e["event"] == "metrics_not_collected"]


async def test_each_workflow_is_counted_in_one_window(room: Room) -> None:
    """On both engines: one at a border belongs to the window that begins there."""
    peer = await room.connect("e1")
    room.create("first")
    await room.clock.advance(PERIOD)
    room.create("border")
    await room.clock.advance(5 * SECOND)
    await room.collect()
    room.create("border")
    await room.clock.advance(PERIOD)
    await room.collect()

    assert [
        (row.time_bucket, row.granularity, row.metric_name, row.value)
        for row in await room.list_rows()
    ] == [(START, PERIOD, "first", 1), (START + PERIOD, PERIOD, "border", 2)]
    assert windows_of(peer) == [(timedelta(0), PERIOD), (PERIOD, PERIOD)]


@on_sqlite
async def test_one_executor_a_round_is_asked(room: Room) -> None:
    """All of them would say the same."""
    peers = [await room.connect(name) for name in ("a", "b", "c")]

    for _ in range(4):
        await room.clock.advance(PERIOD)
        await room.collect()

    assert len(windows_of(*peers)) == 3


@on_sqlite
async def test_the_application_is_named_in_the_question(room: Room) -> None:
    """Several may share a database."""
    peer = await room.connect("e1")

    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()

    [request] = peer.asked(GetMetricsRequest)
    assert request.application == "shop"


@on_sqlite
async def test_a_window_without_anything_in_it_is_over_all_the_same(
    room: Room,
) -> None:
    """There are no rows, and the next one begins at its end."""
    peer = await room.connect("e1")

    for _ in range(2):
        await room.clock.advance(PERIOD + 5 * SECOND)
        await room.collect()

    assert await room.list_rows() == []
    assert windows_of(peer) == [(timedelta(0), PERIOD), (PERIOD, PERIOD)]


@on_sqlite
async def test_rounds_come_as_windows_close(room: Room) -> None:
    """Soon after each has settled, as long as the loop runs."""
    await room.connect("e1")
    period = 10 * SECOND
    async with TaskSet("test") as tasks:
        tasks.spawn(room.make_collection(period).run(), name="collection")
        for _ in range(4):
            room.create("checkout")
            await room.stage.pass_time(period)

    rows = await room.list_rows()
    assert [(row.granularity, row.value) for row in rows] == [(period, 1)] * 3


@on_sqlite
async def test_a_restart_goes_on_where_the_last_window_ended(room: Room) -> None:
    """What happened while Relay was away is counted, in one window."""
    peer = await room.connect("e1")
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()
    room.create("away")
    await room.clock.advance(4 * PERIOD)

    room.collection = room.make_collection()
    await room.collect()

    assert windows_of(peer) == [(timedelta(0), PERIOD), (PERIOD, 4 * PERIOD)]
    [row] = await room.list_rows()
    assert (row.metric_name, row.value, row.granularity) == ("away", 1, 4 * PERIOD)


@on_sqlite
async def test_what_happens_while_nobody_is_connected_is_asked_later(
    room: Room,
) -> None:
    """By whoever comes next."""
    peer = await room.connect("e1")
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()
    room.stage.disconnect(peer)
    for _ in range(3):
        await room.clock.advance(PERIOD)
        await room.collect()

    other = await room.connect("e2")
    await room.collect()

    assert windows_of(other) == [(PERIOD, 3 * PERIOD)]


@on_sqlite
async def test_a_question_that_failed_is_asked_again_from_the_same_beginning(
    room: Room,
) -> None:
    """Nothing is lost."""
    peer = await room.connect("e1")
    room.create("checkout")
    peer.on(GetMetricsRequest, failing(ExecutorFailedError(ExecutorId("e1"), "no")))
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()
    assert await room.list_rows() == []

    peer.on(GetMetricsRequest, room.count)
    await room.clock.advance(PERIOD)
    await room.collect()

    assert windows_of(peer) == [(timedelta(0), PERIOD), (timedelta(0), 2 * PERIOD)]
    assert [row.value for row in await room.list_rows()] == [1]


@on_sqlite
async def test_a_lost_question_goes_to_another_executor(room: Room) -> None:
    """Counting twice changes nothing."""
    for name in ("a", "b"):
        peer = await room.connect(name)
        peer.on(GetMetricsRequest, lost(name, delivered=True))
    third = await room.connect("c")

    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()

    assert windows_of(third) == [(timedelta(0), PERIOD)]


@on_sqlite
async def test_a_slow_application_holds_up_nobody_else(room: Room) -> None:
    """It is asked once, and then left alone until it has answered or given up."""
    await room.stage.add_application(BLOG)
    slow = await room.connect("slow")
    other = await room.connect("other", application=BLOG)
    slow.on(GetMetricsRequest, silence)
    period = 10 * SECOND

    async with TaskSet("test") as tasks:
        tasks.spawn(room.make_collection(period).run(), name="collection")
        await room.stage.pass_time(40 * SECOND)
        assert len(slow.requests) == 1
        assert len(other.requests) == 3

        await room.stage.pass_time(40 * SECOND)
        assert windows_of(slow)[-1] == (timedelta(0), 60 * SECOND)


@on_sqlite
async def test_executors_that_cannot_count_are_not_asked(room: Room) -> None:
    """As long as there is one that can."""
    old = [await room.connect(f"old-{n}", sdk=ANCIENT) for n in range(3)]
    modern = await room.connect("modern")

    for _ in range(2):
        await room.clock.advance(PERIOD + 5 * SECOND)
        await room.collect()

    assert [peer.requests for peer in old] == [[], [], []]
    assert len(modern.requests) == 2


@on_sqlite
async def test_an_application_that_cannot_count_is_told_of_once(room: Room) -> None:
    """Whether its version is known, or it says so itself; nobody makes up numbers."""
    await room.stage.add_application(BLOG)
    await room.connect("e1", sdk=ANCIENT)
    stranger = await room.connect("e2", application=BLOG)
    refusal = UnknownMessageError(ExecutorId("e2"), "Unknown message type")
    stranger.on(GetMetricsRequest, failing(refusal))

    with capture_logs() as logs:
        for _ in range(3):
            room.create("checkout")
            await room.clock.advance(PERIOD + 5 * SECOND)
            await room.collect()

    assert sorted(list_complaints(logs)) == [
        "executor e1 failed: the connected SDK (python 2.5.0) does not know"
        " 'get_metrics'; a newer one may",
        "executor e2 failed: Unknown message type",
    ]
    assert await room.list_rows() == []
    assert await room.list_rows(BLOG) == []


@on_sqlite
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ExecutorFailedError(ExecutorId("e1"), "invalid input: 'secret'"),
            "executor e1 failed: withheld, because the application is in private mode",
        ),
        (
            UnknownMessageError(ExecutorId("e1"), "Unknown message type"),
            "executor e1 failed: Unknown message type",
        ),
    ],
)
async def test_a_failure_of_a_private_application_is_told_without_its_words(
    room: Room, error: DispatchError, told: str
) -> None:
    """They may hold a payload."""
    peer = await room.connect("e1")
    await room.keep_private()
    peer.on(GetMetricsRequest, failing(error))

    with capture_logs() as logs:
        await room.clock.advance(PERIOD + 5 * SECOND)
        await room.collect()

    assert list_complaints(logs) == [told]
    assert "secret" not in str(logs)


@on_sqlite
async def test_a_failure_is_told_again_after_a_success(room: Room) -> None:
    """And not as long as it lasts."""
    peer = await room.connect("e1")
    failure = failing(ExecutorFailedError(ExecutorId("e1"), "disk full"))

    with capture_logs() as logs:
        for behaviour in (failure, failure, room.count, failure):
            peer.on(GetMetricsRequest, behaviour)
            await room.clock.advance(PERIOD + 5 * SECOND)
            await room.collect()

    assert list_complaints(logs) == ["executor e1 failed: disk full"] * 2


async def test_recoveries_are_counted_by_relay_itself(room: Room) -> None:
    """By executor, in the window in which they were opened, on both engines."""
    await room.connect("e1", sdk=ANCIENT)
    await room.stage.bury("dead", epoch=1)
    await room.clock.advance(PERIOD)
    await room.stage.bury("later")
    await room.clock.advance(5 * SECOND)
    await room.collect()
    await room.clock.advance(PERIOD)
    await room.collect()

    rows = await room.list_rows()
    assert [
        (row.metric_type, row.metric_name, row.value, row.granularity) for row in rows
    ] == [
        (MetricType.RECOVERIES, "dead", 1, PERIOD),
        (MetricType.RECOVERIES, "later", 1, PERIOD),
    ]


@on_sqlite
async def test_private_applications_are_counted_too(room: Room) -> None:
    """Names and numbers only."""
    peer = await room.connect("e1")
    await room.keep_private()
    room.create("checkout")

    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()

    assert len(peer.requests) == 1
    assert [row.metric_name for row in await room.list_rows()] == ["checkout"]


@on_sqlite
async def test_an_answer_for_a_deleted_application_is_dropped(room: Room) -> None:
    """It was deleted while its executor was counting."""
    peer = await room.connect("e1")

    async def count_and_vanish(request: GetMetricsRequest) -> object:
        async with room.stage.store.write() as work:
            await work.applications.delete(SHOP.id)
        room.create("checkout")
        return await room.count(request)

    peer.on(GetMetricsRequest, count_and_vanish)
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()

    assert await room.list_rows() == []


@on_sqlite
async def test_an_answer_that_was_overtaken_is_dropped(room: Room) -> None:
    """Somebody else has written that window meanwhile: nothing is counted twice."""
    await room.connect("e1")
    room.create("checkout")
    await room.clock.advance(PERIOD + 5 * SECOND)
    other = room.make_collection()

    with capture_logs() as logs:
        await room.collection.collect_now()
        await other.collect_now()
        await room.stage.settle()

    assert [row.value for row in await room.list_rows()] == [1]
    assert "collection_overtaken" in {entry["event"] for entry in logs}


@on_sqlite
async def test_a_commit_without_an_answer_counts_nothing_twice(room: Room) -> None:
    """It may have happened; the rows say whether it has."""
    peer = await room.connect("e1")
    room.create("checkout")
    await room.clock.advance(PERIOD + 5 * SECOND)
    room.stage.store.lose_next_commit()

    with capture_logs() as logs:
        await room.collect()
    await room.clock.advance(PERIOD)
    await room.collect()

    assert "collection_lost" in {entry["event"] for entry in logs}
    assert windows_of(peer) == [(timedelta(0), PERIOD), (PERIOD, PERIOD)]
    assert [row.value for row in await room.list_rows()] == [1]


@on_sqlite
async def test_rounds_are_skipped_while_the_store_is_away(room: Room) -> None:
    """And their time is counted afterwards."""
    peer = await room.connect("e1")
    period = 10 * SECOND

    async with TaskSet("test") as tasks:
        tasks.spawn(room.make_collection(period).run(), name="collection")
        room.stage.store.is_down = True
        with capture_logs() as logs:
            await room.stage.pass_time(26 * SECOND)
        room.stage.store.is_down = False
        assert peer.requests == []
        await room.stage.pass_time(period)

    assert windows_of(peer) == [(timedelta(0), 3 * period)]
    assert "collection_skipped" in {entry["event"] for entry in logs}


async def test_windows_of_a_clock_that_was_set_back_are_counted_anew(
    room: Room,
) -> None:
    """What was counted by the wrong time is replaced, on both engines."""
    await room.connect("e1")
    room.create("checkout")
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()
    async with room.stage.store.write() as work:
        [end] = (await work.metrics.find_ends([SHOP.id])).values()
        [row] = await room.list_rows()
        ahead = replace(row, time_bucket=end + PERIOD, value=99)
        assert await work.metrics.close_window(
            SHOP.id, ahead.time_bucket, end + 9 * PERIOD, [ahead], expected_end=end
        )
    room.create("checkout")

    await room.clock.advance(PERIOD)
    await room.collect()

    assert [(row.value, row.granularity) for row in await room.list_rows()] == [
        (1, PERIOD),
        (1, PERIOD),
    ]


async def test_windows_around_two_jumps_of_the_clock_do_not_overlap(room: Room) -> None:
    """Six hours ahead and back: all of it is counted once, on both engines."""
    await room.connect("e1")
    room.create("before")
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()
    room.clock.jump(timedelta(hours=6))
    room.create("ahead")
    await room.clock.advance(PERIOD)
    await room.collect()
    room.clock.jump(-timedelta(hours=6))
    room.create("after")

    await room.clock.advance(PERIOD)
    await room.collect()

    assert [
        (row.metric_name, row.time_bucket - START, row.granularity)
        for row in await room.list_rows()
    ] == [("before", timedelta(0), PERIOD), ("after", PERIOD, 2 * PERIOD)]


@on_sqlite
async def test_questions_are_counted_by_outcome(room: Room) -> None:
    """In Relay's own figures."""
    await room.connect("e1")
    await room.clock.advance(PERIOD + 5 * SECOND)
    await room.collect()

    read = room.stage.metrics.registry.get_sample_value
    assert read("relay_collections_total", {"outcome": "taken"}) == 1
