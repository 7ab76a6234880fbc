"""Who speaks for an executor when there are several sockets."""

from contextlib import suppress
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from websockets.exceptions import ConnectionClosed

from relay.errors import ConnectionLostError
from relay.hub.connection import Connection
from relay.hub.events import Arrival, Departure, Loss
from relay.hub.handshake import Admission
from relay.ids import (
    ApplicationId,
    ApplicationRef,
    AppName,
    ConnectionId,
    ExecutorId,
    ExecutorRef,
    OrgName,
)
from relay.protocol.messages import RecoveryRequest
from relay.testing.answers import Silence
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import ORDERS, Bench, eventually, executor_ref

ORDER = RecoveryRequest((ExecutorId("dead-1"),))
SUPERSEDED = 4000


def newest(bench: Bench) -> ConnectionId:
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    return connection.id


def supersede(bench: Bench, connection_id: ConnectionId) -> None:
    """What the monitor does when it hears of a newer connection."""
    bench.hub.close_connection(
        connection_id, Loss.SUPERSEDED, SUPERSEDED, "superseded by a newer connection"
    )


async def test_newest_connection_wins(bench: Bench) -> None:
    """The old one reads why, its requests fail, and the executor stays on line."""
    old = await bench.connect(script={"recovery": [Silence()]})
    first = bench.hub.find(executor_ref())
    assert first is not None
    asking = bench.hub.switchboard.tasks.spawn(_expect_loss(first, ORDER), name="ask")
    await old.wait_for("recovery")

    async with await bench.connect() as new:
        assert newest(bench) == bench.listener.arrivals[1].connection_id
        supersede(bench, first.id)
        await old.wait_closed()
        await asking

        assert old.close_code == SUPERSEDED
        (departure,) = bench.listener.departures
        assert departure.connection_id == first.id
        assert departure.loss is Loss.SUPERSEDED
        assert bench.hub.is_online(executor_ref())
        assert list(bench.hub.list_peers(ORDERS.id)) == [bench.hub.find(executor_ref())]
        second = bench.hub.find(executor_ref())
        assert second is not None
        assert (await second.ask(ORDER, timedelta(seconds=5))).success
        assert len(new.received("recovery")) == 1


async def _expect_loss(connection: Connection, order: RecoveryRequest) -> None:
    with pytest.raises(ConnectionLostError):
        await connection.ask(order, timedelta(seconds=60))


async def test_late_close_of_the_old_socket_names_it(bench: Bench) -> None:
    """It is told with its own connection id, and nobody else is affected."""
    old = await bench.connect()
    first = newest(bench)
    async with await bench.connect():
        old.abort()

        await eventually(lambda: bench.listener.departures)
        (departure,) = bench.listener.departures
        assert departure.connection_id == first
        assert newest(bench) != first
        assert bench.hub.is_online(executor_ref())


async def test_older_socket_speaks_again_when_the_newest_ends(bench: Bench) -> None:
    """The executor is still on line, so that its return is told and not its loss."""
    async with await bench.connect():
        first = newest(bench)
        new = await bench.connect()

        new.abort()

        await eventually(lambda: len(bench.listener.events) == 3)
        last = bench.listener.events[-1]
        assert isinstance(last, Arrival)
        assert last.connection_id == first
        assert newest(bench) == first


async def swap(bench: Bench) -> FakeExecutor:
    """Connect once more with the same id, and supersede as the monitor would."""
    before = newest(bench)
    executor = await bench.connect()
    if not bench.listener.arrivals[-1].is_collision:
        supersede(bench, before)
    return executor


async def test_three_swaps_within_half_a_minute_are_a_collision(
    bench: Bench, clock: FakeClock
) -> None:
    """Two live processes share an id: both sockets stay, the newest is asked."""
    sockets = [await bench.connect()]
    with capture_logs() as logs:
        for _ in range(5):
            sockets.append(await swap(bench))
            await clock.advance(timedelta(seconds=1))

    flags = [arrival.is_collision for arrival in bench.listener.arrivals]
    assert flags == [False, False, False, True, True, True]
    assert bench.hub.is_colliding(executor_ref())
    assert len(bench.listener.departures) == 2
    assert newest(bench) == bench.listener.arrivals[-1].connection_id
    warnings = [log for log in logs if log["event"] == "executor_ids_collided"]
    assert len(warnings) == 1
    for socket in sockets:
        socket.abort()


async def test_collision_is_said_once_a_minute(bench: Bench, clock: FakeClock) -> None:
    """However often the processes redial."""
    sockets = [await bench.connect()]
    with capture_logs() as logs:
        for _ in range(12):
            sockets.append(await swap(bench))
            for socket in sockets:
                # Those that were superseded are gone or about to go.
                with suppress(ConnectionClosed):
                    await socket.ping()
            await clock.advance(timedelta(seconds=9))

    warnings = [log for log in logs if log["event"] == "executor_ids_collided"]
    assert len(warnings) == 2
    for socket in sockets:
        socket.abort()


async def test_slow_swaps_are_no_collision(bench: Bench, clock: FakeClock) -> None:
    """A process on a bad line comes back again and again."""
    sockets = [await bench.connect()]
    for _ in range(5):
        await clock.advance(timedelta(seconds=16))
        sockets.append(await swap(bench))

    assert not any(arrival.is_collision for arrival in bench.listener.arrivals)
    sockets[-1].abort()


async def test_collision_ends_with_the_last_but_one_socket(bench: Bench) -> None:
    """Then there is one process again, and it may supersede itself."""
    first = await bench.connect()
    second = await swap(bench)
    third = await swap(bench)
    fourth = await swap(bench)
    assert bench.hub.is_colliding(executor_ref())

    fourth.abort()

    await eventually(lambda: not bench.hub.is_colliding(executor_ref()))
    assert bench.hub.is_online(executor_ref())
    last = bench.listener.events[-1]
    assert isinstance(last, Arrival)
    assert not last.is_collision
    third.abort()
    await eventually(lambda: not bench.hub.is_online(executor_ref()))
    assert isinstance(bench.listener.events[-1], Departure)
    assert first.closed.is_set()
    assert second.closed.is_set()


async def test_one_id_in_two_applications_is_two_executors(bench: Bench) -> None:
    """Ids are chosen by applications, which know nothing of each other."""
    others = ApplicationRef(ApplicationId("app-2"), OrgName("local"), AppName("others"))
    one = await bench.connect()
    bench.gatekeeper.verdict = Admission(others, None, None)
    two = await bench.connect()

    for application in (ORDERS, others):
        (peer,) = bench.hub.list_peers(application.id)
        assert peer.ref == ExecutorRef(application, executor_ref().executor_id)
        assert bench.hub.find(peer.ref) is peer

    two.abort()
    await eventually(lambda: not bench.hub.is_available(others.id))
    assert bench.hub.is_online(executor_ref())
    one.abort()


async def test_executors_of_one_application_are_listed_once_each(
    bench: Bench,
) -> None:
    """The newest socket of each, and of no other application."""
    one = await bench.connect(executor_id="e-1")
    two = await bench.connect(executor_id="e-2")
    again = await bench.connect(executor_id="e-2")

    peers = bench.hub.list_peers(ORDERS.id)

    assert sorted(peer.ref.executor_id for peer in peers) == ["e-1", "e-2"]
    assert {peer.id for peer in peers} == {
        bench.listener.arrivals[0].connection_id,
        bench.listener.arrivals[2].connection_id,
    }
    seen = bench.hub.list_last_seen()
    assert sorted(ref.executor_id for ref, _, _ in seen) == ["e-1", "e-2"]
    assert bench.hub.is_available(ORDERS.id)
    for socket in (one, two, again):
        socket.abort()
    await eventually(lambda: bench.hub.connection_count == 0)
    assert not bench.hub.is_available(ORDERS.id)
    assert bench.hub.list_last_seen() == []
