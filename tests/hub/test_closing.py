"""Connections that Relay ends on purpose."""

import asyncio
from datetime import timedelta

import pytest

from relay.errors import ConnectionLostError
from relay.hub.events import Departure, Loss
from relay.hub.handshake import Admission
from relay.hub.hub import Hub
from relay.hub.switchboard import CLOSE_LIMIT
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    ConnectionId,
    KeyId,
    KeyName,
    OrgName,
)
from relay.settings import RelaySettings
from relay.tasks import TaskSet
from relay.telemetry import Metrics
from relay.testing.answers import Silence
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import ADMITTED, ORDERS, Bench, eventually, executor_ref
from tests.hub.paper import PaperLink, count_by_turn
from tests.hub.test_frames import PaddingRequest

OTHER = ApplicationRef(ApplicationId("app-2"), OrgName("local"), AppName("stock"))
WITHIN = timedelta(seconds=10)


async def test_deleted_application_loses_its_sockets(bench: Bench) -> None:
    """Those in handshake too; the executors of others stay."""
    mine = await bench.connect(executor_id="e-1")
    shy = await FakeExecutor.connect(bench.url, script={"executor_info": [Silence()]})
    await shy.wait_for("executor_info")
    bench.gatekeeper.verdict = Admission(OTHER, None, None)
    async with await bench.connect(executor_id="e-2"):
        await bench.hub.close_application(ORDERS.id, "the application was deleted")

        await mine.wait_closed()
        await shy.wait_closed()
        assert mine.close_code == shy.close_code == 1008
        assert mine.close_reason == "the application was deleted"
        assert [departure.loss for departure in bench.listener.departures] == [
            Loss.DELETED
        ]
        assert bench.hub.is_available(OTHER.id)
        assert not bench.hub.is_available(ORDERS.id)


async def test_revoked_key_loses_its_sockets(bench: Bench) -> None:
    """Those opened with other keys stay."""
    mine = await bench.connect(executor_id="e-1")
    bench.gatekeeper.verdict = Admission(ORDERS, KeyId("key-2"), KeyName("spare"))
    async with await bench.connect(executor_id="e-2"):
        assert ADMITTED.key_id is not None
        await bench.hub.close_keys({ADMITTED.key_id}, "the key was revoked")

        await mine.wait_closed()
        assert mine.close_code == 1008
        (departure,) = bench.listener.departures
        assert departure.loss is Loss.REVOKED
        assert departure.ref == executor_ref("e-1")
        assert departure.is_fault
        assert bench.hub.is_online(executor_ref("e-2"))


async def test_closing_what_is_gone_changes_nothing(bench: Bench) -> None:
    """A late decision about a connection finds it ended, or unknown."""
    executor = await bench.connect()
    connection_id = bench.listener.arrivals[0].connection_id
    executor.abort()
    await eventually(lambda: bench.listener.departures)

    for gone in (connection_id, ConnectionId("never was")):
        bench.hub.close_connection(gone, Loss.SUPERSEDED, 4000, "late")

    assert len(bench.listener.events) == 2


async def test_connection_leaves_in_the_turn_of_its_closing(bench: Bench) -> None:
    """It is not asked any more while its peer still answers the close frame."""
    executor = await bench.connect()
    connection = bench.hub.find(executor_ref())
    assert connection is not None

    bench.hub.close_connection(connection.id, Loss.SUPERSEDED, 4000, "x" * 500)

    assert not bench.hub.is_online(executor_ref())
    assert len(bench.listener.departures) == 1
    with pytest.raises(ConnectionLostError):
        await connection.ask(PaddingRequest(), WITHIN)
    await executor.wait_closed()
    assert executor.close_reason == "x" * 123


async def test_peer_that_does_not_answer_a_close_is_aborted(
    bench: Bench, clock: FakeClock
) -> None:
    """The closing handshake has a limit."""
    executor = await bench.connect()
    executor.stop_reading()
    bench.hub.close_connection(
        bench.listener.arrivals[0].connection_id, Loss.SUPERSEDED, 4000, ""
    )
    await eventually(lambda: bench.hub.connection_count == 0)
    assert bench.server.server_state.connections

    await clock.advance(CLOSE_LIMIT + timedelta(seconds=1))

    await eventually(lambda: not bench.server.server_state.connections)
    assert len(bench.listener.departures) == 1
    executor.abort()


async def test_nothing_is_read_any_more_after_the_drain(bench: Bench) -> None:
    """Or the process would end only when all large messages have been read."""
    await bench.hub.drain(WITHIN)

    assert bench.hub.switchboard.reader.submit(print).cancelled()


async def test_drain_closes_five_hundred_sockets(bench: Bench) -> None:
    """All of them read 1012 within the limit, and it returns when they are gone."""
    executors = [
        await FakeExecutor.connect(bench.url, executor_id=f"e-{number}")
        for number in range(500)
    ]
    await eventually(lambda: len(bench.listener.arrivals) == 500)

    await bench.hub.drain(WITHIN)

    assert bench.hub.connection_count == 0
    assert not bench.server.server_state.connections
    departures = bench.listener.departures
    assert {departure.loss for departure in departures} == {Loss.DRAINED}
    assert len({departure.ref for departure in departures}) == 500
    assert all(departure.is_fault for departure in departures)
    for executor in executors:
        await executor.wait_closed()
        assert executor.close_code == 1012


async def test_a_crowd_is_closed_in_portions(clock: FakeClock) -> None:
    """A stop, a deletion and a revocation leave the loop to others meanwhile."""
    hub = Hub(settings=RelaySettings(), clock=clock, metrics=Metrics())
    links = [PaperLink() for _ in range(350)]
    for link in links:
        hub.switchboard.accept(link, ADMITTED, "")
    portions: list[int] = []

    def count_closings() -> int:
        return sum(link.closings for link in links)

    async with TaskSet("count") as tasks:
        tasks.spawn(count_by_turn(count_closings, portions, clock), name="count")
        await clock.settle()
        await hub.close_application(ORDERS.id, "deleted")
        await clock.settle()

    assert sum(portions) == len(links)
    assert max(portions) <= 100


async def test_drain_aborts_who_does_not_go(bench: Bench, clock: FakeClock) -> None:
    """A peer that reads nothing does not hold the stop up."""
    executor = await bench.connect()
    executor.stop_reading()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.hub.drain(timedelta(seconds=2)))
        await eventually(lambda: bench.listener.departures)

        await clock.advance(timedelta(seconds=2))

    await eventually(lambda: not bench.server.server_state.connections)
    executor.abort()


async def test_drain_of_an_empty_hub_returns(bench: Bench) -> None:
    """There is nothing to wait for; and it may be repeated."""
    await bench.hub.drain(WITHIN)
    await bench.hub.drain(WITHIN)

    assert bench.listener.events == []


async def test_failing_listener_does_not_keep_sockets_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the peer and the askers need is done all the same."""

    def fail(departure: Departure) -> None:
        raise RuntimeError("a defect")

    executor = await bench.connect()
    monkeypatch.setattr(bench.listener, "lost", fail)

    bench.hub.close_connection(
        bench.listener.arrivals[0].connection_id, Loss.SUPERSEDED, 4000, "bye"
    )

    await executor.wait_closed()
    assert executor.close_code == 4000
    assert bench.hub.connection_count == 0
