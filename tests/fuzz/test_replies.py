"""No reply breaks Relay: any JSON type at any field of any message, in any pieces."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay.ids import AppName
from relay.protocol import (
    FrameError,
    Request,
    aggregates,
    decode_envelope,
    messages,
    queues,
    schedules,
    statistics,
    versions,
    workflow_orders,
    workflows,
)
from tests.fuzz.effort import tries
from tests.fuzz.stage import Stage, open_stage, perform
from tests.fuzz.wire import (
    JSON_KINDS,
    MARK,
    MONSTERS,
    Fragmenting,
    Path,
    cut,
    damaged,
    encode_text,
    fragmentings,
    json_texts,
    list_paths,
    render,
    segment_sizes,
)
from tests.protocol.conversations import list_exchanges
from tests.protocol.test_workflow_recordings import RECORDINGS, build

LIMITS = queues.ListQueueLimitsRequest(AppName("shop"))

EXCHANGES = [
    *(
        (exchange.name, exchange.request, json.loads(exchange.frame))
        for exchange in list_exchanges()
        if exchange.request is not None and not exchange.is_failure
    ),
    *(
        (recording.id, build(reply["type"], ask), reply)
        for recording in RECORDINGS
        for ask, reply in [(recording.values[0]["ask"], recording.values[0]["reply"])]
    ),
    *(
        (f"{exchange.name}, limits", LIMITS, json.loads(exchange.frame))
        for exchange in list_exchanges()
        if isinstance(exchange.request, queues.ListQueuesRequest)
        and not exchange.is_failure
    ),
]
"""A name, a question and a real reply to it."""

ROOMS = (
    *(messages, aggregates, queues, schedules),
    *(statistics, versions, workflow_orders, workflows),
)


def call(request: Request[Any]) -> str:
    """
    The name of a kind of question: its message type, for those that Relay asks itself.

    Some messages are asked in several ways.
    """
    kind = type(request)
    is_internal = kind.__module__ in (messages.__name__, aggregates.__name__)
    return kind.message_type if is_internal else kind.__name__


QUESTIONS: dict[str, Request[Any]] = {
    call(request): request for _, request, _ in EXCHANGES
}
REPLIES: dict[str, Any] = {call(request): reply for _, request, reply in EXCHANGES}
"""A real reply to each kind of question."""


def read(request: Request[Any], frame: bytes) -> None:
    """Read `frame` as the connection does; it is a reply, or a `FrameError`."""
    with suppress(FrameError):
        decode_envelope(frame)
        request.decode_reply(frame)


def test_there_is_a_reply_to_every_message() -> None:
    """A message that is new needs an exchange with a real executor."""
    members: list[Any] = [member for room in ROOMS for member in vars(room).values()]

    assert {
        member
        for member in members
        if hasattr(member, "decode_reply") and hasattr(member, "message_type")
    } == {type(request) for request in QUESTIONS.values()}


@pytest.mark.parametrize(
    ("request_", "reply"),
    [pytest.param(request, reply, id=name) for name, request, reply in EXCHANGES],
)
def test_every_type_at_every_field(request_: Request[Any], reply: Any) -> None:
    """Of every reply that was recorded: it is read, or refused as a frame."""
    for path in list_paths(reply):
        for value in JSON_KINDS:
            read(request_, encode_text(render(reply, path, value)))


@pytest.mark.parametrize("question", sorted(REPLIES))
def test_every_monster_at_every_field(question: str) -> None:
    """Too deep, too long, too many: refused, or cut, and no interpreter is hurt."""
    reply = REPLIES[question]

    for path in list_paths(reply):
        for monster in MONSTERS:
            text = render(reply, path, monster)
            read(QUESTIONS[question], encode_text(text))


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, bytes]:
    """A question, and something like a reply to it for the request `MARK`."""
    question = draw(st.sampled_from(sorted(REPLIES)))
    reply = {**REPLIES[question], "request_id": MARK}
    path: Path = draw(st.sampled_from(list(list_paths(reply))))
    text = render(reply, path, draw(json_texts()))
    return question, draw(damaged(encode_text(text)))


@given(replies())
@tries(500)
def test_any_reply_is_read_or_refused(reply: tuple[str, bytes]) -> None:
    """Nothing but a `FrameError` comes out of the readers."""
    question, frame = reply

    read(QUESTIONS[question], frame)


@dataclass(frozen=True)
class Conversation:
    """What a hostile executor answers: first who it is, then the questions."""

    information: bytes | None
    answers: Sequence[tuple[str, bytes]]
    order: Sequence[int] | None
    """In which order they come if all is asked first; else each after its question."""
    is_late: bool
    """Whether those who asked first have given up by then."""
    fragmenting: Fragmenting
    sizes: Sequence[int]


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Good or bad introductions, and up to four answers in any order and in pieces."""
    information = None
    if draw(st.booleans()):
        info = {**REPLIES["executor_info"], "request_id": MARK}
        path = draw(st.sampled_from(list(list_paths(info))))
        information = encode_text(render(info, path, draw(json_texts())))
    answers = draw(st.lists(replies(), max_size=4))
    order = draw(st.none() | st.permutations(range(len(answers))))
    fragmenting, sizes = draw(fragmentings()), draw(segment_sizes())
    is_late = draw(st.booleans())
    return Conversation(information, answers, order, is_late, fragmenting, sizes)


LATE = Conversation(
    information=None,
    answers=[
        (name, json.dumps({**REPLIES[name], "request_id": MARK}).encode())
        for name in ("exist_pending_workflows", "recovery")
    ],
    order=[1, 0],
    is_late=True,
    fragmenting=Fragmenting(),
    sizes=[1000],
)


@given(conversations())
@example(LATE)
@tries(200)
def test_no_conversation_hurts_the_hub(conversation: Conversation) -> None:
    """The executor may be lost or unheard of; everybody else is served as before."""

    async def scenario() -> float:
        async with open_stage() as stage:
            await _converse(stage, conversation)
            await stage.check()
        return stage.meter.longest_seconds

    perform(scenario)


async def _converse(stage: Stage, conversation: Conversation) -> None:
    hostile = stage.hostile
    await stage.connect(hostile)

    async def say(message: bytes, message_type: str) -> None:
        message = hostile.address(message, message_type)
        frames = conversation.fragmenting.write(message)
        await hostile.send(cut(frames, conversation.sizes))
        await stage.clock.settle()

    if conversation.information is None:
        hostile.answer(hostile.requests[0], hostile.info)
        await stage.clock.settle()
    else:
        await say(conversation.information, "executor_info")
    answers = conversation.answers
    if conversation.order is not None:
        for question, _ in answers:
            stage.ask_hostile(QUESTIONS[question])
        await stage.clock.settle()
        if conversation.is_late:
            await stage.wait_in_vain()
        answers = [answers[number] for number in conversation.order]
    for question, message in answers:
        if conversation.order is None:
            stage.ask_hostile(QUESTIONS[question])
            await stage.clock.settle()
        await say(message, QUESTIONS[question].message_type)
