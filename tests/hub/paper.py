"""Connections whose sockets only exist on paper: thousands of them cost nothing."""

from collections.abc import Callable
from datetime import timedelta

from relay.hub.connection import Connection
from relay.hub.handshake import Admission
from relay.hub.reading import ReadingThread
from relay.ids import ApplicationRef, AppVersion, ExecutorId
from relay.protocol.messages import ExecutorInfo
from relay.telemetry import Metrics
from relay.testing.clock import FakeClock
from tests.hub.conftest import ORDERS

INFO = ExecutorInfo(
    executor_id=ExecutorId("e1"),
    application_version=AppVersion("v1"),
    hostname=None,
    language="python",
    dbos_version="3.2.0",
    metadata=None,
)


class PaperLink:
    """A socket whose peer reads everything and answers no request."""

    is_writable = True
    unread_bytes = 0

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.pings = 0
        self.closings = 0
        self.is_reading = True
        self.failures = 0
        self.on_ping: Callable[[], None] = lambda: None

    def send(self, *pieces: bytes) -> None:
        self.sent.append(b"".join(pieces))

    def ping(self) -> None:
        self.pings += 1
        self.on_ping()

    def close(self, code: int, reason: str) -> None:
        self.closings += 1

    def abort(self) -> None:
        """Nobody aborts here."""

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def refuse_text(self) -> None:
        """Every text is one here."""

    def fail(self) -> None:
        self.failures += 1

    def give_message_up(self) -> None:
        """No message arrives."""


async def count_by_turn(
    count: Callable[[], int], portions: list[int], clock: FakeClock
) -> None:
    """By how much a figure changes in each turn of the loop, until cancelled."""
    before = count()
    while True:
        await clock.sleep(timedelta(0))
        now = count()
        portions.append(abs(now - before))
        before = now


def open_connection(
    link: PaperLink,
    clock: FakeClock,
    reader: ReadingThread | None = None,
    application: ApplicationRef = ORDERS,
) -> Connection:
    """
    A connection of an executor that has said who it is.

    Args:
        reader: whoever gives one ends it; without one nothing large can be read.
    """
    connection = Connection(
        link,
        Admission(application, None, None),
        peer_address="",
        max_message_bytes=1,
        clock=clock,
        metrics=Metrics(),
        reader=reader or ReadingThread("paper"),
    )
    connection.identify(INFO)
    return connection
