"""Hooks into what Relay shares with everybody: its log, its ids, the system's calls."""

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import UUID

import structlog

from tests.simulation.chance import chance

if TYPE_CHECKING:
    from tests.simulation.laws import Laws


@contextmanager
def deterministic_ids(seed: int) -> Iterator[None]:
    """Have `relay.ids.new_id` repeat itself with the seed."""
    bits = chance(seed)
    with patch("relay.ids.uuid4", lambda: UUID(int=bits.getrandbits(128))):
        yield


@contextmanager
def simulated_sockets() -> Iterator[None]:
    """Have the hub look at the simulated sockets as the kernel lets it at real ones."""
    with patch("relay.hub.socket.has_hung_up", lambda socket: socket.has_hung_up):
        yield


@contextmanager
def no_traceback(laws: "Laws") -> Iterator[None]:
    """Swallow the log; whatever comes with a traceback is a defect."""

    def listen(
        logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if event.get("exc_info"):
            laws.fail(str(event["event"]))
        raise structlog.DropEvent

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                laws.fail(record.getMessage(), record.exc_info[1])

    before = structlog.get_config()
    structlog.configure(
        processors=[listen],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
    )
    listener = Listener(logging.ERROR)
    logging.getLogger("relay").addHandler(listener)
    try:
        yield
    finally:
        logging.getLogger("relay").removeHandler(listener)
        structlog.configure(**before)
