"""
uvicorn, set up for this house, and its beginning and end.

**What this relies on in uvicorn** (a contract test on real sockets proves each point):

1. `Server.startup([])` opens the lifespan and listens to nothing, and
   `Server.lifespan.state` is what the application put there.
2. `Config.http_protocol_class` makes the protocol of one connection from the keywords
   `config`, `server_state` and `app_state`.
3. `Server.shutdown` calls `shutdown()` on each member of `server_state.connections`,
   waits until that set and `server_state.tasks` are empty, for
   `timeout_graceful_shutdown` at most, and then closes the lifespan.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import timedelta
from typing import Any

import uvicorn

from relay.errors import SettingsError
from relay.hub.hub import Hub
from relay.hub.lobby import Lobby
from relay.hub.socket import RelayWebSocketProtocol
from relay.hub.web import RelayHttpProtocol
from relay.tasks import TaskSet

LAST_CALL = timedelta(seconds=5)
"""For HTTP clients to end what they have begun when the server stops."""

_GRACEFUL_SECONDS = 6
"""Then uvicorn cancels what still answers; nobody is connected any more."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def configure(app: Application) -> uvicorn.Config:
    """How uvicorn serves `app`, executors' sockets included."""
    return uvicorn.Config(
        app,
        http=RelayHttpProtocol,
        ws=RelayWebSocketProtocol,
        loop="auto",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACEFUL_SECONDS,
    )


class WebServer(uvicorn.Server):
    """
    uvicorn behind a `Lobby`, which accepts in its place.

    It stops in this order: nobody is accepted any more, executors are told to come
    back, callers get their answer or, after `LAST_CALL`, are cut off.
    """

    lobby: Lobby

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """
        Open the application, and listen on `sockets`, which are bound.

        Raises:
            SettingsError: another process bound the address too, and listens on it; the
                application is closed again.
        """
        await super().startup([])
        hub: Hub = self.lifespan.state["hub"]
        bound = sockets or []
        try:
            self.lobby = hub.open_lobby(bound, self._make_protocol)
        except OSError as error:
            await self.lifespan.shutdown()
            places = ", ".join("{}:{}".format(*each.getsockname()) for each in bound)
            raise SettingsError(
                f"cannot listen on {places}: {error.strerror or error}"
            ) from None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; ten seconds at the most, if the database answers."""
        hub: Hub = self.lifespan.state["hub"]
        await self.lobby.close()
        await hub.say_goodbye()
        async with TaskSet("last call") as tasks:
            tasks.spawn(hub.cut_off_callers(LAST_CALL), name="callers")
            await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = kind(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        return protocol
