"""
uvicorn's HTTP connection, with an end to our patience.

It is given to uvicorn as `Config(http=RelayHttpProtocol)`. Of uvicorn it relies on the
class it inherits from and the hub in `app_state`; it overrides what asyncio calls
(`connection_made`, `data_received`, …) and what httptools calls (`on_message_begin`,
`on_body`, `on_message_complete`), both documented by those. Whether an answer is due it
reads from `cycle` and `pipeline`. Contract tests hold it.
"""

import asyncio
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from relay.hub.callers import PROGRESS_BYTES
from relay.hub.hub import Hub


class RelayHttpProtocol(HttpToolsProtocol):
    """One HTTP connection, until its end or until it becomes an executor's socket."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        hub: Hub = app_state["hub"]
        self._callers = hub.switchboard.callers
        self._turnstile = hub.switchboard.turnstile
        self._progress_bytes = 0
        self._asking_since: float | None = self._callers.read_clock()
        self.times_read_on = 0

    @property
    def asking_since(self) -> float | None:
        """
        When we began to wait for the request that is due; a monotonic reading.

        While an earlier one is being answered, what has come of the next one may wait:
        nothing is read on then, and the client waits for us.
        """
        if self._asking_since is not None and self._is_answer_due:
            self._asking_since = self._callers.read_clock()
        return self._asking_since

    @property
    def _is_answer_due(self) -> bool:
        if self.pipeline:
            return True
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not (cycle.more_body or cycle.response_complete)

    @property
    def unread_bytes(self) -> int:
        """What was answered and has not left this process, in bytes."""
        return self.transport.get_write_buffer_size()

    def cut(self) -> None:
        """Drop the connection in this turn of the loop."""
        self.transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket over."""
        # uvloop's transports are no instances of asyncio's.
        super().connection_made(cast(asyncio.Transport, transport))
        self._callers.add(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client: whatever they are, a request has to follow."""
        self._begin_to_wait()
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            # It is an executor's now; nothing more is called here. This and the parser
            # know each other, and would be work for the garbage collector.
            self._let_go()
            self.parser = None  # type: ignore[assignment]  # uvicorn does so too

    def resume_writing(self) -> None:
        """Go on writing: the client has read."""
        self.times_read_on += 1
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything; nothing is called after this."""
        self._let_go()
        super().connection_lost(exc)

    # What the HTTP parser calls.

    def on_message_begin(self) -> None:
        """Wait for the rest, also behind another request in the same bytes."""
        self._begin_to_wait()
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; a large one over a thin line takes its time."""
        self._progress_bytes += len(body)
        if self._progress_bytes >= PROGRESS_BYTES:
            self._progress_bytes = 0
            self._asking_since = self._callers.read_clock()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request is there."""
        self._asking_since = None
        self._turnstile.leave(self)
        super().on_message_complete()

    def _begin_to_wait(self) -> None:
        if self._asking_since is None:
            self._asking_since = self._callers.read_clock()
            self._progress_bytes = 0

    def _let_go(self) -> None:
        self._callers.discard(self)
        self._turnstile.leave(self)
