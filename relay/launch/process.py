"""The process: the application, signals, and with which status it ends."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Protocol

import structlog
import uvicorn

from relay.errors import RelayError
from relay.launch.address import bind, raise_descriptor_limit
from relay.launch.web import (
    Application,
    Message,
    Receive,
    Send,
    WebServer,
    configure,
)
from relay.settings import RelaySettings

APPLICATION = "relay_api.app:create_app"
"""Where the factory of the HTTP application is found: `module:attribute`."""

_FAILED = ("lifespan.startup.failed", "lifespan.shutdown.failed")
_EPITAPHS = {
    f"Application {phase} failed. Exiting." for phase in ("startup", "shutdown")
}
"""uvicorn's own last words, which say less than ours and stand before them."""

logger = structlog.get_logger(__name__)


def launch(
    settings: RelaySettings,
    *,
    announce: Callable[[str], None],
    application: str = APPLICATION,
) -> None:
    """
    Serve until a signal comes, or another server takes the database.

    Args:
        announce: called once with the URL when the server listens.
        application: the factory, as `module:attribute`; it is given the settings, and
            what it makes keeps a `relay.server.Server` as `server` in its lifespan's
            state.

    Raises:
        RelayError: the server could not start or go on; the message says why.
    """
    raise_descriptor_limit()
    sockets = bind(settings.host, settings.port)
    app = _Guard(_load(application)(settings))

    def on_started() -> None:
        url = _url(sockets[0])
        logger.info("server_listening", url=url)
        announce(url)

    server = _Server(configure(app), on_started=on_started)
    try:
        with _ending_cleanly(), _without_epitaph():
            server.run(sockets)
    except asyncio.CancelledError:
        logger.info("start_cancelled")
    except SystemExit:
        if app.failure is None:
            raise
    finally:
        for listener in sockets:
            listener.close()
    if app.failure is not None:
        raise app.failure


class _Replaceable(Protocol):
    """What has to be known here of a `relay.server.Server`."""

    @property
    def replaced(self) -> asyncio.Event: ...


class _Server(WebServer):
    def __init__(
        self, config: uvicorn.Config, *, on_started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._cancel_start: Callable[[], object] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            self._cancel_start = lambda: loop.call_soon_threadsafe(task.cancel)
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def on_tick(self, counter: int) -> bool:
        # Many times a second; whoever was replaced leaves as if it were told to.
        has_to_exit = await super().on_tick(counter)
        server: _Replaceable = self.lifespan.state["server"]
        return has_to_exit or server.replaced.is_set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            # Whoever asks twice does not want to wait. It is as if the process were
            # killed, which costs nobody his work.
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        elif self.started:
            super().handle_exit(sig, frame)
        elif self._cancel_start is not None:
            # uvicorn would note the signal and look at it after the start, which
            # never ends while the database is away.
            self._cancel_start()
        else:
            raise SystemExit(0)


class _Guard:
    """Keeps the error that ended the server, which uvicorn would only print."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self.failure: RelayError | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_without_traceback(event: Message) -> None:
            if event["type"] in _FAILED:
                event = {"type": event["type"], "message": ""}
            await send(event)

        try:
            await self._app(scope, receive, send_without_traceback)
        except RelayError as error:
            self.failure = error
        except Exception:
            logger.exception("server_failed")


def _load(application: str) -> Callable[[RelaySettings], Application]:
    module, _, attribute = application.partition(":")
    factory: Callable[[RelaySettings], Application] = getattr(
        import_module(module), attribute
    )
    return factory


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """
    Make the signal that uvicorn raises again after its stop end with status 0.

    It restores the handlers that it found and then repeats the signal, so that these
    decide; the interpreter's own would print a traceback or end with status 143.
    """

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise SystemExit(0)

    before = {
        number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _without_epitaph() -> Iterator[None]:
    def is_news(record: logging.LogRecord) -> bool:
        return record.getMessage() not in _EPITAPHS

    server_log = logging.getLogger("uvicorn.error")
    server_log.addFilter(is_news)
    try:
        yield
    finally:
        server_log.removeFilter(is_news)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
