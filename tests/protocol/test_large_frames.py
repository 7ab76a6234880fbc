"""What a large frame may hold, so that nobody else waits long while it is read."""

from typing import Any

import msgspec
import pytest

from relay.protocol import FrameError, decode_envelope, frames
from relay.protocol.frames import (
    LENIENT_LIMIT_BYTES,
    REPAIR_LIMIT_BYTES,
    read_frame,
)

HEAD = b'{"type": "t", "request_id": "r", '
LIMIT = 1000


@pytest.fixture
def _few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is reached at once."""
    monkeypatch.setattr(frames, "VALUES_LIMIT", LIMIT)


class Listing(msgspec.Struct):
    output: list[msgspec.Raw] | None = None
    text: Any = None


@pytest.mark.usefixtures("_few_values")
@pytest.mark.parametrize(
    "items",
    [
        b"1," * LIMIT + b"1",
        b'"a",' * LIMIT + b'"a"',
        b'"\\",\\"",' * LIMIT + b"1",
        b'"",' + b"{}," * LIMIT + b'"x"',
    ],
)
def test_list_of_countless_values_is_not_even_split(items: bytes) -> None:
    """Each would take many times its size, and all of them one turn."""
    frame = HEAD + b'"output": [' + items + b"]}"

    with pytest.raises(FrameError, match="more than 1000 values"):
        read_frame(frame, Listing)
    assert decode_envelope(frame).request_id == "r"


@pytest.mark.usefixtures("_few_values")
@pytest.mark.parametrize("unit", [b"1,", b'\\",', b"\\\\,", b"\\u00fc,"])
def test_commas_of_a_text_are_not_counted(unit: bytes) -> None:
    """A workflow may return a long list, as text."""
    frame = HEAD + b'"text": "' + unit * (LIMIT + 1) + b'", "output": [1, 2]}'

    assert len(read_frame(frame, Listing).output or ()) == 2


@pytest.mark.usefixtures("_few_values")
def test_frame_of_countless_texts_that_is_no_json_is_refused() -> None:
    frame = b"," * LIMIT + b'""' * (2 * LIMIT + 1)

    with pytest.raises(FrameError):
        read_frame(frame, Listing)


@pytest.mark.parametrize(
    ("unit", "left"),
    [(rb"\\", "\\"), (rb"\\a", "\\a"), (rb"\ud83d\ude00", "😀"), (rb"\ud83d", "")],
)
def test_half_a_character_is_found_behind_a_long_text_of_escapes(
    unit: bytes, left: str
) -> None:
    """Wherever a stretch that is looked at in one turn may end."""
    count = LENIENT_LIMIT_BYTES // len(unit) + 1
    frame = HEAD + b'"text": "%b"}' % (unit * count + rb" \udc00" + unit)

    assert len(frame) < REPAIR_LIMIT_BYTES
    assert read_frame(frame, Listing).text == left * count + " " + left
