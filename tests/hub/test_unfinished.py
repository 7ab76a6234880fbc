"""All messages that are still arriving, together."""

import asyncio
from datetime import timedelta

import pytest
from websockets.frames import Frame, Opcode

from relay.errors import ConnectionLostError
from relay.hub.events import Loss
from relay.hub.unfinished import Unfinished
from relay.protocol.messages import ExecutorInfoRequest
from relay.testing.answers import Silence
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from tests.hub.conftest import Bench, eventually, executor_ref, open_bench

KIB = 1024
PATIENCE = timedelta(seconds=30)


def test_the_largest_is_given_up() -> None:
    """Whoever asked for more last is not to blame, if another one holds more."""
    given_up: list[str] = []
    unfinished: Unfinished[str] = Unfinished(100, given_up.append)

    unfinished.note("large", 60)
    unfinished.note("small", 40)
    assert given_up == []

    unfinished.note("small", 41)
    assert given_up == ["large"]
    assert unfinished.total_bytes == 41


def test_as_many_are_given_up_as_it_takes() -> None:
    """One may not be enough."""
    given_up: list[str] = []
    unfinished: Unfinished[str] = Unfinished(100, given_up.append)
    for name in ("a", "b", "c"):
        unfinished.note(name, 30)

    unfinished.note("d", 95)

    assert given_up == ["d"]
    assert unfinished.total_bytes == 90

    unfinished.note("a", 100)
    assert given_up == ["d", "a"]


def test_what_is_complete_is_not_held() -> None:
    """A socket may take part again and again."""
    given_up: list[str] = []
    unfinished: Unfinished[str] = Unfinished(100, given_up.append)

    for _ in range(5):
        unfinished.note("a", 90)
        unfinished.note("a", 0)
    unfinished.note("a", 0)

    assert given_up == []
    assert unfinished.total_bytes == 0


def message_of(size_bytes: int, *, cut_at: int) -> tuple[bytes, bytes]:
    """One message as two pieces of a frame."""
    frame = Frame(Opcode.TEXT, b"x" * size_bytes).serialize(mask=True)
    return frame[:cut_at], frame[cut_at:]


async def connect_silent(bench: Bench, executor_id: str) -> FakeExecutor:
    """An executor that has said who it is, and answers nothing more."""
    executor = await bench.connect(executor_id=executor_id)
    executor.script("executor_info", Silence())
    return executor


@pytest.mark.parametrize("is_fragmented", [False, True])
async def test_sockets_share_one_limit(clock: FakeClock, is_fragmented: bool) -> None:
    """The largest goes with 1013, its requests fail over, the others are untouched."""
    async with open_bench(
        clock=clock, max_message_bytes=900 * KIB, max_unfinished_bytes=1024 * KIB
    ) as bench:
        small = await connect_silent(bench, "small")
        large = await connect_silent(bench, "large")
        held = bench.hub.switchboard.unfinished
        peer = bench.hub.find(executor_ref("large"))
        assert peer is not None
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(asks_in_vain(bench, "large"))
            await eventually(lambda: peer.in_flight)
            if is_fragmented:
                start = Frame(Opcode.TEXT, b"x" * 500 * KIB, fin=False)
                large.write(start.serialize(mask=True))
                large.write(
                    Frame(Opcode.CONT, b"x" * 200 * KIB, fin=False).serialize(mask=True)
                )
                await eventually(lambda: held.total_bytes >= 700 * KIB)
            else:
                begun, _ = message_of(800 * KIB, cut_at=700 * KIB)
                large.write(begun)
                await eventually(lambda: held.total_bytes >= 700 * KIB)

            begun, rest = message_of(600 * KIB, cut_at=400 * KIB)
            small.write(begun)
            await eventually(lambda: bench.listener.departures)

        (departure,) = bench.listener.departures
        assert departure.ref.executor_id == "large"
        assert (departure.loss, departure.close_code) == (Loss.OVERFLOW, 1013)
        assert departure.is_fault
        failure = asked.result()
        assert isinstance(failure, ConnectionLostError)
        await eventually(lambda: bench.hub.connection_count == 1)
        await eventually(lambda: held.total_bytes <= 401 * KIB)
        await large.wait_closed()

        small.write(rest)
        await eventually(lambda: held.total_bytes == 0)
        assert bench.hub.is_online(executor_ref("small"))
        small.abort()
        await small.wait_closed()


async def asks_in_vain(bench: Bench, executor_id: str) -> Exception:
    """What becomes of a request to that executor."""
    peer = bench.hub.find(executor_ref(executor_id))
    assert peer is not None
    with pytest.raises(Exception) as caught:  # noqa: PT011 - it is looked at later
        await peer.ask(ExecutorInfoRequest(), PATIENCE)
    return caught.value


async def test_a_socket_that_ends_holds_nothing(clock: FakeClock) -> None:
    """Whoever is cut off in the middle of a message takes no room afterwards."""
    async with open_bench(clock=clock) as bench:
        executor = await bench.connect()
        executor.write(message_of(600 * KIB, cut_at=300 * KIB)[0])
        held = bench.hub.switchboard.unfinished
        await eventually(lambda: held.total_bytes >= 300 * KIB)

        executor.abort()

        await eventually(lambda: not bench.hub.switchboard.links)
        assert held.total_bytes == 0
        await executor.wait_closed()
