"""
Writing a request that holds a long text, a piece at a time.

An import of 64 MiB takes the encoder most of a second, and whatever else the loop has
to do would wait. Here others get their turn between pieces, and nothing is put together
that would only be taken apart again by the socket.
"""

from typing import Any, Final

from relay.errors import InvalidInputError
from relay.ids import RequestId
from relay.protocol.envelope import Request, encode_fields, write_json
from relay.protocol.sanitising import clean_text
from relay.protocol.steps import Steps

PIECE_CHARS: Final = 256 * 1024
"""Of a text that is not written in one go: a millisecond, three if it is no ASCII."""


def encode_in_steps(
    request: Request[Any], request_id: RequestId
) -> Steps[tuple[bytes, ...]]:
    """
    The frame of `encode`, in the pieces in which it was written; one step a piece.

    Without a long text among the fields there is no step, and one piece.

    Raises:
        InvalidInputError, TypeError: as `encode`, from any step.
    """
    fields = dict(request.fields())
    long = {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) and len(value) > PIECE_CHARS
    }
    # Nobody knows the id, so that no other text can hold a mark.
    marks = {name: f"{request_id}:{name}" for name in long}
    rest = encode_fields(request.message_type, request_id, {**fields, **marks})
    pieces: list[bytes] = []
    for name, text in long.items():
        before, _, rest = rest.partition(write_json(marks[name])[1:-1])
        pieces.append(before.encode())
        path = f"{request.message_type}.{name}"
        for start in range(0, len(text), PIECE_CHARS):
            pieces.append(_write_piece(text[start : start + PIECE_CHARS], path))
            yield
    return (*pieces, rest.encode())


def _write_piece(piece: str, path: str) -> bytes:
    if clean_text(piece) != piece:
        raise InvalidInputError(path, "must not hold NUL or half a surrogate pair")
    return write_json(piece)[1:-1].encode()
