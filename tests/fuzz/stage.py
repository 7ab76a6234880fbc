"""
A hub with two peers on transports that exist in memory only.

One peer behaves, the other is what a test makes of it. After every scenario `check`
states what has to be true whatever the hostile one did.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from relay.errors import DispatchError, ReplyTimeoutError
from relay.hub.connection import Connection
from relay.hub.hub import Hub
from relay.hub.socket import RelayWebSocketProtocol
from relay.ids import ExecutorId, ExecutorRef
from relay.protocol import Request
from relay.protocol.messages import ExistPendingWorkflowsRequest
from relay.settings import RelaySettings
from relay.tasks import TaskSet
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.fuzz.meter import LONGEST_TURN_SECONDS, CpuMeter
from tests.fuzz.wire import MARK, Framing
from tests.hub.conftest import ORDERS, UPGRADE, RecordingGatekeeper, RecordingListener

HOSTILE, BYSTANDER = ExecutorId("hostile"), ExecutorId("bystander")
MAX_MESSAGE_BYTES = 1024 * 1024
ATTEMPTS = 3
ASK_LIMIT = timedelta(seconds=20)
STEP = timedelta(seconds=20)
"""Of time between two signs of life; two are longer than any limit of a silent peer."""

QUESTION = ExistPendingWorkflowsRequest(ExecutorId("dead"), ORDERS.name)  # type: ignore[arg-type]  # any text will do for a version

_REQUEST = "\r\n".join(
    ["GET /websocket/orders/key HTTP/1.1", *(f"{k}: {v}" for k, v in UPGRADE.items())]
)
UPGRADE_BYTES = f"{_REQUEST}\r\n\r\n".encode()


class MemoryTransport(asyncio.Transport):
    """A connected socket whose other end is a peer of the test."""

    def __init__(self, on_write: Callable[[bytes], None]) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "socket": _Socket()})
        self.is_stuck = False
        """Whether it cannot close because the peer does not read what was sent."""
        self._on_write = on_write
        self._is_closing = False
        self._held: list[bytes] | None = None
        self.protocol: RelayWebSocketProtocol | None = None

    def deliver(self, data: bytes) -> None:
        """Bytes of the peer arrive."""
        if self._held is not None:
            self._held.append(data)
        elif not self._is_closing and self.protocol is not None:
            self.protocol.data_received(data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._on_write(bytes(data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self.is_stuck:
                asyncio.get_running_loop().call_soon(self._end)

    def abort(self) -> None:
        self._is_closing = True
        asyncio.get_running_loop().call_soon(self._end)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._held = []

    def resume_reading(self) -> None:
        held, self._held = self._held or [], None
        for data in held:
            asyncio.get_running_loop().call_soon(self.deliver, data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Nothing: the peer looks at what was written only."""

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Nothing: it never fills."""

    def _end(self) -> None:
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connection_lost(None)


class _Socket:
    """Has a descriptor, as the real one."""

    def fileno(self) -> int:
        return 10


class Peer:
    """
    The other end of one socket.

    `requests` holds what Relay asked. While `behaves`, it answers who it is, that
    nothing is pending, and pings.
    """

    def __init__(self, executor_id: ExecutorId, *, behaves: bool) -> None:
        self.executor_id = executor_id
        self.behaves = behaves
        self.requests: list[dict[str, Any]] = []
        self.transport = MemoryTransport(self._read)
        self._unread = b""
        self._is_upgraded = False

    @property
    def info(self) -> dict[str, Any]:
        """What it says of itself."""
        return {
            "executor_id": self.executor_id,
            "application_version": "v1",
            "language": "python",
            "dbos_version": "3.2.0",
        }

    async def send(self, segments: Iterable[bytes]) -> None:
        """Let segments arrive, each in a turn of its own."""
        for segment in segments:
            self.transport.deliver(segment)
            await asyncio.sleep(0)  # noqa: TID251 - ends the turn, no time passes

    def address(self, data: bytes, message_type: str) -> bytes:
        """`data` with the id of the newest request of that type for each `MARK`."""
        ids = [
            request["request_id"]
            for request in self.requests
            if request["type"] == message_type
        ]
        return data.replace(MARK.encode(), ids[-1].encode()) if ids else data

    def answer(self, request: dict[str, Any], fields: dict[str, Any]) -> None:
        """Answer `request` as it should be."""
        head = {"type": request["type"], "request_id": request["request_id"]}
        frame = Framing().write(json.dumps({**head, **fields}).encode())
        asyncio.get_running_loop().call_soon(self.transport.deliver, frame)

    def _read(self, data: bytes) -> None:
        self._unread += data
        if not self._is_upgraded:
            head, mark, rest = self._unread.partition(b"\r\n\r\n")
            if not mark:
                return
            self._is_upgraded = head.startswith(b"HTTP/1.1 101 ")
            self._unread = rest
            if not self._is_upgraded:
                return
        while (frame := self._take_frame()) is not None:
            self._react(*frame)

    def _take_frame(self) -> tuple[int, bytes] | None:
        data = self._unread
        if len(data) < 2:
            return None
        assert data[0] & 0xF0 == 0x80, "Relay sends whole frames without extensions"
        assert data[1] & 0x80 == 0, "a server does not mask"
        size, head = data[1], 2
        if size >= 126:
            head = 4 if size == 126 else 10
            size = int.from_bytes(data[2:head], "big")
        if len(data) < head + size:
            return None
        self._unread = data[head + size :]
        return data[0] & 0x0F, data[head : head + size]

    def _react(self, opcode: int, payload: bytes) -> None:
        if opcode == 1:
            request: dict[str, Any] = json.loads(payload)
            self.requests.append(request)
            if self.behaves:
                is_info = request["type"] == "executor_info"
                self.answer(request, self.info if is_info else {"exist": False})
        elif opcode == 9 and self.behaves:
            pong = Framing(opcode=10).write(payload)
            asyncio.get_running_loop().call_soon(self.transport.deliver, pong)


class Stage:
    """One hub, its peers, and the questions put to the hostile one."""

    def __init__(self, hub: Hub, clock: FakeClock, meter: CpuMeter) -> None:
        self.hub = hub
        self.clock = clock
        self.meter = meter
        self.bystander = Peer(BYSTANDER, behaves=True)
        self.hostile = Peer(HOSTILE, behaves=False)
        self._asking = TaskSet("asking")
        self._asked: list[tuple[Connection, asyncio.Task[object]]] = []
        self._sockets = SimpleNamespace(connections=set())

    async def connect(self, peer: Peer, request: bytes = UPGRADE_BYTES) -> None:
        """Open the socket of `peer`, and ask for an upgrade."""
        protocol = RelayWebSocketProtocol(
            config=None,  # type: ignore[arg-type]  # not looked at
            server_state=self._sockets,  # type: ignore[arg-type]  # all that is needed
            app_state={"hub": self.hub},
        )
        peer.transport.protocol = protocol
        protocol.connection_made(peer.transport)
        peer.transport.deliver(request)
        await self.clock.settle()

    def ask_hostile(self, request: Request[Any]) -> None:
        """Put a question to the hostile peer, wherever it stands now."""
        for connection in self.hub.switchboard.connections.values():
            if connection.link is self.hostile.transport.protocol:
                asking = self._asking.spawn(_outcome(connection, request), name="ask")
                self._asked.append((connection, asking))

    async def wait_in_vain(self) -> None:
        """Let those who have asked give up, and the sockets live on."""
        for peer in (self.hostile, self.bystander):
            peer.transport.deliver(Framing(opcode=10).write(b""))
        await self.clock.advance(ASK_LIMIT)

    async def check(self) -> None:
        """
        State what holds whatever has happened.

        The index agrees with itself; nobody waits for a socket that has ended, and
        nothing is outstanding that has been answered; in time
        every question has an answer or an error of its own kind and a silent socket is
        gone; the bystander is asked and answers; and nothing else is left.
        """
        await self._finish_reading()
        self._check_index()
        for connection, asked in self._asked:
            assert connection.link is not None or asked.done()
            assert connection.in_flight <= self._count_unanswered(connection)
        for _ in range(2):
            self.bystander.transport.deliver(Framing(opcode=10).write(b""))
            await self.clock.advance(STEP)
            self._check_index()
        for _, asked in self._asked:
            assert asked.done(), "a question is still open"
            outcome = asked.result()
            assert isinstance(outcome, DispatchError) or not isinstance(
                outcome, BaseException
            ), repr(outcome)
        bystander = self.hub.find(ExecutorRef(ORDERS, BYSTANDER))
        assert bystander is not None, "the bystander was lost"
        asking = self._asking.spawn(_outcome(bystander, QUESTION), name="ask")
        await self.clock.settle()
        assert asking.done(), "the bystander was not asked"
        assert asking.result() is False
        switchboard = self.hub.switchboard
        assert set(switchboard.links) == {self.bystander.transport.protocol}
        assert self._sockets.connections == {self.bystander.transport.protocol}
        assert len(switchboard.tasks) == 0
        assert len(self._asking) == 0

    async def _finish_reading(self) -> None:
        """Wait until the thread that reads large messages has nothing left to do."""
        # The head of a message and then the rest, each in its turn.
        for _ in range(2):
            await self.clock.settle()
            while not self.hub.switchboard.reader.is_idle:
                await self.clock.settle()
        await self.clock.settle()

    def _count_unanswered(self, connection: Connection) -> int:
        """How many questions to it may still be answered, late or in time."""
        return (not connection.is_identified) + sum(
            not asked.done() or isinstance(asked.result(), ReplyTimeoutError)
            for asker, asked in self._asked
            if asker is connection
        )

    def _check_index(self) -> None:
        switchboard = self.hub.switchboard
        connections = set(switchboard.connections.values())
        seated = {
            connection
            for peer in switchboard.seats
            for connection in switchboard.seats.find(peer.ref).connections  # type: ignore[union-attr]  # it sits there
        }
        assert all(each.link in switchboard.links for each in connections)
        assert seated == {each for each in connections if each.is_identified}
        assert switchboard.handshaking.total() == len(connections - seated)
        assert all(switchboard.handshaking.values())
        assert len(switchboard.silence) == len(connections)
        assert len(switchboard.unread) == 0
        assert switchboard.metrics.connections._value.get() == len(connections)


async def _outcome(connection: Connection, request: Request[Any]) -> object:
    try:
        return await connection.ask(request, ASK_LIMIT)
    except Exception as error:
        return error


@asynccontextmanager
async def open_stage(
    *, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> AsyncIterator[Stage]:
    """
    A hub whose bystander is on line; nothing of it is left afterwards.

    It watches its deadlines, but pings nobody: that would be most of the work here.
    """
    before = asyncio.all_tasks()
    clock, meter = FakeClock(), CpuMeter()
    hub = Hub(
        settings=RelaySettings(max_message_bytes=max_message_bytes),
        clock=clock,
        metrics=Metrics(),
    )
    hub.attach(RecordingGatekeeper(), RecordingListener())
    stage = Stage(hub, clock, meter)
    async with TaskSet("stage") as tasks:
        switchboard = hub.switchboard
        for watch in (
            switchboard.silence,
            switchboard.unread,
            switchboard.unclosed,
            switchboard.turnstile,
        ):
            tasks.spawn(watch.run(), name="watch")
        await stage.connect(stage.bystander)
        with meter.running():
            yield stage
        assert len(tasks) == 4, "a watch has ended"
    await switchboard.tasks.close()
    await clock.settle()
    assert asyncio.all_tasks() == before


class _Complaints(logging.Handler):
    """Keeps what the standard library's loggers say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


def perform(scenario: Callable[[], Awaitable[float]]) -> None:
    """
    Run a scenario, which returns its longest turn in seconds, in a loop of its own.

    No log line of it may be an error: that is where a defect at one of the fences, a
    task that failed, or a future nobody looked at shows. And no turn may be too long;
    on a crowded machine processor time is dear too, so whoever fails may try again.
    """
    turns: list[float] = []
    while len(turns) < ATTEMPTS:
        turns.append(_perform_once(scenario))
        if turns[-1] < LONGEST_TURN_SECONDS:
            return
    raise AssertionError(f"the longest turns took {turns} seconds")


def _perform_once(scenario: Callable[[], Awaitable[float]]) -> float:
    async def run() -> float:
        return await scenario()

    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        with capture_logs() as logged:
            longest = asyncio.run(run())
    finally:
        logging.getLogger().removeHandler(complaints)
    assert [line for line in logged if line["log_level"] == "error"] == []
    assert complaints.heard == []
    return longest
