"""A scripted executor that speaks the real wire protocol over a real socket."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, assert_never

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from relay.clock import Clock, SystemClock
from relay.tasks import TaskSet
from relay.testing.answers import (
    Answer,
    Binary,
    Default,
    Failure,
    Fragmented,
    Hangup,
    Huge,
    Raw,
    Reply,
    Silence,
    Slow,
    WrongId,
    WrongType,
)
from relay.testing.application import FakeApplication
from relay.testing.behaviour import Request, behave
from relay.testing.work import FakeWork

PATIENCE = timedelta(seconds=10)
"""Of real time, for the other side to do what a test waits for."""


class FakeExecutor:
    """
    One connected executor whose answers a test decides.

    By default it is a well-behaved Python executor: it says who it is, owns up to the
    work in `work`, takes work of its version over, and knows what there is in
    `application`. `script` replaces the answers to one message type, one after
    another; the last one stays. Everything it is asked is in `requests`. It answers
    pings while it reads, and pings only by `ping`.
    """

    def __init__(
        self,
        socket: ClientConnection,
        info: Mapping[str, Any],
        *,
        work: FakeWork,
        application: FakeApplication,
        script: Mapping[str, Sequence[Answer]],
        clock: Clock,
    ) -> None:
        """Use `FakeExecutor.connect`."""
        self.info = info
        self.work = work
        self.application = application
        self.requests: list[Request] = []
        self.closed = asyncio.Event()
        self._socket = socket
        self._script = {name: list(answers) for name, answers in script.items()}
        self._clock = clock
        self._patience = SystemClock()
        self._asked = asyncio.Condition()
        self._tasks = TaskSet("fake executor")
        self._tasks.spawn(self._serve(), name="serve")

    @classmethod
    async def connect(
        cls,
        url: str,
        app: str = "orders",
        key: str = "key",
        *,
        executor_id: str = "executor-1",
        version: str = "v1",
        language: str | None = "python",
        dbos_version: str | None = "3.2.0",
        hostname: str | None = "host-1",
        metadata: Mapping[str, Any] | None = None,
        work: FakeWork | None = None,
        application: FakeApplication | None = None,
        script: Mapping[str, Sequence[Answer]] | None = None,
        clock: Clock | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """
        An executor on a socket of its own; returns once the upgrade succeeded.

        Args:
            url: base of the server, such as `ws://127.0.0.1:8090`; a path is kept.
            script: answers by message type, from the first request on.
            work: shared with other executors of the same system database.
            application: the same; its name is `app` unless it is given.
            clock: measures `Slow` answers.

        Raises:
            websockets.exceptions.InvalidStatus: the upgrade was refused; its `response`
                has the status and the body.
        """
        socket = await connect(
            f"{url}/websocket/{app}/{key}",
            additional_headers=headers,
            proxy=None,
            max_size=None,
            ping_interval=None,
            close_timeout=PATIENCE.total_seconds(),
        )
        info = {
            "executor_id": executor_id,
            "application_version": version,
            "hostname": hostname,
            "language": language,
            "dbos_version": dbos_version,
            "executor_metadata": metadata,
        }
        return cls(
            socket,
            info,
            work=FakeWork() if work is None else work,
            application=application or FakeApplication(name=app),
            script=script or {},
            clock=clock or SystemClock(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abort()
        await self.wait_closed()

    @property
    def executor_id(self) -> str:
        """The id it answers with."""
        return str(self.info["executor_id"])

    @property
    def close_code(self) -> int | None:
        """The code with which the socket was closed; 1006 without a close frame."""
        return self._socket.close_code

    @property
    def close_reason(self) -> str | None:
        """The reason in the close frame."""
        return self._socket.close_reason

    def script(self, message_type: str, *answers: Answer) -> None:
        """Answer requests of one type like this from now on, the last one for ever."""
        self._script[message_type] = list(answers)

    def received(self, message_type: str) -> list[Request]:
        """The requests of one type so far, in order."""
        return [asked for asked in self.requests if asked["type"] == message_type]

    async def reply(
        self, request: Request, fields: Mapping[str, Any] | None = None
    ) -> None:
        """Answer `request` now, whatever has been answered to it before."""
        await self._socket.send(_compose(request, fields or {}))

    async def wait_for(self, message_type: str, count: int = 1) -> Request:
        """
        Wait until `count` requests of one type have come; the last of them.

        Raises:
            TimeoutError: `PATIENCE` is over.
        """
        async with self._patience.timeout(PATIENCE), self._asked:
            await self._asked.wait_for(
                lambda: len(self.received(message_type)) >= count
            )
        return self.received(message_type)[count - 1]

    async def wait_closed(self) -> None:
        """
        Wait until the socket has ended, whoever ended it.

        Raises:
            TimeoutError: `PATIENCE` is over.
        """
        async with self._patience.timeout(PATIENCE):
            await self.closed.wait()
        await self._tasks.close()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the socket in an orderly way."""
        await self._socket.close(code, reason)
        await self.wait_closed()

    def abort(self) -> None:
        """Reset the TCP connection, without a close frame."""
        self._socket.transport.abort()

    def stop_reading(self) -> None:
        """Read nothing more: no request is seen and no ping answered."""
        self._socket.transport.pause_reading()

    def go_on_reading(self) -> None:
        """Undo `stop_reading`."""
        self._socket.transport.resume_reading()

    async def ping(self, payload: bytes = b"life") -> None:
        """
        Send a ping and wait for a pong with the same payload.

        Raises:
            TimeoutError: `PATIENCE` is over.
        """
        pong = await self._socket.ping(payload)
        async with self._patience.timeout(PATIENCE):
            await pong

    def write(self, data: bytes) -> None:
        """Put bytes on the wire that need not be whole frames."""
        self._socket.transport.write(data)

    async def _serve(self) -> None:
        try:
            async with TaskSet("fake answers") as answering:
                async for frame in self._socket:
                    request = json.loads(frame)
                    self.requests.append(request)
                    async with self._asked:
                        self._asked.notify_all()
                    answering.spawn(
                        self._give(self._choose(request["type"]), request),
                        name=request["type"],
                    )
        except ConnectionClosed:
            # However it ended, `close_code` says it.
            pass
        finally:
            self.closed.set()

    def _choose(self, message_type: str) -> Answer:
        answers = self._script.get(message_type)
        if not answers:
            return Default()
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def _give(self, answer: Answer, request: Request) -> None:
        try:
            await self._answer(answer, request)
        except ConnectionClosed:
            # Nobody is there any more to be answered.
            return

    async def _answer(self, answer: Answer, request: Request) -> None:
        match answer:
            case Default():
                answer = behave(request, self.info, self.work, self.application)
                await self._answer(answer, request)
            case Reply(fields):
                await self._socket.send(_compose(request, fields))
            case Failure(message):
                await self._socket.send(_compose(request, {"error_message": message}))
            case Silence():
                pass
            case Slow(span, then):
                await self._clock.sleep(span)
                await self._answer(then, request)
            case Raw(frame):
                data = frame.encode() if isinstance(frame, str) else frame
                self.write(Frame(Opcode.TEXT, data).serialize(mask=True))
            case Binary(frame):
                await self._socket.send(frame)
            case WrongId(fields):
                stray = {**request, "request_id": "nobody-asked"}
                await self._socket.send(_compose(stray, fields))
            case WrongType(message_type):
                await self._socket.send(_compose({**request, "type": message_type}, {}))
            case Fragmented(fields, pieces):
                text = _compose(request, fields)
                size = -(-len(text) // pieces)
                cut = [text[at : at + size] for at in range(0, len(text), size)]
                await self._socket.send(cut)
            case Huge(size_bytes):
                await self._socket.send(_compose(request, {"pad": "x" * size_bytes}))
            case Hangup(code, reason):
                if code is None:
                    self.abort()
                else:
                    await self._socket.close(code, reason)
            case _:
                assert_never(answer)


def _compose(request: Request, fields: Mapping[str, Any]) -> str:
    head = {"type": request["type"], "request_id": request["request_id"]}
    return json.dumps({**head, **fields})
