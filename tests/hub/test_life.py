"""Signs of life, and what their absence means."""

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from websockets.frames import Frame, Opcode

from relay.clock import SystemClock
from relay.errors import ConnectionLostError
from relay.hub.events import Loss
from relay.hub.switchboard import SLOW_READER_LIMIT
from relay.ids import ApplicationId, AppName, ExecutorId
from relay.protocol.messages import RecoveryRequest
from relay.testing.answers import Answer, Failure, Reply, Silence, WrongType
from relay.testing.clock import START, FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import Bench, eventually, executor_ref, open_bench
from tests.hub.test_frames import PaddingRequest

ORDER = RecoveryRequest((ExecutorId("dead-1"),))
SECOND = timedelta(seconds=1)


def last_seen(bench: Bench) -> datetime | None:
    """When the only executor was last heard of; `None` when it is off line."""
    connection = bench.hub.find(executor_ref())
    return connection.last_seen_at if connection else None


async def test_silent_peer_is_given_up_after_25_seconds(
    bench: Bench, clock: FakeClock
) -> None:
    """Not a moment earlier; the socket is gone with it, and it is no fault."""
    executor = await bench.connect()
    executor.stop_reading()
    await clock.advance(25 * SECOND - timedelta(milliseconds=10))
    assert bench.hub.is_online(executor_ref())

    await clock.advance(timedelta(milliseconds=20))

    (departure,) = bench.listener.departures
    assert departure.loss is Loss.SILENT
    assert departure.at - START == pytest.approx(25 * SECOND, abs=SECOND / 100)
    assert departure.last_seen_at == START
    assert departure.close_code is None
    assert not departure.is_fault
    assert not bench.hub.is_online(executor_ref())
    await eventually(lambda: not bench.server.server_state.connections)
    executor.go_on_reading()
    await executor.wait_closed()
    assert executor.close_code == 1006


async def test_bytes_after_the_deadline_change_nothing(
    bench: Bench, clock: FakeClock
) -> None:
    """No departed executor comes back to life on its old socket."""
    executor = await bench.connect()
    executor.stop_reading()
    await clock.advance(26 * SECOND)

    executor.write(Frame(Opcode.PING, b"late").serialize(mask=True))

    await eventually(lambda: not bench.server.server_state.connections)
    assert len(bench.listener.events) == 2
    assert last_seen(bench) is None
    executor.abort()


async def test_request_to_a_silent_peer_fails_with_it(
    bench: Bench, clock: FakeClock
) -> None:
    """The asker does not wait longer than the executor is believed in."""
    executor = await bench.connect()
    executor.stop_reading()
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    asking = bench.hub.switchboard.tasks.spawn(
        _expect_loss(connection.ask(ORDER, timedelta(minutes=5))), name="ask"
    )

    await clock.advance(26 * SECOND)

    await asking
    executor.abort()


async def _expect_loss(asking: object) -> None:
    with pytest.raises(ConnectionLostError):
        await asking  # type: ignore[misc]  # a coroutine that must fail


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG, Opcode.TEXT])
async def test_frame_of_any_kind_is_life(
    bench: Bench, clock: FakeClock, opcode: Opcode
) -> None:
    """A peer that sends one every 20 s stays, though it answers nothing."""
    executor = await bench.connect()
    executor.stop_reading()
    for _ in range(5):
        await clock.advance(20 * SECOND)
        executor.write(Frame(opcode, b"{}").serialize(mask=True))
        await eventually(lambda: last_seen(bench) == clock.now())

    assert bench.listener.departures == []
    executor.abort()


async def test_bytes_of_an_unfinished_frame_are_life(
    bench: Bench, clock: FakeClock
) -> None:
    """A large reply over a slow line is one frame of a minute, with no ping inside."""
    executor = await bench.connect()
    frame = Frame(Opcode.TEXT, b"x" * 5_000_000).serialize(mask=True)
    executor.stop_reading()
    for part in range(5):
        await clock.advance(20 * SECOND)
        executor.write(frame[part * 1000 : (part + 1) * 1000])
        await eventually(lambda: last_seen(bench) == clock.now())

    assert bench.listener.departures == []
    executor.abort()


async def test_quiet_peer_is_pinged_after_half_an_interval(
    bench: Bench, clock: FakeClock
) -> None:
    """Its pong is life, halfway between its own pings."""
    async with await bench.connect():
        await clock.advance(9 * SECOND)
        assert last_seen(bench) == START

        await clock.advance(2 * SECOND)

        await eventually(lambda: last_seen(bench) != START)
        seen = last_seen(bench)
        assert seen is not None
        assert seen - START == pytest.approx(10 * SECOND, abs=SECOND / 2)


async def pass_time(bench: Bench, clock: FakeClock, seconds: int) -> timedelta:
    """Let time pass in steps, pongs travelling; the longest silence in it."""
    longest = timedelta(0)
    for _ in range(seconds * 4):
        await clock.advance(SECOND / 4)
        # Real turns of the loop, in which the kernel carries ping and pong.
        await SystemClock().sleep(timedelta(milliseconds=1))
        seen = last_seen(bench)
        assert seen is not None
        longest = max(longest, clock.now() - seen)
    return longest


async def test_life_is_seen_twice_an_interval_beside_the_pings_of_a_peer(
    bench: Bench, clock: FakeClock
) -> None:
    """The phase holds: one packet may be lost without using up the slack."""
    async with await bench.connect() as executor:
        for _ in range(6):
            await executor.ping()

            assert await pass_time(bench, clock, 20) < 12 * SECOND


async def test_peer_that_never_pings_stays_by_its_pongs(
    bench: Bench, clock: FakeClock
) -> None:
    """A Go executor that drains sends no pings any more, for minutes."""
    async with await bench.connect():
        assert await pass_time(bench, clock, 100) < 21 * SECOND


@pytest.mark.parametrize("stall", [2 * SECOND, 10 * SECOND])
async def test_stall_of_our_own_makes_the_loss_a_fault(
    bench: Bench, clock: FakeClock, stall: timedelta
) -> None:
    """After standing still Relay cannot tell who was silent, and says so."""
    executor = await bench.connect()
    executor.stop_reading()
    await clock.advance(24.5 * SECOND)

    # Time passes at once for everybody, as it does while the loop is blocked.
    clock._move_to(clock.now() + stall)
    await clock.advance(timedelta(0))

    await eventually(lambda: bench.listener.departures)
    (departure,) = bench.listener.departures
    assert departure.loss is Loss.SILENT
    assert departure.is_fault
    assert bench.hub.switchboard.pulse.longest_stall >= stall - SECOND
    assert bench.sample("relay_loop_stall_seconds_max") >= stall / SECOND - 1
    executor.abort()


@pytest.mark.parametrize("after", [0 * SECOND, 4 * SECOND])
async def test_peer_that_hangs_up_over_a_stall_of_ours_is_not_to_blame(
    bench: Bench, clock: FakeClock, after: timedelta
) -> None:
    """It got no pong; its going may be read before the watch knows of the stall."""
    executor = await bench.connect()
    await clock.advance(SECOND)
    clock._move_to(clock.now() + 20 * SECOND)
    if after:
        await clock.advance(after)

    executor.abort()

    await eventually(lambda: bench.listener.departures)
    (departure,) = bench.listener.departures
    assert departure.loss is Loss.RESET
    assert departure.is_fault


async def test_doubt_about_a_stall_ends(bench: Bench, clock: FakeClock) -> None:
    """Whoever goes later goes for reasons of its own; a short stall is no reason."""
    executor = await bench.connect()
    await clock.advance(SECOND)
    clock._move_to(clock.now() + 20 * SECOND)
    await clock.advance(6 * SECOND)
    clock._move_to(clock.now() + 3 * SECOND)

    executor.abort()

    await eventually(lambda: bench.listener.departures)
    assert not bench.listener.departures[0].is_fault


async def test_peer_that_does_not_read_is_cut(bench: Bench, clock: FakeClock) -> None:
    """Its pings do not save it: what is written to it would pile up without end."""
    executor = await bench.connect(script={"padding": [Silence()]})
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    executor.stop_reading()
    asking = bench.hub.switchboard.tasks.spawn(
        _expect_loss(connection.ask(PaddingRequest("x" * 16_000_000), 60 * SECOND)),
        name="ask",
    )
    await eventually(lambda: connection.link and not connection.link.is_writable)
    for _ in range(4):
        # The kernel takes in what it can before nothing moves any more.
        await eventually(lambda: True)
    await clock.advance(SLOW_READER_LIMIT / 2)
    executor.write(Frame(Opcode.PING, b"alive").serialize(mask=True))
    await eventually(lambda: last_seen(bench) == clock.now())

    await clock.advance(2 * SLOW_READER_LIMIT)

    await asking
    (departure,) = bench.listener.departures
    assert departure.loss is Loss.SLOW_READER
    executor.abort()


async def test_peer_that_reads_slowly_is_not_cut(
    bench: Bench, clock: FakeClock
) -> None:
    """As long as the pile shrinks, a large request takes the time it takes."""
    executor = await bench.connect(script={"padding": [Silence()]})
    connection = bench.hub.find(executor_ref())
    assert connection is not None
    link = connection.link
    assert link is not None
    executor.stop_reading()
    bench.hub.switchboard.tasks.spawn(
        _expect_loss(connection.ask(PaddingRequest("x" * 32_000_000), 600 * SECOND)),
        name="ask",
    )
    await eventually(lambda: not link.is_writable)
    for _ in range(4):
        unread = link.unread_bytes
        executor.go_on_reading()

        def has_read_on(before: int = unread) -> bool:
            return link.unread_bytes < before

        await eventually(has_read_on)
        executor.stop_reading()
        await clock.advance(SLOW_READER_LIMIT)
        executor.write(Frame(Opcode.PONG, b"").serialize(mask=True))

    assert bench.listener.departures == []
    executor.abort()
    await eventually(lambda: bench.listener.departures)


async def test_flood_of_pings_by_a_peer_that_does_not_read_is_cut(
    bench: Bench,
) -> None:
    """Without waiting: the answers pile up as fast as it likes."""
    executor = await bench.connect()
    executor.stop_reading()
    flood = Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 10_000

    for _ in range(40):
        executor.write(flood)
        await eventually(lambda: True)
        if bench.listener.departures:
            break
    await eventually(lambda: bench.listener.departures)

    assert bench.listener.departures[0].loss is Loss.SLOW_READER
    executor.abort()


async def test_executor_that_does_not_say_who_it_is_is_closed(
    bench: Bench, clock: FakeClock
) -> None:
    """After the handshake time-out, with a reason, and nobody is told of it."""
    executor = await FakeExecutor.connect(
        bench.url, script={"executor_info": [Silence()]}
    )
    await executor.wait_for("executor_info")
    orders = executor_ref().application
    assert bench.hub.is_handshaking(orders)
    others = replace(orders, id=ApplicationId("others"), name=AppName("others"))
    assert not bench.hub.is_handshaking(others)
    assert bench.hub.is_anybody_arriving(orders)
    assert not bench.hub.is_anybody_arriving(others)
    assert bench.hub.connection_count == 1
    assert not bench.hub.list_peers(executor_ref().application.id)

    await clock.advance(10 * SECOND)

    await executor.wait_closed()
    assert executor.close_code == 1008
    assert "10 s" in (executor.close_reason or "")
    assert bench.listener.events == []
    assert not bench.hub.is_handshaking(executor_ref().application)
    assert not bench.hub.is_anybody_arriving(orders)
    assert bench.sample("relay_handshakes_failed_total") == 1


async def test_silence_counts_from_the_upgrade_on(clock: FakeClock) -> None:
    """Whoever may take long to introduce itself may not be silent for longer."""
    async with open_bench(clock=clock, handshake_timeout_secs=60) as bench:
        executor = await FakeExecutor.connect(
            bench.url, script={"executor_info": [Silence()]}
        )
        await executor.wait_for("executor_info")
        executor.stop_reading()
        assert bench.hub.connection_count == 1

        await clock.advance(25 * SECOND)

        await eventually(lambda: not bench.server.server_state.connections)
        assert bench.sample("relay_disconnects_total", reason="silent") == 1
        executor.abort()


async def test_socket_lost_in_its_handshake_is_told_to_nobody(bench: Bench) -> None:
    """It was never on line."""
    executor = await FakeExecutor.connect(
        bench.url, script={"executor_info": [Silence()]}
    )
    await executor.wait_for("executor_info")

    executor.abort()

    await eventually(lambda: bench.hub.connection_count == 0)
    assert bench.listener.events == []
    assert not bench.hub.is_handshaking(executor_ref().application)


async def test_socket_lost_with_its_introduction_is_told_to_nobody(
    bench: Bench,
) -> None:
    """It said who it is and closed, in one packet: it was never on line."""
    executor = await FakeExecutor.connect(
        bench.url, script={"executor_info": [Silence()]}
    )
    asked = await executor.wait_for("executor_info")
    introduction = json.dumps({**asked, **executor.info}).encode()

    executor.write(
        Frame(Opcode.TEXT, introduction).serialize(mask=True)
        + Frame(Opcode.CLOSE, b"").serialize(mask=True)
    )

    await executor.wait_closed()
    await eventually(lambda: not bench.hub.switchboard.links)
    assert bench.listener.events == []
    assert not bench.hub.list_peers(executor_ref().application.id)
    assert not bench.hub.is_handshaking(executor_ref().application)


@pytest.mark.parametrize(
    "answer", [Failure("no"), Reply({"application_version": "v1"}), WrongType()]
)
async def test_unusable_introduction_is_closed_with_a_reason(
    bench: Bench, answer: Answer
) -> None:
    """Without an executor id nobody knows whose work to recover."""
    executor = await FakeExecutor.connect(bench.url, script={"executor_info": [answer]})

    await executor.wait_closed()

    assert executor.close_code == 1008
    assert (executor.close_reason or "").startswith("handshake: ")
    assert bench.listener.events == []
