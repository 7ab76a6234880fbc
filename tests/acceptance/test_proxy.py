"""The proxy of the fault tests does what it says, to the byte."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from relay.tasks import TaskSet
from tests.acceptance.proxy import (
    CLOCK,
    Delay,
    Drop,
    End,
    Pass,
    Proxy,
    Trickle,
    open_proxy,
)

A_WHILE = timedelta(seconds=0.15)
"""Long enough for loopback to carry what it is going to carry."""


class Line:
    """One end of a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, text: str) -> None:
        self._writer.write(text.encode())

    async def hears(self, text: str) -> bool:
        """Whether exactly `text` is what comes next, sooner or later."""
        async with CLOCK.timeout(timedelta(seconds=5)):
            return (await self._reader.readexactly(len(text))).decode() == text

    async def hears_nothing(self, span: timedelta = A_WHILE) -> bool:
        """Whether neither a byte nor the end comes within `span`."""
        try:
            async with CLOCK.timeout(span):
                await self._reader.read(1)
        except TimeoutError:
            return True
        return False

    async def ending(self) -> str:
        """How the other side ended this connection: `end` or `reset`."""
        try:
            async with CLOCK.timeout(timedelta(seconds=5)):
                assert await self._reader.read() == b""
        except ConnectionResetError:
            return "reset"
        return "end"

    def end(self) -> None:
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.transport.abort()


class Exchange:
    """A server behind a proxy: who dials through it meets the server's end."""

    def __init__(self, proxy: Proxy, dialled: asyncio.Queue[Line]) -> None:
        self.proxy = proxy
        self.dialled = dialled
        self.lines: list[Line] = []

    async def dial(self) -> Line:
        """The executor's end of a new connection."""
        line = Line(*await asyncio.open_connection("127.0.0.1", self.proxy.port))
        self.lines.append(line)
        return line

    async def answer(self) -> Line:
        """Relay's end of the next connection that reaches it."""
        async with CLOCK.timeout(timedelta(seconds=5)):
            return await self.dialled.get()

    async def connect(self) -> tuple[Line, Line]:
        """Both ends of a new connection: the executor's and Relay's."""
        executor = await self.dial()
        return executor, await self.answer()


@pytest.fixture
async def exchange() -> AsyncIterator[Exchange]:
    """A proxy with a server of ours behind it."""
    dialled: asyncio.Queue[Line] = asyncio.Queue()
    lines: list[Line] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        lines.append(line)
        dialled.put_nowait(line)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with open_proxy(server.sockets[0].getsockname()[1]) as proxy:
        exchange = Exchange(proxy, dialled)
        yield exchange
        server.close()
        for line in [*lines, *exchange.lines]:
            line.close()


async def test_everything_passes_both_ways_at_first(exchange: Exchange) -> None:
    """Bytes go up and down unchanged, and more of them than one buffer holds."""
    executor, relay = await exchange.connect()
    long = "x" * 1_000_000

    executor.say(long)
    relay.say("down")

    assert await relay.hears(long)
    assert await executor.hears("down")


@pytest.mark.parametrize("is_upwards", [True, False], ids=["up", "down"])
async def test_what_is_dropped_arrives_when_the_link_is_whole(
    exchange: Exchange, *, is_upwards: bool
) -> None:
    """One direction is cut, the other is not, and no byte is missing at the end."""
    executor, relay = await exchange.connect()
    near, far = (executor, relay) if is_upwards else (relay, executor)

    if is_upwards:
        exchange.proxy.degrade(up=Drop())
    else:
        exchange.proxy.degrade(down=Drop())
    near.say("first ")
    far.say("against")

    assert await far.hears_nothing()
    assert await near.hears("against")
    near.say("second")
    exchange.proxy.heal()
    assert await far.hears("first second")


async def test_an_end_is_dropped_like_a_byte(exchange: Exchange) -> None:
    """Who ends a connection during a partition is heard of after it."""
    executor, relay = await exchange.connect()

    exchange.proxy.degrade(up=Drop(), down=Drop())
    executor.say("last words")
    executor.end()

    assert await relay.hears_nothing()
    exchange.proxy.heal()
    assert await relay.hears("last words")
    assert await relay.ending() == "end"


async def test_modes_of_open_and_new_links_are_apart(exchange: Exchange) -> None:
    """A mode for new links leaves the open ones alone, and the other way round."""
    old, old_at_relay = await exchange.connect()

    exchange.proxy.degrade(up=Drop(), to_open=False)
    new = await exchange.dial()
    old.say("old")
    new.say("new")

    assert await old_at_relay.hears("old")
    assert exchange.dialled.empty()
    exchange.proxy.degrade(up=Drop(), to_new=False)
    exchange.proxy.degrade(up=Pass(), to_open=False)
    newest, newest_at_relay = await exchange.connect()
    newest.say("newest")
    assert await newest_at_relay.hears("newest")
    old.say("more")
    assert await old_at_relay.hears_nothing()


async def test_who_gives_up_during_a_partition_never_reaches_relay(
    exchange: Exchange,
) -> None:
    """A dial that was dropped and given up is not made up for afterwards."""
    exchange.proxy.degrade(up=Drop(), down=Drop())
    impatient = await exchange.dial()
    patient = await exchange.dial()
    impatient.say("impatient")
    impatient.end()
    patient.say("patient")
    assert await patient.hears_nothing()

    exchange.proxy.heal()

    assert await (await exchange.answer()).hears("patient")
    assert await patient.hears_nothing()
    assert exchange.dialled.empty()


async def test_a_trickle_lets_single_bytes_through(exchange: Exchange) -> None:
    """At 20 bytes a second five bytes take a quarter of a second; healed, none."""
    executor, relay = await exchange.connect()
    exchange.proxy.degrade(up=Trickle(bytes_per_second=20))

    began = CLOCK.monotonic()
    executor.say("01234" + "x" * 1000)
    assert await relay.hears("01234")
    took = CLOCK.monotonic() - began

    assert 0.25 <= took < 2
    exchange.proxy.heal()
    assert await relay.hears("x" * 1000)
    assert CLOCK.monotonic() - began < 5


async def test_a_delay_shifts_and_does_not_slow_down(exchange: Exchange) -> None:
    """Two words that were sent one after the other arrive one delay later, both."""
    executor, relay = await exchange.connect()
    exchange.proxy.degrade(down=Delay(timedelta(seconds=0.3)))

    began = CLOCK.monotonic()
    relay.say("one")
    assert await executor.hears_nothing()
    relay.say("two")
    assert await executor.hears("one")
    first = CLOCK.monotonic() - began
    assert await executor.hears("two")
    both = CLOCK.monotonic() - began

    assert 0.3 <= first < 2
    assert first <= both < first + 0.3


async def test_a_reset_reaches_both_ends_and_only_open_links(
    exchange: Exchange,
) -> None:
    """Every open link is reset at once, also where bytes are dropped; new ones pass."""
    pairs = [await exchange.connect() for _ in range(3)]
    exchange.proxy.degrade(up=Drop(), down=Drop(), to_new=False)

    exchange.proxy.reset()

    for pair in pairs:
        assert [await line.ending() for line in pair] == ["reset", "reset"]
    executor, relay = await exchange.connect()
    executor.say("again")
    assert await relay.hears("again")
    assert exchange.proxy.accepted == 4


@pytest.mark.parametrize("gone", End)
async def test_half_open_leaves_one_end_in_the_dark(
    exchange: Exchange, gone: End
) -> None:
    """One end is reset; the other hears of it only when the link is whole again."""
    executor, relay = await exchange.connect()
    lost, left = (executor, relay) if gone is End.EXECUTOR else (relay, executor)

    exchange.proxy.half_open(gone=gone)

    assert await lost.ending() == "reset"
    left.say("anybody there?")
    assert await left.hears_nothing()
    exchange.proxy.heal()
    assert await left.ending() == "reset"


async def test_who_dials_without_a_relay_is_turned_away() -> None:
    """Nobody listens behind the proxy: the connection ends at once."""
    async with open_proxy(1) as proxy:
        line = Line(*await asyncio.open_connection("127.0.0.1", proxy.port))

        assert await line.ending() in {"end", "reset"}
        line.close()


async def test_closing_the_proxy_ends_every_link() -> None:
    """Nothing of a test's links is left when its block ends."""
    async with TaskSet("server") as _:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with open_proxy(server.sockets[0].getsockname()[1]) as proxy:
            line = Line(*await asyncio.open_connection("127.0.0.1", proxy.port))
            assert await line.hears_nothing()

        assert await line.ending() == "reset"
        line.close()
        server.close()
