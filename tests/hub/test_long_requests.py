"""Requests with a long text: written in pieces, while others have their turns."""

import asyncio
import json
from datetime import timedelta

import pytest

from relay.errors import ConnectionLostError, ReplyTimeoutError
from relay.hub.connection import Connection
from relay.hub.events import Loss
from relay.ids import AppVersion, ExecutorId
from relay.protocol.long_requests import PIECE_CHARS
from relay.protocol.messages import Acknowledgement, ExistPendingWorkflowsRequest
from relay.protocol.workflow_orders import ImportWorkflowRequest
from relay.tasks import TaskSet
from relay.testing.clock import FakeClock
from tests.hub.paper import PaperLink, open_connection

PIECES = 40
LONG = ImportWorkflowRequest(serialized_workflow="A" * (PIECES * PIECE_CHARS))
SHORT = ExistPendingWorkflowsRequest(ExecutorId("e"), AppVersion("v"))
SPAN = timedelta(seconds=25)


@pytest.fixture
def link() -> PaperLink:
    return PaperLink()


@pytest.fixture
def connection(link: PaperLink, clock: FakeClock) -> Connection:
    return open_connection(link, clock)


def ask(tasks: TaskSet, connection: Connection) -> "asyncio.Task[Acknowledgement]":
    return tasks.spawn(connection.ask(LONG, SPAN), name="ask")


async def test_others_have_turns_while_a_long_request_is_written(
    connection: Connection, link: PaperLink, clock: FakeClock
) -> None:
    """What they ask in one of them leaves in that one."""
    turns = 0
    async with TaskSet("asking") as tasks:
        ask(tasks, connection)
        while len(link.sent) < 2:
            await clock.sleep(timedelta(0))
            turns += 1
            if turns == PIECES // 2:
                tasks.spawn(connection.ask(SHORT, SPAN), name="short")

        assert turns >= PIECES
        assert [json.loads(frame)["type"] for frame in link.sent] == [
            "exist_pending_workflows",
            "import_workflow",
        ]
        assert json.loads(link.sent[1])["serialized_workflow"] == (
            LONG.serialized_workflow
        )


async def test_connection_that_ends_meanwhile_has_not_got_the_request(
    connection: Connection, link: PaperLink, clock: FakeClock
) -> None:
    """Another executor may be asked."""
    async with TaskSet("asking") as tasks:
        asking = ask(tasks, connection)
        await clock.sleep(timedelta(0))
        connection.end(Loss.RESET)

        with pytest.raises(ConnectionLostError) as failure:
            await asking

    assert not failure.value.delivered
    assert link.sent == []


async def test_asker_that_gives_up_meanwhile_has_asked_nothing(
    connection: Connection, link: PaperLink, clock: FakeClock
) -> None:
    """The writing ends with it."""
    async with TaskSet("asking") as tasks:
        asking = ask(tasks, connection)
        await clock.sleep(timedelta(0))
        asking.cancel()
        await clock.settle()

    assert link.sent == []
    assert connection.in_flight == 0


async def test_writing_counts_in_the_time_that_the_asker_gives(
    connection: Connection, link: PaperLink
) -> None:
    """Nothing is sent when it is over."""
    with pytest.raises(ReplyTimeoutError) as failure:
        await connection.ask(LONG, timedelta(0))

    assert not failure.value.delivered
    assert link.sent == []
