"""The question, as SDKs of every age answer it."""

import pytest

from relay.dispatch import Dispatcher
from relay.errors import ExecutorFailedError, ReplyInvalidError, UnknownMessageError
from relay.ids import ApplicationId, ExecutorId, ExecutorRef, WorkflowId
from relay.protocol.messages import (
    ExecutorInfo,
    ExistPendingWorkflowsRequest,
    ListWorkflowsRequest,
    WorkflowStatus,
)
from relay.protocol.sdk import capabilities_of
from relay.recovery.inquiry import Inquiry
from relay.recovery.policy import (
    NoAnswer,
    NobodyToAsk,
    NothingPending,
    Unanswerable,
    WorkRemains,
)
from relay.testing.clock import FakeClock
from tests.recovery.records import V1, V2, dead_ref, make_recovery
from tests.recovery.stage import (
    MODERN,
    FakePeer,
    FakePeers,
    Workflows,
    failing,
    lost,
    replying,
    summary,
)

DEAD = ExecutorId("dead")
PEER = ExecutorId("peer")
RECORD = make_recovery()
UNKNOWN = UnknownMessageError(PEER, "Unknown message type")


class Room:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.peers = FakePeers()
        self.workflows = Workflows()
        self.inquiry = Inquiry(Dispatcher(self.peers, self.clock))

    def connect(self, name: str = "peer") -> FakePeer:
        peer = FakePeer(
            dead_ref(name),
            ExecutorInfo(ExecutorId(name), V2, None, None, None, None),
            capabilities_of(MODERN),
            self.workflows,
            self.clock,
        )
        self.peers.peers.append(peer)
        return peer

    def connect_old(self) -> FakePeer:
        """An executor that does not know the question."""
        peer = self.connect()
        peer.on(ExistPendingWorkflowsRequest, failing(UNKNOWN))
        return peer


def remaining(*ids: str) -> WorkRemains:
    """That these are left, each by its name."""
    workflows = tuple(WorkflowId(id_) for id_ in ids)
    return WorkRemains(PEER, len(ids), workflows, dict.fromkeys(workflows, "work"))


class Compared:
    """An agreement of some executors, by name; nothing is disputed."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def is_disputed(self, application_id: ApplicationId) -> bool:
        del application_id
        return False

    def is_compared(self, ref: ExecutorRef) -> bool:
        return ref.executor_id in self._names

    def may_agree(self, first: ExecutorRef, second: ExecutorRef) -> bool:
        del first, second
        return True


@pytest.fixture
def room() -> Room:
    return Room()


async def test_no_is_nothing_pending(room: Room) -> None:
    """One small question, and no listing."""
    peer = room.connect()

    assert await room.inquiry.ask(RECORD) == NothingPending(PEER)
    assert peer.requests == [ExistPendingWorkflowsRequest(DEAD, V1)]


async def test_yes_is_counted_and_listed(room: Room) -> None:
    """By executor, version and state, without payloads, within the application."""
    peer = room.connect()
    room.workflows.add(DEAD, V1, "w-1", "w-2")

    finding = await room.inquiry.ask(RECORD)

    assert finding == remaining("w-1", "w-2")
    assert peer.asked(ListWorkflowsRequest) == [
        ListWorkflowsRequest(
            (DEAD,),
            (V1,),
            (WorkflowStatus.PENDING,),
            101,
            RECORD.executor.application.name,
        )
    ]


async def test_more_than_a_hundred_are_not_all_listed(room: Room) -> None:
    """The count says "more than 100", the ids are the first hundred."""
    room.connect()
    room.workflows.add(DEAD, V1, *(f"w-{n}" for n in range(150)))

    finding = await room.inquiry.ask(RECORD)

    assert isinstance(finding, WorkRemains)
    assert finding.count == 101
    assert len(finding.ids) == 100


async def test_yes_stands_though_the_listing_fails(room: Room) -> None:
    """How much there is, is not known then."""
    peer = room.connect()
    peer.on(ExistPendingWorkflowsRequest, replying(True))
    peer.on(ListWorkflowsRequest, lost("peer", delivered=True))

    assert await room.inquiry.ask(RECORD) == WorkRemains(PEER, None, ())


async def test_yes_stands_though_the_listing_is_empty(room: Room) -> None:
    """The two may be filtered differently; the question is what counts."""
    peer = room.connect()
    peer.on(ExistPendingWorkflowsRequest, replying(True))

    assert await room.inquiry.ask(RECORD) == WorkRemains(PEER, None, ())


async def test_nobody_connected_is_nobody_to_ask(room: Room) -> None:
    """Everybody may have left since it was decided to ask."""
    assert await room.inquiry.ask(RECORD) == NobodyToAsk()


@pytest.mark.parametrize(
    "error",
    [
        ExecutorFailedError(PEER, "database down"),
        ReplyInvalidError(PEER, "says neither yes nor no"),
    ],
)
async def test_useless_answer_is_no_answer(room: Room, error: Exception) -> None:
    """It is never read as "nothing is pending"."""
    room.connect().on(ExistPendingWorkflowsRequest, failing(error))

    assert await room.inquiry.ask(RECORD) == NoAnswer(str(error))


async def test_wanted_executor_is_asked_first(room: Room) -> None:
    """Whoever has not answered an order has to be heard."""
    for name in ("a", "b", "c"):
        room.connect(name)

    for name in ("a", "b", "c", "a"):
        finding = await room.inquiry.ask(RECORD, first=ExecutorId(name))
        assert finding == NothingPending(ExecutorId(name))


async def test_executors_that_were_compared_are_asked_first(room: Room) -> None:
    """One that has just connected may truly see nothing, in another database."""
    for name in ("a", "b", "c"):
        room.connect(name)
    inquiry = Inquiry(Dispatcher(room.peers, room.clock), agreement=Compared("b"))

    for _ in range(4):
        assert await inquiry.ask(RECORD) == NothingPending(ExecutorId("b"))


async def test_listing_answers_for_sdks_without_the_question(room: Room) -> None:
    """Rows of the dead executor are work, no rows are none."""
    room.connect_old()

    assert await room.inquiry.ask(RECORD) == NothingPending(PEER)
    room.workflows.add(DEAD, V1, "w-1")
    assert await room.inquiry.ask(RECORD) == remaining("w-1")


async def test_listing_that_ignores_the_filter_answers_nothing(room: Room) -> None:
    """The dead executor's rows may stand beyond the limit."""
    peer = room.connect_old()
    peer.on(ListWorkflowsRequest, replying((summary("w-9", ExecutorId("somebody")),)))

    assert await room.inquiry.ask(RECORD) == Unanswerable()


async def test_own_rows_among_others_are_work(room: Room) -> None:
    """What is listed of the dead executor is pending, whatever else is listed."""
    peer = room.connect_old()
    rows = (summary("w-9", ExecutorId("somebody")), summary("w-1", DEAD))
    peer.on(ListWorkflowsRequest, replying(rows))

    assert await room.inquiry.ask(RECORD) == remaining("w-1")


async def test_rows_of_another_version_are_not_this_work(room: Room) -> None:
    """An executor id may be reused by a later version of the application."""
    peer = room.connect_old()
    peer.on(ListWorkflowsRequest, replying((summary("w-9", DEAD, V2),)))

    assert await room.inquiry.ask(RECORD) == Unanswerable()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UNKNOWN, Unanswerable()),
        (ExecutorFailedError(PEER, "no"), NoAnswer("executor peer failed: no")),
    ],
)
async def test_failing_fallback_proves_nothing(
    room: Room, error: Exception, expected: object
) -> None:
    """Without a listing nobody knows; with a broken one, not yet."""
    room.connect_old().on(ListWorkflowsRequest, failing(error))

    assert await room.inquiry.ask(RECORD) == expected


async def test_fallback_finds_everybody_gone(room: Room) -> None:
    """The only executor left after it had refused the question."""
    peer = room.connect()

    async def refuse_and_leave(_: object) -> object:
        room.peers.peers.remove(peer)
        raise UNKNOWN

    peer.on(ExistPendingWorkflowsRequest, refuse_and_leave)

    assert await room.inquiry.ask(RECORD) == NobodyToAsk()
