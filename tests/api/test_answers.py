"""Long answers are written in portions, and are what the short way would have made."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from starlette.responses import Response

from relay.clock import SystemClock
from relay.protocol.queues import QueueRow
from relay.protocol.workflows import StreamRow
from relay_api.answers import (
    PIECE_CHARS,
    PORTION_BYTES,
    PORTION_ROWS,
    Mirror,
    Properties,
    answer_list,
    answer_object,
    answer_pages,
    dump,
)
from relay_api.routes.workflows import Event, StreamEntry
from tests.api.house import House

SCOPE: dict[str, Any] = {"type": "http"}


class Breaths(SystemClock):
    """A clock that counts how often others had a turn."""

    def __init__(self) -> None:
        self.count = 0

    async def sleep(self, span: timedelta) -> None:
        assert span == timedelta(0)
        self.count += 1
        await super().sleep(span)


async def read(response: Response) -> tuple[dict[bytes, bytes], Sequence[bytes]]:
    """The headers of a response, and its body in the pieces that were sent."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        sent.append(message)

    await response(SCOPE, receive, send)
    assert [part.get("more_body") for part in sent[1:]] == [True] * (len(sent) - 2) + [
        False
    ]
    return dict(sent[0]["headers"]), [part["body"] for part in sent[1:]]


@pytest.mark.parametrize("count", [0, 1, 2, PORTION_ROWS, 5 * PORTION_ROWS + 1])
async def test_list_is_one_array(count: int) -> None:
    """Whatever the number of portions it is written in."""
    rows = [{"key": f"k{number}"} for number in range(count)]
    clock = Breaths()

    response = await answer_list(clock, rows, lambda row: row)

    headers, pieces = await read(response)
    body = b"".join(pieces)
    assert json.loads(body) == rows
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == str(len(body)).encode()
    assert clock.count == count // PORTION_ROWS


@pytest.mark.parametrize(
    "sizes", [[], [1], [PORTION_ROWS], [500, 500, 1], [3 * PORTION_ROWS + 1, 1]]
)
async def test_pages_are_one_array(sizes: Sequence[int]) -> None:
    """Each is written in portions of its own, before the next one is asked for."""
    clock = Breaths()
    breaths: list[int] = []

    async def list_pages() -> AsyncIterator[Sequence[Properties]]:
        for size in sizes:
            breaths.append(clock.count)
            yield [{"key": f"k{number}"} for number in range(size)]

    response = await answer_pages(clock, list_pages(), lambda row: row)

    headers, pieces = await read(response)
    body = b"".join(pieces)
    assert json.loads(body) == [
        {"key": f"k{number}"} for size in sizes for number in range(size)
    ]
    assert headers[b"content-length"] == str(len(body)).encode()
    assert [*breaths, clock.count] == [
        sum(size // PORTION_ROWS for size in sizes[:number])
        for number in range(len(sizes) + 1)
    ]


async def test_large_rows_make_small_portions() -> None:
    """It is bytes that take time, not rows."""
    rows = [{"text": "x" * PIECE_CHARS} for _ in range(40)]
    clock = Breaths()

    _, pieces = await read(await answer_list(clock, rows, lambda row: row))

    assert json.loads(b"".join(pieces)) == rows
    assert max(map(len, pieces)) < 2 * PORTION_BYTES
    assert clock.count >= 40 * PIECE_CHARS // (2 * PORTION_BYTES)


@pytest.mark.parametrize("text", ['é"\n', "🙂", "\\", "\x01"])
async def test_text_of_megabytes_is_written_in_pieces(text: str) -> None:
    """Also where each character becomes several."""
    properties = {"$schema": "s", "a": text * PIECE_CHARS * 4, "n": None, "b": True}
    clock = Breaths()

    response = await answer_object(clock, properties, status_code=201, location="/x")

    headers, pieces = await read(response)
    assert json.loads(b"".join(pieces)) == properties
    assert headers[b"location"] == b"/x"
    assert max(map(len, pieces)) < PORTION_BYTES + 8 * PIECE_CHARS
    assert clock.count == len(pieces) - 1 > 1


async def test_long_list_inside_a_row_is_written_in_pieces() -> None:
    """A stream may have any number of values."""
    row = StreamRow(key="log", values=tuple(f"value {n}" for n in range(200_000)))
    clock = Breaths()

    _, pieces = await read(
        await answer_list(clock, [row], Mirror(StreamEntry, StreamRow))
    )

    assert json.loads(b"".join(pieces)) == [{"key": "log", "values": list(row.values)}]
    assert clock.count > 100


async def test_row_that_cannot_be_written_sends_nothing() -> None:
    """The caller gets a problem document instead of half an array."""
    rows: list[Properties] = [{"key": "k"}, {"key": object()}]

    with pytest.raises(TypeError):
        await answer_list(SystemClock(), rows, lambda row: row)


def test_shape_that_differs_from_its_rows_is_a_mistake() -> None:
    """It is found when Relay starts, not when somebody asks."""
    with pytest.raises(TypeError, match="StreamEntry and QueueRow differ"):
        Mirror(StreamEntry, QueueRow)


def test_unset_properties_are_left_out() -> None:
    """Null ones are not."""

    class Row(msgspec.Struct):
        key: str
        value: str | None

    assert Mirror(Event, Row)(Row("k", None)) == {"key": "k", "value": None}
    assert dump(Event(key="k", value="v")) == {"key": "k", "value": "v"}


async def test_executors_are_written_in_portions_too(house: House) -> None:
    """Both listings; a crowd of them is no reason to stop."""
    ref = await house.register("shop")
    for number in range(3):
        await house.add_executor(ref, f"e{number}")

    for prefix in ("/v2", "/relay/v1"):
        response = await house.client.get(f"{prefix}/orgs/local/apps/shop/executors")

        assert len(response.json()) == 3
        assert response.headers["content-length"] == str(len(response.content))
