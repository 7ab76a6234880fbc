"""
Answers that may be large, written so that nobody else has to wait for them.

The framework would build a long list, check it a second time and write it in one go:
ten thousand rows stop every socket of this process for a quarter of a second. Here rows
become JSON a portion at a time, with a breath after each, and a long answer goes out in
pieces, as fast as its reader takes them. A text of megabytes is cut as well.
"""

from collections import deque
from collections.abc import (
    AsyncIterable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from types import NoneType
from typing import Generic, TypeAlias, TypeVar, get_args
from urllib.parse import quote

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from relay.clock import Clock
from relay.registry import LOCAL_ORGANIZATION
from relay.settings import RelaySettings
from relay_api.contract import server_address
from relay_api.shapes import Answer, format_instant

PORTION_ROWS = 200
"""Rows that are written in one turn of the loop: a few milliseconds."""

PORTION_BYTES = 1024 * 1024
"""JSON after which a turn ends, however few rows it has."""

PIECE_CHARS = 256 * 1024
"""Of a text that is not written in one go."""

RowT = TypeVar("RowT")
StructT = TypeVar("StructT", bound=msgspec.Struct)

Properties: TypeAlias = Mapping[str, object]
"""A JSON object: its properties as they are called in an answer, of plain values."""

_JSON = msgspec.json.Encoder()
_SHORT = frozenset({NoneType, bool, int, float})


class Mirror(Generic[StructT]):
    """
    Shows the rows of executors as a shape whose properties have the same names.

    The shape is what the documents say; building one for each row would take longer
    than everything else about it.
    """

    def __init__(self, shape: type[Answer], row: type[StructT]) -> None:
        """
        Args:
            shape: its properties apart from `$schema`, in the order of the row's.

        Raises:
            TypeError: the two differ; a mistake of ours.
        """
        fields = {
            name: field.alias or name
            for name, field in shape.model_fields.items()
            if name != "schema_url"
        }
        if tuple(fields) != row.__struct_fields__:
            raise TypeError(f"{shape.__name__} and {row.__name__} differ")
        self._names = tuple(fields.values())
        self._instants = tuple(
            number
            for number, field in enumerate(msgspec.structs.fields(row))
            if datetime in (field.type, *get_args(field.type))
        )

    def __call__(self, row: StructT) -> dict[str, object]:
        """The properties of one row."""
        values = list(msgspec.structs.astuple(row))
        for number in self._instants:
            if values[number] is not None:
                values[number] = format_instant(values[number])
        return dict(zip(self._names, values, strict=True))


def dump(shape: Answer) -> Properties:
    """The properties of `shape`, without those that were not set."""
    return shape.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def answer_list(
    clock: Clock, rows: Iterable[RowT], to_properties: Callable[[RowT], Properties]
) -> Response:
    """
    A JSON array with one object a row.

    Nothing is sent before all of it is written: a row that cannot be becomes a problem
    document, not half an answer.
    """
    return PiecewiseJson(await _collect(clock, _write_list(map(to_properties, rows))))


async def answer_pages(
    clock: Clock,
    pages: AsyncIterable[Sequence[RowT]],
    to_properties: Callable[[RowT], Properties],
) -> Response:
    """
    The same of rows that come page by page: no page outlives the one after it.

    Args:
        pages: none of them empty.
    """
    pieces: list[bytes] = []
    async for page in pages:
        before = b"," if pieces else b"["
        pieces += await _collect(clock, _write_rows(map(to_properties, page), before))
    return PiecewiseJson([*pieces, b"]"] if pieces else [b"[]"])


async def answer_object(
    clock: Clock,
    properties: Properties,
    *,
    status_code: int = 200,
    location: str | None = None,
) -> Response:
    """
    One JSON object.

    Args:
        location: where to find what has been made, if something has.
    """
    answer = PiecewiseJson(await _collect(clock, _write(properties)), status_code)
    if location is not None:
        answer.headers["Location"] = location
    return answer


def workflow_address(
    settings: RelaySettings, application: str, workflow_id: str
) -> str:
    """Where a workflow is found: a URL, or a path if the server knows no URL."""
    prefix = server_address(settings).rstrip("/")
    name, id_ = quote(application, safe=""), quote(workflow_id, safe="")
    return f"{prefix}/v2/orgs/{LOCAL_ORGANIZATION}/apps/{name}/workflows/{id_}"


class PiecewiseJson(Response):
    """JSON that is already written, and sent piece by piece."""

    media_type = "application/json"

    def __init__(self, pieces: Iterable[bytes], status_code: int = 200) -> None:
        """`pieces` are given back to memory as they are sent."""
        self._pieces = deque(pieces)
        size_bytes = sum(map(len, self._pieces))
        super().__init__(
            status_code=status_code, headers={"Content-Length": str(size_bytes)}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        while self._pieces:
            body = self._pieces.popleft()
            await send(
                {
                    "type": "http.response.body",
                    "body": body,
                    "more_body": bool(self._pieces),
                }
            )


async def _collect(clock: Clock, written: Iterator[bytes]) -> list[bytes]:
    """What is written, in larger pieces; others have a turn after each."""
    pieces: list[bytes] = []
    portion, count = bytearray(), 0
    for part in written:
        portion += part
        count += 1
        # A row is two parts, with its comma.
        if count >= 2 * PORTION_ROWS or len(portion) >= PORTION_BYTES:
            pieces.append(bytes(portion))
            portion, count = bytearray(), 0
            await clock.sleep(timedelta(0))
    pieces.append(bytes(portion))
    return pieces


def _write_rows(rows: Iterable[Properties], before: bytes) -> Iterator[bytes]:
    """Two parts a row; `before` stands before the first one."""
    for row in rows:
        yield before
        yield from _write(row)
        before = b","


def _write_list(values: Iterable[object]) -> Iterator[bytes]:
    yield b"["
    for number, value in enumerate(values):
        if number:
            yield b","
        yield from _write(value)
    yield b"]"


def _write(value: object) -> Iterator[bytes]:
    """The JSON of a value, in one part unless it is large."""
    match value:
        case _ if _count_chars(value) <= PIECE_CHARS:
            yield _JSON.encode(value)
        case str():
            yield b'"'
            for start in range(0, len(value), PIECE_CHARS):
                yield _JSON.encode(value[start : start + PIECE_CHARS])[1:-1]
            yield b'"'
        case list() | tuple():
            yield from _write_list(value)
        case Mapping():
            yield b"{"
            for number, (name, item) in enumerate(value.items()):
                yield b"," if number else b""
                yield _JSON.encode(name) + b":"
                yield from _write(item)
            yield b"}"


def _count_chars(value: object) -> int:
    """About how long the texts are that a value holds."""
    match value:
        case str():
            return len(value)
        case list() | tuple():
            return len(value) + sum(map(_count_chars, value))
        case dict():
            # The shortest way through the many properties that are no long text.
            return sum(
                len(item) if item.__class__ is str else _count_chars(item)
                for item in value.values()
                if item.__class__ not in _SHORT
            )
        case _:
            return 0
