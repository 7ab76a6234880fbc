"""The dearest replies there are hold the loop up for less than 100 ms."""

import json

import pytest

from relay.protocol.aggregates import COUNTS_LIMIT_BYTES, COUNTS_LIMIT_VALUES
from relay.protocol.frames import LENIENT_LIMIT_BYTES
from relay.protocol.messages import LISTED_ROW_LIMIT_BYTES
from tests.fuzz.stage import Stage, open_stage, perform
from tests.fuzz.test_replies import QUESTIONS, REPLIES
from tests.fuzz.wire import MARK, SEGMENT_LIMIT_BYTES, Framing, cut

LARGE_BYTES = 16 * 1024 * 1024
"""
As large as a message may be without costing 100 ms anywhere.

Larger ones are allowed; from about twice this size on, moving and checking their bytes
alone takes longer on a slow machine.
"""

LISTING_BYTES = 101 * LISTED_ROW_LIMIT_BYTES
HEAD_BYTES = 1024
"""More than what stands around the filling of a reply."""


def filled(item: bytes, size_bytes: int, *, values: int | None = None) -> bytes:
    """A list of `item`, of that size in bytes or with so many `values` if less."""
    count = size_bytes // (len(item) + 1)
    if values is not None:
        count = min(count, values)
    return b"[" + b",".join([item] * count) + b"]"


def text(letter: str, size_bytes: int) -> bytes:
    """A JSON string of that size."""
    return b'"' + letter.encode() * (size_bytes // len(letter.encode())) + b'"'


UNWANTED = {
    "a text": text("x", LARGE_BYTES),
    "a text that is not ASCII": text("é", LARGE_BYTES),
    "numbers": filled(b"1", LARGE_BYTES),
    "mappings": filled(b"{}", LARGE_BYTES),
    "what is no strict JSON": filled(b"NaN", LARGE_BYTES),
    "fractions that are no strict JSON": b"[NaN," + filled(b"1.5", LENIENT_LIMIT_BYTES),
}
"""Values of keys that nobody asked for."""

MEASURED = LENIENT_LIMIT_BYTES - HEAD_BYTES
SECOND_READING = {
    name: b"[NaN," + filled(item, MEASURED) + b"]"
    for name, item in {
        "fractions": b"1.5",
        "mappings": b'{"":1}',
        "lists": b"[[[[]]]]",
        "texts": b'"\\ud800"',
    }.items()
}
"""Just small enough to be read a second time, where all of it is built."""


def reply_with(message_type: str, field: str, value: bytes) -> bytes:
    """A reply in which `field` holds `value`, larger than the house would send it."""
    reply = {**REPLIES[message_type], "request_id": MARK, field: None}
    del reply[field]
    head = json.dumps(reply).encode().removesuffix(b"}")
    return head + b',"' + field.encode() + b'":' + value + b"}"


def hold_up(message_type: str, frame: bytes) -> None:
    """Send `frame` as the answer to that question; fails when a turn was too long."""

    async def scenario() -> float:
        async with open_stage(max_message_bytes=2 * LARGE_BYTES) as stage:
            await _answer(stage, message_type, frame)
            longest = stage.meter.longest_seconds
            await stage.check()
        return longest

    perform(scenario)


async def _answer(stage: Stage, message_type: str, frame: bytes) -> None:
    hostile = stage.hostile
    await stage.connect(hostile)
    if message_type != "executor_info":
        hostile.answer(hostile.requests[0], hostile.info)
        await stage.clock.settle()
        stage.ask_hostile(QUESTIONS[message_type])
        await stage.clock.settle()
    data = Framing().write(hostile.address(frame, message_type))
    await hostile.send(cut(data, [SEGMENT_LIMIT_BYTES]))
    await stage.clock.settle()


@pytest.mark.parametrize("filling", UNWANTED)
@pytest.mark.parametrize("message_type", ["executor_info", "list_workflows"])
def test_what_nobody_asked_for_is_skipped(message_type: str, filling: str) -> None:
    """However much of it there is, up to 16 MiB."""
    hold_up(message_type, reply_with(message_type, "unheard_of", UNWANTED[filling]))


@pytest.mark.parametrize(
    ("message_type", "field"),
    [
        *(("executor_info", name) for name in ("executor_id", "executor_metadata")),
        *(("recovery", name) for name in ("success", "type", "request_id")),
        *(("exist_pending_workflows", name) for name in ("exist", "error_message")),
        ("list_workflows", "output"),
        ("get_workflow_aggregates", "output"),
    ],
)
@pytest.mark.parametrize("item", [b"{}", b"1", b"[[]]"])
def test_what_was_asked_for_is_not_built_at_any_size(
    message_type: str, field: str, item: bytes
) -> None:
    """A list of millions in the place of a word is refused before it is one."""
    hold_up(message_type, reply_with(message_type, field, filled(item, LARGE_BYTES)))


@pytest.mark.parametrize("filling", SECOND_READING)
@pytest.mark.parametrize("message_type", ["executor_info", "recovery"])
def test_the_second_reading_is_bounded(message_type: str, filling: str) -> None:
    """What the standard library has to build fits into a turn."""
    value = SECOND_READING[filling]

    hold_up(message_type, reply_with(message_type, "unheard_of", value))


@pytest.mark.parametrize(
    "row",
    [
        {"group": {}, "count": 1},
        {"group": {"executor_id": "e" * 36, "application_version": "v"}, "count": 1},
    ],
    ids=["small", "usual"],
)
def test_the_largest_count_is_bounded(row: dict[str, object]) -> None:
    """Of as many owners as are read, in rows of any size."""
    item = json.dumps(row, separators=(",", ":")).encode()
    each = 1 + sum(map(item.count, (b",", b"{", b"[")))
    rows = filled(
        item, COUNTS_LIMIT_BYTES - HEAD_BYTES, values=COUNTS_LIMIT_VALUES // each - 10
    )

    hold_up(
        "get_workflow_aggregates", reply_with("get_workflow_aggregates", "output", rows)
    )


@pytest.mark.parametrize("item", [b"{}", b"1.5", b"[[[]]]", b'{"WorkflowUUID":"1"}'])
def test_the_largest_listing_is_bounded(item: bytes) -> None:
    """Of 101 rows, as recovery asks for; the rest of them is built for nothing."""
    rows = filled(item, LISTING_BYTES - HEAD_BYTES)

    hold_up("list_workflows", reply_with("list_workflows", "output", rows))
