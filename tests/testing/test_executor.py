"""The scripted executor, against a bare WebSocket server."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

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
from relay.testing.clock import FakeClock
from relay.testing.executor import FakeExecutor
from relay.testing.work import FakeWork


@dataclass
class Line:
    """A connected fake executor and the server's end of its socket."""

    executor: FakeExecutor
    socket: ServerConnection
    path: str

    async def send(self, message_type: str, **fields: Any) -> None:
        request = {"type": message_type, "request_id": "r-1", **fields}
        await self.socket.send(json.dumps(request))

    async def ask(self, message_type: str, **fields: Any) -> dict[str, Any]:
        await self.send(message_type, **fields)
        reply: dict[str, Any] = json.loads(await self.socket.recv())
        return reply


Dial = Callable[..., Any]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connects fake executors to a server that says nothing by itself."""
    sockets: list[ServerConnection] = []
    executors: list[FakeExecutor] = []

    async def accept(socket: ServerConnection) -> None:
        sockets.append(socket)
        await socket.wait_closed()

    async with serve(accept, "127.0.0.1", 0, ping_interval=None) as server:
        port = server.sockets[0].getsockname()[1]

        async def connect(**options: Any) -> Line:
            executor = await FakeExecutor.connect(f"ws://127.0.0.1:{port}", **options)
            executors.append(executor)
            # The server's end exists: it has answered the upgrade.
            await executor.ping()
            socket = sockets[-1]
            assert socket.request is not None
            return Line(executor, socket, socket.request.path)

        yield connect
        for executor in executors:
            executor.abort()
            await executor.wait_closed()


async def test_executor_dials_like_an_sdk(dial: Dial) -> None:
    """Application and key stand in the path."""
    line = await dial(app="stock", key="secret")

    assert line.path == "/websocket/stock/secret"


async def test_executor_says_who_it_is(dial: Dial) -> None:
    """With everything a test may want to vary."""
    line = await dial(
        executor_id="e-9",
        version="v7",
        language="go",
        dbos_version="v1.2.0",
        hostname=None,
        metadata={"zone": "a"},
    )

    reply = await line.ask("executor_info")

    assert reply == {
        "type": "executor_info",
        "request_id": "r-1",
        "executor_id": "e-9",
        "application_version": "v7",
        "hostname": None,
        "language": "go",
        "dbos_version": "v1.2.0",
        "executor_metadata": {"zone": "a"},
    }


async def test_requests_are_remembered(dial: Dial) -> None:
    """All of them in order, and by type."""
    line = await dial()
    await line.send("recovery", executor_ids=["a"])
    await line.send("retention", body={})
    await line.send("recovery", executor_ids=["b"])

    last = await line.executor.wait_for("recovery", 2)

    assert last["executor_ids"] == ["b"]
    types = [request["type"] for request in line.executor.requests]
    assert types == ["recovery", "retention", "recovery"]


async def test_unknown_message_is_answered_like_an_sdk(dial: Dial) -> None:
    """The one text by which Relay recognises it."""
    line = await dial()

    reply = await line.ask("juggle")

    assert reply["error_message"] == "Unknown message type"


async def test_work_is_shared_and_handed_over(dial: Dial) -> None:
    """An order moves the work of the receiver's version, and only that."""
    work = FakeWork()
    work.add("dead", "v1", "w-1", "w-2")
    work.add("dead", "v2", "w-3")
    line = await dial(executor_id="alive", version="v1", work=work)
    question = {"executor_id": "dead", "application_version": "v1"}
    assert (await line.ask("exist_pending_workflows", **question))["exist"] is True
    listing = {"executor_id": "dead", "limit": 2}
    rows = (await line.ask("list_workflows", body=listing))["output"]
    assert [row["WorkflowUUID"] for row in rows] == ["w-1", "w-2"]

    reply = await line.ask("recovery", executor_ids=["dead"])

    assert reply["success"] is True
    assert (await line.ask("exist_pending_workflows", **question))["exist"] is False
    assert work.owners == {
        "w-1": ("alive", "v1"),
        "w-2": ("alive", "v1"),
        "w-3": ("dead", "v2"),
    }
    finished = await line.ask("list_workflows", body={"status": "SUCCESS", "limit": 9})
    assert finished["output"] == []


async def test_pending_work_is_counted_by_owner(dial: Dial) -> None:
    """As the SDKs count it: a group a row, and only what was asked for."""
    work = FakeWork()
    work.add("e1", "v1", "w-1", "w-2")
    work.add("e1", "v2", "w-3", "w-4")
    work.finish("w-4")
    line = await dial(work=work)

    body = {
        "group_by_executor_id": True,
        "group_by_application_version": True,
        "status": ["PENDING"],
    }
    counted = await line.ask("get_workflow_aggregates", body=body)

    assert counted["output"] == [
        {"group": {"executor_id": "e1", "application_version": "v1"}, "count": 2},
        {"group": {"executor_id": "e1", "application_version": "v2"}, "count": 1},
    ]


async def test_workflows_are_found_by_id_and_by_age(dial: Dial) -> None:
    """Finished ones too, until they are deleted."""
    work = FakeWork()
    work.add("e1", "v1", "w-1", "w-2", "w-3")
    work.finish("w-1")
    work.forget("w-2")
    line = await dial(work=work)

    async def listed(**body: Any) -> list[tuple[str, str]]:
        rows = (await line.ask("list_workflows", body=body))["output"]
        return [(row["WorkflowUUID"], row["Status"]) for row in rows]

    assert await listed(workflow_uuids=["w-1", "w-2"]) == [("w-1", "SUCCESS")]
    assert await listed(limit=1, sort_desc=True) == [("w-3", "PENDING")]
    assert await listed(limit=1) == [("w-1", "SUCCESS")]


async def test_lazy_work_stays_where_it_is(dial: Dial) -> None:
    """Success says nothing about work: that is what has to be told apart."""
    work = FakeWork(is_lazy=True)
    work.add("dead", "v1", "w-1")
    line = await dial(work=work)

    reply = await line.ask("recovery", executor_ids=["dead"])

    assert reply["success"] is True
    assert work.list_pending() == [("w-1", "dead", "v1")]
    work.finish("w-1")
    assert work.list_pending() == []


async def test_script_goes_on_with_its_last_answer(dial: Dial) -> None:
    """Each answer is given once, the last one for ever."""
    line = await dial(
        script={"recovery": [Failure("no"), Reply({"success": False}), Default()]}
    )

    replies = [await line.ask("recovery", executor_ids=["a"]) for _ in range(4)]

    assert replies[0]["error_message"] == "no"
    assert [reply.get("success") for reply in replies[1:]] == [False, True, True]


async def test_silence_is_no_answer(dial: Dial) -> None:
    """The next request is answered, the silent one is not."""
    line = await dial(script={"recovery": [Silence()]})
    await line.send("recovery", executor_ids=["a"])

    reply = await line.ask("retention")

    assert reply["type"] == "retention"


async def test_slow_answer_takes_its_time(dial: Dial, clock: FakeClock) -> None:
    """Of the clock that the test owns."""
    line = await dial(clock=clock, script={"recovery": [Slow(timedelta(minutes=4))]})
    await line.send("recovery", executor_ids=["a"])
    await line.executor.wait_for("recovery")
    await clock.advance(timedelta(minutes=3))
    assert (await line.ask("retention"))["type"] == "retention"

    await clock.advance(timedelta(minutes=1))

    assert json.loads(await line.socket.recv())["type"] == "recovery"


@pytest.mark.parametrize(
    ("answer", "received"),
    [
        (Raw("garbage"), "garbage"),
        (Raw(b"{}"), "{}"),
        (Binary(b"\x00"), b"\x00"),
        (WrongId({"a": 1}), {"type": "x", "request_id": "nobody-asked", "a": 1}),
        (WrongType("y"), {"type": "y", "request_id": "r-1"}),
        (
            Fragmented({"a": "b" * 9}, 4),
            {"type": "x", "request_id": "r-1", "a": "b" * 9},
        ),
        (Huge(9), {"type": "x", "request_id": "r-1", "pad": "x" * 9}),
    ],
)
async def test_wrong_answers_are_wrong_as_told(
    dial: Dial, answer: Answer, received: object
) -> None:
    """Each breaks exactly one rule."""
    line = await dial(script={"x": [answer]})
    await line.send("x")

    frame = await line.socket.recv()

    if isinstance(received, dict):
        frame = json.loads(frame)
        frame = {name: value for name, value in frame.items() if name in received}
    assert frame == received


@pytest.mark.parametrize(("hangup", "code"), [(Hangup(), 1006), (Hangup(4002), 4002)])
async def test_hangup_ends_the_socket(dial: Dial, hangup: Hangup, code: int) -> None:
    """With a close frame, or with a reset."""
    line = await dial(script={"x": [hangup]})
    await line.send("x")

    with pytest.raises(ConnectionClosed):
        await line.socket.recv()

    await line.executor.wait_closed()
    assert line.socket.close_code == code


async def test_executor_that_stops_reading_answers_no_ping(dial: Dial) -> None:
    """Until it goes on; it can still write."""
    line = await dial()
    line.executor.stop_reading()
    pong = await line.socket.ping()
    await line.executor.reply({"type": "x", "request_id": "r-1"})
    assert json.loads(await line.socket.recv())["type"] == "x"
    assert not pong.done()

    line.executor.go_on_reading()

    await pong


async def test_closing_says_code_and_reason(dial: Dial) -> None:
    """As any SDK may choose them."""
    line = await dial()

    await line.executor.close(4003, "going home")

    assert line.socket.close_code == 4003
    assert line.socket.close_reason == "going home"
    assert line.executor.closed.is_set()


async def test_close_by_the_server_is_known(dial: Dial) -> None:
    """Code and reason, as a test wants to look at them."""
    line = await dial()

    await line.socket.close(1012, "restarting")

    await line.executor.wait_closed()
    assert line.executor.close_code == 1012
    assert line.executor.close_reason == "restarting"
