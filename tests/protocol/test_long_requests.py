"""Requests with a long text: the same frame, written in pieces."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from relay.errors import InvalidInputError
from relay.ids import RequestId
from relay.protocol import encode
from relay.protocol.long_requests import PIECE_CHARS, encode_in_steps
from relay.protocol.workflow_orders import CancelRequest, ImportWorkflowRequest

ID = RequestId("id-1")


def take_all(request: Any) -> tuple[int, tuple[bytes, ...]]:
    """How many steps there are, and the pieces."""
    steps = encode_in_steps(request, ID)
    for count in itertools.count():
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
    raise AssertionError("it never ends")


@dataclass(frozen=True)
class TwoTexts:
    """A request with a long text in its middle and one at its end."""

    message_type: ClassVar[str] = "two_texts"

    def fields(self) -> Mapping[str, object]:
        return {
            "first": "a" * (2 * PIECE_CHARS),
            "between": "import_workflow",
            "last": "b" * (PIECE_CHARS + 1),
        }

    def decode_reply(self, frame: bytes) -> None:
        """Nobody answers."""


@pytest.mark.parametrize(
    "text",
    [
        "A" * (3 * PIECE_CHARS),
        'q"\\\n\x01/' * PIECE_CHARS,
        "ä€😀" * PIECE_CHARS,
        "A" * (PIECE_CHARS - 1) + "😀" + "A" * PIECE_CHARS,
        "id-1:serialized_workflow" * PIECE_CHARS,
    ],
    ids=["ascii", "escaped", "wide", "across", "mark"],
)
def test_frame_in_pieces_is_the_same_frame(text: str) -> None:
    """Wherever a piece ends, and whatever is in it."""
    request = ImportWorkflowRequest(serialized_workflow=text)

    steps, pieces = take_all(request)

    assert b"".join(pieces) == encode(request, ID).encode()
    assert steps == -(-len(text) // PIECE_CHARS)
    assert max(map(len, pieces)) <= 12 * PIECE_CHARS


def test_several_long_texts_stand_where_they_belong() -> None:
    """And what is between them is written as ever."""
    _, pieces = take_all(TwoTexts())

    assert b"".join(pieces) == encode(TwoTexts(), ID).encode()


def test_short_request_is_one_piece_without_a_step() -> None:
    """Its frame leaves in the same turn of the loop."""
    request = CancelRequest(workflow_ids=("w-1",))

    assert take_all(request) == (0, (encode(request, ID).encode(),))


@pytest.mark.parametrize("bad", ["\0", "\ud83d"])
def test_text_that_must_not_be_sent_is_refused_wherever_it_is(bad: str) -> None:
    """With its place, as in a short one."""
    request = ImportWorkflowRequest(serialized_workflow="A" * PIECE_CHARS + bad)

    with pytest.raises(InvalidInputError) as refused:
        take_all(request)

    assert refused.value.location == "import_workflow.serialized_workflow"
