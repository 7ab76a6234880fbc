"""Whether a frame is text is found out in parts, and is true of the whole."""

import pytest

from relay.protocol import NotTextError, decode_envelope

HEAD = b'{"type": "t", "request_id": "r", "x": "'
TAIL = b'"}'
LONG = "€" * 100_000
"""Three bytes each, so that borders between parts fall within characters."""


@pytest.mark.parametrize("shift", range(4))
def test_character_across_the_border_of_two_parts_is_text(shift: int) -> None:
    """Wherever the border lies in it."""
    frame = HEAD + b"a" * shift + LONG.encode() + TAIL

    assert decode_envelope(frame).request_id == "r"


@pytest.mark.parametrize("broken", [b"\xff", "€".encode()[:2]])
@pytest.mark.parametrize("behind", ["", LONG])
def test_large_frame_that_is_not_text_anywhere_is_not_text(
    broken: bytes, behind: str
) -> None:
    """At its end or in the middle, though no field is read from there."""
    frame = HEAD + LONG.encode() + broken + behind.encode() + TAIL

    with pytest.raises(NotTextError):
        decode_envelope(frame)


def test_frame_that_ends_within_a_character_is_not_text() -> None:
    """Nothing more is to come."""
    with pytest.raises(NotTextError):
        decode_envelope(HEAD + LONG.encode()[:-1])
