"""No bytes on an executor's socket break Relay."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.effort import tries
from tests.fuzz.stage import (
    MAX_MESSAGE_BYTES,
    QUESTION,
    UPGRADE_BYTES,
    Stage,
    open_stage,
    perform,
)
from tests.fuzz.wire import (
    MARK,
    MONSTERS,
    Framing,
    cut,
    damaged,
    encode_text,
    fragmentings,
    framings,
    segment_sizes,
)

ANSWER = json.dumps(
    {"type": QUESTION.message_type, "request_id": MARK, "exist": True}
).encode()
CLOSE = Framing(opcode=8).write((1000).to_bytes(2, "big"))


def payloads() -> st.SearchStrategy[bytes]:
    """What a frame may hold: an answer, text, a code of closing, bytes, or a lot."""
    return st.one_of(
        st.just(ANSWER),
        damaged(ANSWER),
        st.binary(max_size=130),
        st.text(max_size=40).map(encode_text),
        st.tuples(st.integers(0, 5000), st.text(max_size=10)).map(
            lambda close: close[0].to_bytes(2, "big") + encode_text(close[1])
        ),
        st.sampled_from([125, 126, 65535, 65536, MAX_MESSAGE_BYTES, 2**20 + 1]).map(
            bytes
        ),
        st.sampled_from(MONSTERS).map(encode_text),
    )


def pieces() -> st.SearchStrategy[bytes]:
    """Something in the stream: a frame, a message, the half of one, or anything."""
    return st.one_of(
        st.builds(Framing.write, framings(), payloads()),
        st.builds(lambda how, what: how.write(what), fragmentings(), payloads()),
        st.just(Framing().write(ANSWER)),
        st.just(CLOSE),
        st.binary(max_size=200),
        st.just(UPGRADE_BYTES),
        st.just(Framing(opcode=0, fin=False).write(b"") * 1000),
        st.just(Framing(opcode=9).write(b"x" * 125) * 1000),
    )


@dataclass(frozen=True)
class Stream:
    """What a peer sends once it is in, and how it ends."""

    introduces_itself: bool
    data: bytes
    sizes: Sequence[int]
    reads: bool
    hangs_up: bool


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """A few pieces, now and then damaged as a whole."""
    whole = b"".join(draw(st.lists(pieces(), min_size=1, max_size=5)))
    return Stream(
        introduces_itself=draw(st.booleans()),
        data=draw(damaged(whole)),
        sizes=draw(segment_sizes()),
        reads=draw(st.booleans()),
        hangs_up=draw(st.booleans()),
    )


@given(streams())
@example(Stream(True, CLOSE, [len(CLOSE)], reads=False, hangs_up=False))
@tries(250)
def test_no_bytes_hurt_the_hub(stream: Stream) -> None:
    """The socket may end for them; everybody else is served as before."""

    async def scenario() -> float:
        async with open_stage() as stage:
            await _send(stage, stream)
            await stage.check()
        return stage.meter.longest_seconds

    perform(scenario)


async def _send(stage: Stage, stream: Stream) -> None:
    hostile = stage.hostile
    await stage.connect(hostile)
    if stream.introduces_itself:
        hostile.answer(hostile.requests[0], hostile.info)
        await stage.clock.settle()
    stage.ask_hostile(QUESTION)
    await stage.clock.settle()
    hostile.transport.is_stuck = not stream.reads
    data = hostile.address(stream.data, QUESTION.message_type)
    await hostile.send(cut(data, stream.sizes))
    if stream.hangs_up:
        hostile.transport.abort()


@given(
    st.lists(st.one_of(st.binary(max_size=60), st.just(b"\r\n")), max_size=6),
    st.booleans(),
)
@tries(150)
def test_no_upgrade_request_hurts_the_hub(parts: list[bytes], is_close: bool) -> None:
    """uvicorn hands over what it took for a request; we do not rely on it."""
    if is_close:
        # Near to a good one, where the interesting differences are.
        lines = UPGRADE_BYTES.split(b"\r\n")
        data = b"\r\n".join([*lines[:-2], *parts, *lines[-2:]])
    else:
        data = b"".join(parts) + b"\r\n\r\n"

    async def scenario() -> float:
        async with open_stage() as stage:
            await stage.connect(stage.hostile, data)
            await stage.check()
        return stage.meter.longest_seconds

    perform(scenario)
