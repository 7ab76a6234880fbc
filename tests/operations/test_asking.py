"""Which executor is asked for a caller, how long, and how often."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.dispatch import Dispatcher, Repeat
from relay.errors import (
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    InvalidInputError,
    NoExecutorError,
    NotFoundError,
    RelayError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
    UnknownMessageError,
)
from relay.ids import AppVersion, ExecutorId, RequestId
from relay.operations.asking import TRY_TIMEOUT, Executors
from relay.protocol import encode
from relay.protocol.messages import Acknowledgement, ExecutorInfo
from relay.protocol.queues import GetQueueRequest
from relay.protocol.schedules import ListSchedulesRequest
from relay.protocol.sdk import Sdk, capabilities_of
from relay.protocol.versions import ListApplicationVersionsRequest, VersionRow
from relay.protocol.workflow_orders import CancelRequest
from relay.protocol.workflows import SearchWorkflowsRequest, WorkflowFilter
from relay.testing.clock import FakeClock
from tests.recovery.records import SHOP, V1, dead_ref, make_application, make_settings
from tests.recovery.stage import (
    MODERN,
    Behaviour,
    FakePeer,
    FakePeers,
    Workflows,
    failing,
    lost,
    replying,
    silence,
)

V2 = AppVersion("v2")
DONE = Acknowledgement(success=True)
CHANGE = CancelRequest(workflow_ids=("w-1",))
READ = GetQueueRequest(queue_name="mail")
SEARCH = SearchWorkflowsRequest(
    filter=WorkflowFilter(attributes={"customer": "acme"}), application=SHOP.name
)
ABOUT = ("workflow", "w-1")
OLD_JAVA = Sdk("java", "0.9.0")
SECOND = timedelta(seconds=1)


class Room:
    """An application with executors whose answers a test decides."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.peers = FakePeers()
        self.application = make_application(SHOP)
        self.executors = Executors(
            Dispatcher(self.peers, self.clock), make_settings(**settings), self.clock
        )

    def connect(
        self,
        name: str,
        behaviour: Behaviour,
        *,
        version: AppVersion = V1,
        sdk: Sdk = MODERN,
    ) -> FakePeer:
        """One that behaves like this; of several the earlier one is asked first."""
        info = ExecutorInfo(
            ExecutorId(name), version, None, sdk.language, sdk.version, None
        )
        peer = FakePeer(
            dead_ref(name, SHOP),
            info,
            capabilities_of(sdk),
            Workflows(),
            self.clock,
            in_flight=len(self.peers.peers),
        )
        for request_type in (CancelRequest, GetQueueRequest, SearchWorkflowsRequest):
            peer.on(request_type, behaviour)
        self.peers.peers.append(peer)
        return peer

    def know_versions(self, *names: AppVersion) -> None:
        """Everybody says that these exist, the latest first."""
        now = datetime(2026, 1, 1, tzinfo=UTC)
        rows = tuple(
            VersionRow(
                version_id=name,
                version_name=name,
                version_timestamp=now,
                created_at=now,
            )
            for name in names
        )
        for peer in self.peers.peers:
            peer.on(ListApplicationVersionsRequest, replying(rows))

    async def read(self, **options: Any) -> object:
        return await self.executors.read(self.application, READ, **options)

    async def change(self, repeat: Repeat = Repeat.ALWAYS, **options: Any) -> object:
        return await self.executors.change(
            self.application, CHANGE, repeat=repeat, **options
        )


@pytest.fixture
def room() -> Room:
    return Room()


FIRST = ExecutorId("first")
ALL = frozenset(Repeat)
UNLESS_DELIVERED = frozenset({Repeat.ALWAYS, Repeat.UNDELIVERED})


def unanswered(*, delivered: bool) -> Behaviour:
    return failing(ReplyTimeoutError(FIRST, SECOND, delivered=delivered))


@pytest.mark.parametrize("repeat", Repeat)
@pytest.mark.parametrize(
    ("befalls", "goes_on"),
    [
        pytest.param(
            lost("first", delivered=False), UNLESS_DELIVERED, id="lost before"
        ),
        pytest.param(
            lost("first", delivered=True), frozenset({Repeat.ALWAYS}), id="lost after"
        ),
        pytest.param(unanswered(delivered=False), UNLESS_DELIVERED, id="late before"),
        pytest.param(
            unanswered(delivered=True), frozenset({Repeat.ALWAYS}), id="late after"
        ),
        pytest.param(
            failing(ExecutorBusyError(FIRST, 1000)), UNLESS_DELIVERED, id="busy"
        ),
        pytest.param(
            failing(UnknownMessageError(FIRST, "Unknown message type")),
            ALL,
            id="unknown message",
        ),
        pytest.param(
            failing(ExecutorFailedError(FIRST, "out of memory")),
            frozenset(),
            id="error reply",
        ),
        pytest.param(
            failing(ReplyInvalidError(FIRST, "no JSON")), frozenset(), id="unusable"
        ),
        pytest.param(
            failing(ReplyTooLargeError(FIRST, 100)), frozenset(), id="too large"
        ),
    ],
)
async def test_change_is_repeated_only_as_it_may_be(
    room: Room, repeat: Repeat, befalls: Behaviour, goes_on: frozenset[Repeat]
) -> None:
    """Each thing that can befall a request, for each kind of change."""
    first = room.connect("first", befalls)
    second = room.connect("second", replying(DONE))

    if repeat in goes_on:
        assert await room.change(repeat) is DONE
    else:
        with pytest.raises(DispatchError):
            await room.change(repeat)

    assert len(first.requests) == 1
    assert len(second.requests) == (1 if repeat in goes_on else 0)


@pytest.mark.parametrize(
    ("repeat", "asked"),
    [(Repeat.ALWAYS, 2), (Repeat.UNDELIVERED, 1), (Repeat.NEVER, 1)],
)
async def test_silent_executor_costs_a_try_only_where_another_may_be_asked(
    room: Room, repeat: Repeat, asked: int
) -> None:
    """What was delivered and must not be repeated is waited for to the end."""
    room.connect("first", silence)
    second = room.connect("second", replying(DONE))

    asking = asyncio.gather(room.change(repeat), return_exceptions=True)
    await room.clock.advance(TRY_TIMEOUT)
    assert len(second.requests) == asked - 1
    await room.clock.advance(timedelta(seconds=15))

    [outcome] = await asking
    if asked == 2:
        assert outcome is DONE
    else:
        assert isinstance(outcome, ReplyTimeoutError)
        assert outcome.timeout == timedelta(seconds=25)


@pytest.mark.parametrize("delivered", [True, False])
async def test_read_goes_to_the_next_executor(room: Room, delivered: bool) -> None:
    """Nothing changes however often it is asked."""
    room.connect("first", lost("first", delivered=delivered))
    room.connect("second", replying("mail"))

    assert await room.read() == "mail"


async def test_read_of_the_only_executor_waits_as_long_as_the_caller_does(
    room: Room,
) -> None:
    """It would be no faster to ask it twice."""
    room.connect("only", silence)

    asking = asyncio.gather(room.read(), return_exceptions=True)
    await room.clock.advance(timedelta(seconds=25))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert outcome.timeout == timedelta(seconds=25)


async def test_time_for_all_tries_is_a_setting() -> None:
    """Clients give up after 30 s."""
    room = Room(request_timeout_secs=12)
    for number in range(3):
        room.connect(f"e-{number}", silence)

    asking = asyncio.gather(room.read(), return_exceptions=True)
    await room.clock.advance(timedelta(seconds=12))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert sum(len(peer.requests) for peer in room.peers.peers) == 2


@pytest.mark.parametrize("ask", [Room.read, Room.change])
async def test_slow_operation_may_take_its_time_at_one_executor(
    room: Room, ask: Callable[..., Any]
) -> None:
    """An export of minutes is not begun at the next one after ten seconds."""
    room.connect("first", silence)
    second = room.connect("second", replying(DONE))

    asking = asyncio.gather(
        ask(room, within=timedelta(minutes=5)), return_exceptions=True
    )
    await room.clock.advance(timedelta(minutes=5))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert second.requests == []


async def test_nobody_connected_is_told(room: Room) -> None:
    """The caller may try again later."""
    with pytest.raises(NoExecutorError):
        await room.read()


@pytest.mark.parametrize("ask", [Room.read, Room.change])
async def test_error_of_an_executor_is_told_as_what_it_means(
    room: Room, ask: Callable[..., Any]
) -> None:
    """Of what was asked for; the others would say the same."""
    room.connect("first", failing(ExecutorFailedError(FIRST, "Workflow a not found")))
    second = room.connect("second", replying(DONE))

    with pytest.raises(NotFoundError) as caught:
        await ask(room, about=ABOUT)

    assert (caught.value.kind, caught.value.name) == ABOUT
    assert second.requests == []


async def test_whole_error_text_is_in_the_log_at_debug_only(room: Room) -> None:
    """It may hold row values; the caller gets one line of it."""
    text = "Traceback\n  secret\nRuntimeError: no"
    room.connect("first", failing(ExecutorFailedError(FIRST, text)))

    with capture_logs() as logs, pytest.raises(ExecutorFailedError) as caught:
        await room.read()

    assert caught.value.summary == "RuntimeError: no"
    [entry] = logs
    assert (entry["log_level"], entry["event"]) == ("debug", "executor_failed")
    assert (entry["executor_id"], entry["error"]) == ("first", text)


@pytest.mark.parametrize(
    "text",
    [
        "Traceback\n  f('secret')\nValueError: bad 'secret'",
        "invalid input syntax for type json: secret",
    ],
)
async def test_error_text_of_a_private_application_goes_nowhere(
    room: Room, text: str
) -> None:
    """Its last line, too, often holds the value that was wrong."""
    room.application = replace(room.application, private_mode=True)
    room.connect("first", failing(ExecutorFailedError(FIRST, text)))

    with capture_logs() as logs, pytest.raises(RelayError) as caught:
        await room.read()

    assert "private mode" in str(caught.value)
    assert "secret" not in str((logs, caught.value, caught.value.__dict__))


async def test_what_an_error_of_a_private_application_means_is_told(room: Room) -> None:
    room.application = replace(room.application, private_mode=True)
    room.connect("first", failing(ExecutorFailedError(FIRST, "Workflow a not found")))

    with pytest.raises(NotFoundError, match="w-1"):
        await room.read(about=ABOUT)


# What SDKs do not know.


async def test_executor_that_would_ignore_a_filter_is_passed_over(room: Room) -> None:
    """Fleets may be mixed; a wrong answer is worse than a busier executor."""
    old = room.connect("old", replying("everything"), sdk=OLD_JAVA)
    room.connect("new", replying("what was asked for"))

    answer: object = await room.executors.read(room.application, SEARCH)

    assert answer == "what was asked for"
    assert old.requests == []


async def test_filter_that_everybody_would_ignore_is_refused(room: Room) -> None:
    """The caller reads which one, and whose fault it is."""
    room.connect("old", replying("everything"), sdk=OLD_JAVA)

    with pytest.raises(InvalidInputError, match=r"java 0\.9\.0") as caught:
        await room.executors.read(room.application, SEARCH)

    assert caught.value.location == "body.attributes"


async def test_a_filter_is_looked_at_once_however_many_executors_have_the_same_sdk(
    room: Room,
) -> None:
    """It may name ten thousand workflows, and there may be as many executors."""

    class CountedFilter(WorkflowFilter):
        looks = 0

        def used_options(self) -> tuple[str, ...]:
            type(self).looks += 1
            return super().used_options()

    for number in range(50):
        room.connect(f"e-{number}", replying("never"), sdk=OLD_JAVA)
    counted = CountedFilter(attributes={"customer": "acme"})
    search = SearchWorkflowsRequest(filter=counted, application=SHOP.name)

    with pytest.raises(InvalidInputError, match="attributes"):
        await room.executors.read(room.application, search)
    assert CountedFilter.looks == 1


async def test_executor_that_does_not_know_the_message_is_not_asked(room: Room) -> None:
    """Old Java would not even answer."""
    old = room.connect("old", replying("queue"), sdk=Sdk("java", "0.7.0"))

    with pytest.raises(UnknownMessageError, match=r"java 0\.7\.0.*get_queue"):
        await room.read()
    room.connect("new", replying("mail"))

    assert await room.read() == "mail"
    assert old.requests == []


async def test_executor_of_an_unknown_sdk_is_tried(room: Room) -> None:
    """It may well know."""
    room.connect("own", replying("mail"), sdk=Sdk(None, None))

    assert await room.read() == "mail"


@pytest.mark.parametrize(
    ("request_", "location"),
    [
        (CancelRequest(workflow_ids=("a\0b",)), "body.workflowId"),
        (
            SearchWorkflowsRequest(
                filter=WorkflowFilter(user=("a\0b", "c")), application=SHOP.name
            ),
            "body.user",
        ),
        (
            SearchWorkflowsRequest(
                filter=WorkflowFilter(attributes={"a": {"b": "a\0b"}}),
                application=SHOP.name,
            ),
            "body.attributes",
        ),
        (
            ListSchedulesRequest(
                application=SHOP.name,
                status=(),
                workflow_name=(),
                schedule_name_prefix=("a\0b",),
                load_context=False,
            ),
            "query.scheduleNamePrefix",
        ),
    ],
)
async def test_value_that_cannot_be_sent_is_named_as_the_caller_knows_it(
    room: Room, request_: Any, location: str
) -> None:
    """The encoder knows wire names only."""

    async def write(request: Any) -> object:
        return encode(request, RequestId("r"))

    peer = room.connect("first", write)
    peer.on(type(request_), write)

    with pytest.raises(InvalidInputError) as caught:
        await room.executors.read(room.application, request_)

    assert caught.value.location == location


# The latest version.


async def test_only_the_latest_version_may_be_asked_to(room: Room) -> None:
    """However busy its executor is."""
    old = room.connect("old", replying(DONE), version=V1)
    new = room.connect("new", replying(DONE), version=V2)
    room.know_versions(V2, V1)

    await room.change(latest_version=True)

    assert old.asked(CancelRequest) == []
    assert len(new.asked(CancelRequest)) == 1


async def test_nobody_of_the_latest_version_is_told(room: Room) -> None:
    """With that version, for somebody has to start it."""
    room.connect("old", replying(DONE), version=V1)
    room.know_versions(V2, V1)

    with pytest.raises(NoExecutorError, match="latest version 'v2'") as caught:
        await room.change(latest_version=True)

    assert caught.value.app_version == V2


@pytest.mark.parametrize(
    "versions",
    [replying(()), failing(UnknownMessageError(FIRST, "Unknown message type"))],
)
async def test_without_a_latest_version_everybody_may_be_asked_to(
    room: Room, versions: Behaviour
) -> None:
    """Old SDKs have no versions."""
    peer = room.connect("first", replying(DONE))
    peer.on(ListApplicationVersionsRequest, versions)

    assert await room.change(latest_version=True) is DONE


async def test_time_of_the_first_question_counts(room: Room) -> None:
    """Both together take no longer than the caller waits."""

    async def think(_: object) -> object:
        await room.clock.sleep(timedelta(seconds=5))
        return ()

    room.connect("only", silence).on(ListApplicationVersionsRequest, think)

    asking = asyncio.gather(room.change(latest_version=True), return_exceptions=True)
    await room.clock.advance(timedelta(seconds=25))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert outcome.timeout == timedelta(seconds=20)
