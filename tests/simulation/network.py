"""
The network between executors and Relay: slow, in order, and at times not there.

A `Cable` is one TCP connection. What either side puts in comes out at the other later,
in order; while its executor is partitioned it is held, and comes out when that is over,
unless an end has gone. `RelayEnd` is the transport that Relay's real socket protocol
writes to, so what is checked on it is checked at the moment of writing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from relay.hub.socket import RelayWebSocketProtocol
from tests.simulation.wire import Answer, End, Frame, Item, ServerReader

if TYPE_CHECKING:
    from tests.simulation.executors import Process
    from tests.simulation.run import Run
    from tests.simulation.world import World


class Way(Enum):
    """The two directions of a connection."""

    IN = auto()
    """To Relay."""

    OUT = auto()
    """To the executor."""


@dataclass(frozen=True, slots=True)
class _Parcel:
    item: Item
    on_arrival: Callable[[], None] | None


class Cable:
    """
    One TCP connection between a process and a run of Relay.

    Attributes:
        identity: Who the executor has said it is, once Relay has read that.
        identified_at: When Relay read it.
        is_hung_up: Relay has begun to close it.
        was_cut_off: Relay's end has gone while its executor could not be reached.
    """

    def __init__(self, world: "World", process: "Process", run: "Run") -> None:
        self.world = world
        self.process = process
        self.run = run
        self.is_open_there = True
        self.identity: str | None = None
        self.identified_at = float("inf")
        self.is_hung_up = False
        self.was_cut_off = False
        self.asked_at: dict[str, float] = {}
        self._due = dict.fromkeys(Way, 0.0)
        self._held: dict[Way, list[_Parcel]] = {way: [] for way in Way}
        self.relay_end = RelayEnd(self)
        self.protocol = RelayWebSocketProtocol(
            config=run.config, server_state=run.state, app_state=run.app_state
        )
        self.protocol.connection_made(self.relay_end)

    @property
    def is_open_here(self) -> bool:
        """Whether Relay's end is open."""
        return not self.relay_end.is_closed

    @property
    def _is_outdated(self) -> bool:
        """Whether its executor has already said on another one who it is."""
        newest = self.process.cable
        return newest is not None and newest is not self and newest.identity is not None

    def carry(
        self, way: Way, item: Item, on_arrival: Callable[[], None] | None = None
    ) -> None:
        """Put something in; `on_arrival` is called right before it is read."""
        parcel = _Parcel(item, on_arrival)
        latency = self.world.draw_latency(self.process)
        now = self.world.clock.elapsed
        self._due[way] = max(self._due[way], now + latency)
        self.world.agenda.after(self._due[way] - now, lambda: self._arrive(way, parcel))

    def reset(self) -> None:
        """Something on the way, such as a proxy, resets it at both ends."""
        for way in Way:
            self.carry(way, End.RST)

    def release(self) -> None:
        """Let through what was held, as far as nothing holds it any more."""
        for way in Way:
            if way not in self.process.blocked:
                held, self._held[way] = self._held[way], []
                for parcel in held:
                    self.carry(way, parcel.item, parcel.on_arrival)

    def _arrive(self, way: Way, parcel: _Parcel) -> None:
        self.world.steps += 1
        if way in self.process.blocked or self._held[way]:
            self._held[way].append(parcel)
        elif way is Way.OUT:
            self.process.kernel_receives(self, parcel.item)
        else:
            self.run.do(lambda: self._enter(parcel))

    def _enter(self, parcel: _Parcel) -> None:
        if self.relay_end.is_closed:
            if parcel.item is not End.RST and not self.run.is_unreachable:
                self.carry(Way.OUT, End.RST)
            return
        if parcel.on_arrival is not None:
            parcel.on_arrival()
        if isinstance(parcel.item, End) and self._is_outdated:
            self.world.note(
                self.process.name, "ended an old connection", counts_as="late close"
            )
        self.relay_end.take(parcel.item)


class Descriptor:
    """As much of a socket as is looked at: its number, and whether the peer lives."""

    def __init__(self, end: "RelayEnd") -> None:
        self._end = end

    @staticmethod
    def fileno() -> int:
        """A low one: there are always enough."""
        return 3

    @property
    def has_hung_up(self) -> bool:
        """Whether the kernel knows that the peer has gone, read or not."""
        return self._end.is_closed or any(
            isinstance(item, End) for item in self._end.waiting
        )


class RelayEnd(asyncio.Transport):
    """Relay's end of a cable: an asyncio transport without a socket."""

    def __init__(self, cable: Cable) -> None:
        super().__init__(
            {"peername": (cable.process.address, 40_000), "socket": Descriptor(self)}
        )
        self._cable = cable
        self._reader = ServerReader()
        self._is_reading = True
        self.waiting: list[Item] = []
        self.is_closed = False

    def take(self, item: Item) -> None:
        """What has arrived from the executor."""
        if not self._is_reading:
            self.waiting.append(item)
            return
        protocol = self._cable.protocol
        match item:
            case bytes():
                protocol.data_received(item)
            case End.FIN:
                protocol.eof_received()
                self.close()
            case End.RST:
                self._end(None, ConnectionResetError())
            case Frame() | Answer():
                raise TypeError(f"executors do not send {item}")

    def die(self, *, says_so: bool) -> None:
        """The process of Relay is gone, and its kernel says so, or is gone too."""
        if not self.is_closed:
            self.is_closed = True
            if says_so:
                self._cable.carry(Way.OUT, End.RST)

    # What the protocol calls.

    def write(self, data: Any) -> None:
        if self.is_closed:
            return
        for item in self._reader.read(bytes(data)):
            self._cable.world.laws.written(self._cable, item)
            self._cable.carry(Way.OUT, item)

    def close(self) -> None:
        self._end(End.FIN, None)

    def abort(self) -> None:
        self._end(End.RST, None)

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self.is_closed:
            self._cable.carry(Way.OUT, End.FIN)

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        waiting, self.waiting = self.waiting, []
        for item in waiting:
            self.take(item)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Nothing ever piles up here: the kernels take it."""

    def _end(self, goodbye: End | None, error: Exception | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if goodbye is not None:
            self._cable.carry(Way.OUT, goodbye)
        if self._cable.process.is_cut_off:
            self._cable.was_cut_off = True
        asyncio.get_running_loop().call_soon(
            self._cable.protocol.connection_lost, error
        )
