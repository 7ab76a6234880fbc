"""Ports for servers that tests start, stop and start again as processes."""

import socket
import sys
from types import TracebackType
from typing import Self


class ReservedPort:
    """
    A port of this machine that is ours for as long as the block lasts.

    A port that was free a moment ago may be given to anybody who dials out, and tests
    dial thousands of times. So one end stays bound to it and never listens: then the
    system gives it to nobody who does not ask for it by its number, whether or not the
    server behind it runs. Servers ask with SO_REUSEADDR, and may have it on Linux;
    elsewhere it is only a port that was free a moment ago.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((host, 0))
        self.number: int = self._holder.getsockname()[1]
        if sys.platform != "linux":
            self.close()

    def close(self) -> None:
        """Give it back; may be repeated."""
        self._holder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
