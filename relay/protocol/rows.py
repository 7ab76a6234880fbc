"""
Reading what replies are made of: rows, instants, numbers and texts.

A large list is read one row at a time. The list is only split first, without a value
being built, so that other threads get their turn between rows, rows beyond a limit cost
next to nothing, and a row with a value of an unexpected type does not spoil the others.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from relay.protocol.frames import FrameError, pick_fields, read_frame
from relay.protocol.sanitising import clean_text

Scalar: TypeAlias = str | int | float | bool | None
"""What stands where a text or a number is expected, whoever wrote it."""

ROWS_LIMIT: Final = 500_000
"""
Of a list: some 200 MiB when they are built.

The largest frame holds fewer workflows than that; of tiny rows it could hold millions.
"""

LONGEST_ID_CHARS: Final = 64 * 1024
"""Of a workflow that was started: its id goes on into a header and an audit entry."""

RowT = TypeVar("RowT", bound=msgspec.Struct)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_NULL: Final = msgspec.Raw(b"null")
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_EXACT_LIMIT_MS: Final = 2**32 * 1000
"""Up to here (the year 2106) a float of seconds is exact to the microsecond."""

_DECIMAL: Final = re.compile(r"\s*([+-]?[0-9]{1,19})(?:\.[0-9]*)?\s*", re.ASCII)


def list_rows(rows: object) -> list[Any]:
    """
    The rows of a list, each to be given to `read_row`.

    Raises:
        FrameError: it is no list, or one of more than `ROWS_LIMIT`.
    """
    if not isinstance(rows, list):
        raise FrameError("the reply holds no list")
    if len(rows) > ROWS_LIMIT:
        raise FrameError(f"the reply lists {len(rows)} rows")
    return rows


def read_rows(rows: object, decoder: msgspec.json.Decoder[RowT]) -> Iterator[RowT]:
    """
    The rows of a list, in order, each built when it is asked for; see `read_row`.

    Raises:
        FrameError: it is no list, or a row is no object.
    """
    return (read_row(row, decoder) for row in list_rows(rows))


def read_row(row: object, decoder: msgspec.json.Decoder[RowT]) -> RowT:
    """
    One row of a list.

    Args:
        row: `msgspec.Raw` or, of a frame that was read leniently, what it holds.
        decoder: of a struct whose fields all have a default. The types are no promise.

    Raises:
        FrameError: it is no object.
    """
    shape = cast(type[RowT], decoder.type)
    if isinstance(row, msgspec.Raw):
        try:
            return decoder.decode(row)
        except (msgspec.MsgspecError, RecursionError):
            return read_frame(bytes(row), shape)
    if not isinstance(row, dict):
        raise FrameError("the reply lists what is no object")
    return pick_fields(row, shape)


def find_row(row: object, decoder: msgspec.json.Decoder[RowT]) -> RowT | None:
    """
    One row, or `None` if it is absent or null.

    Raises:
        FrameError: it is something else.
    """
    if row is None or row == _NULL:
        return None
    return read_row(row, decoder)


def read_payload(value: object) -> str | None:
    """
    A text of the application as it is, but valid UTF-8 without NUL.

    A text that is empty stays so; what is no text or number is `None`. A text without
    anything to clean is not copied.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else clean_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)


def read_label(value: object) -> str | None:
    """The same for a name or an id, where empty is `None` too."""
    return None if value is None else read_payload(value) or None


def read_labels(values: Sequence[object]) -> Sequence[str | None]:
    """`read_label` of each; many at once cost little more than one."""
    present = [value for value in values if value is not None]
    try:
        text = "".join(present)  # type: ignore[arg-type]  # tried, not promised
    except TypeError:
        is_clean = False
    else:
        is_clean = text.isascii() and "\0" not in text and "" not in present
    return values if is_clean else [read_label(value) for value in values]  # type: ignore[return-value]  # texts, or it had failed


def require_label(value: object, what: str) -> str:
    """
    The same for what a row cannot be without.

    Raises:
        FrameError: there is none; `what` says of what.
    """
    label = read_label(value)
    if label is None:
        raise FrameError(f"the reply holds {what}")
    return label


def read_new_id(value: object, what: str) -> str:
    """
    The id of something that was started; `what` says of what.

    Raises:
        FrameError: there is none, or it is longer than `LONGEST_ID_CHARS`.
    """
    new_id = read_label(value)
    if new_id is None:
        raise FrameError(f"the reply names no {what}")
    if len(new_id) > LONGEST_ID_CHARS:
        raise FrameError(f"the reply holds an id of {len(new_id)} characters")
    return new_id


def read_whole(value: object) -> int | None:
    """A whole number or its digits, cut off at the point, if 64 bits hold it."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = _DECIMAL.fullmatch(value)
        if found is None:
            return None
        number = int(found[1])
    elif isinstance(value, int):
        number = value
    elif isinstance(value, float) and -(2.0**63) <= value < 2.0**63:
        number = int(value)
    else:
        return None
    return number if number in _INT64 else None


def clamp_int32(number: int) -> int:
    """The nearest number that 32 bits hold."""
    return max(_INT32.start, min(number, _INT32.stop - 1))


def is_int32(number: int) -> bool:
    """Whether 32 bits hold it."""
    return number in _INT32


def read_instant(value: object) -> datetime | None:
    """An instant that is told in milliseconds since 1970, if there is one."""
    if (
        isinstance(value, str)
        and len(value) == 13
        and value.isascii()
        and value.isdigit()
    ):
        # What it nearly always is, and a listing holds tens of thousands of them.
        milliseconds: int | None = int(value)
    else:
        milliseconds = read_whole(value)
    if milliseconds is None:
        return None
    if 0 <= milliseconds < _EXACT_LIMIT_MS:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
