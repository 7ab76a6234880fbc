"""Texts, numbers, instants and rows, in the forms in which executors write them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol import FrameError
from relay.protocol.rows import (
    ROWS_LIMIT,
    Scalar,
    clamp_int32,
    find_row,
    is_int32,
    read_instant,
    read_label,
    read_labels,
    read_payload,
    read_row,
    read_rows,
    read_whole,
)


class Parcel(msgspec.Struct):
    weight: Scalar = msgspec.field(default=None, name="WeightGrams")
    label: Scalar = None


DECODER = msgspec.json.Decoder(Parcel)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda items: st.lists(items) | st.dictionaries(st.text(), items),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        ("5", 5),
        (" -5 ", -5),
        (5.9, 5),
        ("5.9", 5),
        (True, None),
        (None, None),
        ("", None),
        ("five", None),
        ("1_000", None),
        ("\u0665", None),
        (float("nan"), None),
        (float("inf"), None),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (str(2**63), None),
        (2.0**63, None),
        ("9" * 5000, None),
        ([5], None),
    ],
)
def test_whole_number_comes_from_a_number_or_its_digits(
    value: object, number: int | None
) -> None:
    """What 64 bits cannot hold is no number."""
    assert read_whole(value) == number


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("1790000000123", datetime(2026, 9, 21, 14, 13, 20, 123_000, UTC)),
        (1790000000123, datetime(2026, 9, 21, 14, 13, 20, 123_000, UTC)),
        (1790000000123.9, datetime(2026, 9, 21, 14, 13, 20, 123_000, UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("253402300799999", datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("253402300800000", None),
        (-(2**63), None),
        ("\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660123", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_instant_is_exact_to_the_millisecond_or_none(
    value: object, instant: datetime | None
) -> None:
    """An instant that no calendar has is left out, not guessed."""
    assert read_instant(value) == instant


@given(st.integers(-(10**13), 10**13) | st.integers(0, 2**33 * 1000))
def test_no_instant_is_rounded(milliseconds: int) -> None:
    """Neither of this century nor of a later one."""
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)

    assert read_instant(milliseconds) == read_instant(str(milliseconds)) == instant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        ("über 💡", "über 💡"),
        ("a\0b", "ab"),
        ("half \ud800", "half "),
        (7, "7"),
        (1.5, "1.5"),
        (True, None),
        (None, None),
        ({}, None),
    ],
)
def test_payload_is_valid_text_and_otherwise_untouched(
    value: object, text: str | None
) -> None:
    """It can be written as UTF-8 and stored."""
    assert read_payload(value) == text


def test_payload_with_nothing_to_clean_is_not_copied() -> None:
    """It may be 64 MiB long."""
    for text in ("plain" * 1000, "über" * 1000):
        assert read_payload(text) is text


def test_empty_label_is_none() -> None:
    """Nobody is called nothing."""
    assert read_label("") is None
    assert read_label("\0") is None
    assert read_label("a") == "a"


@given(st.lists(json_values | st.sampled_from(["", "\0", "\ud800", "ü"])))
def test_many_labels_are_read_as_one_is(values: list[Any]) -> None:
    """Which of them needs cleaning makes no difference to the others."""
    assert list(read_labels(values)) == [read_label(value) for value in values]


def test_numbers_of_32_bits_are_told_from_others() -> None:
    """The contract has fields of both sizes."""
    assert [clamp_int32(value) for value in (-(2**40), -1, 2**31)] == [
        -(2**31),
        -1,
        2**31 - 1,
    ]
    assert [is_int32(value) for value in (2**31 - 1, 2**31, -(2**31))] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "row",
    [
        msgspec.Raw(b'{"WeightGrams": 5, "label": "a", "colour": {}}'),
        msgspec.Raw(b'{"WeightGrams": 5, "label": "a", "colour": NaN}'),
        {"WeightGrams": 5, "label": "a", "colour": {}},
    ],
    ids=["strict", "lenient", "decoded"],
)
def test_row_is_read_by_its_names_on_the_wire(row: object) -> None:
    """Strict JSON, what Python writes, or what was decoded before."""
    assert read_row(row, DECODER) == Parcel(weight=5, label="a")


def test_unexpected_type_spoils_one_value_only() -> None:
    """The other rows are not read again, nor refused."""
    rows = [msgspec.Raw(b'{"label": {}, "WeightGrams": 1}'), msgspec.Raw(b"{}")]

    read = list(read_rows(rows, DECODER))

    assert read == [Parcel(weight=1, label={}), Parcel()]  # type: ignore[arg-type]  # what it says


def test_rows_that_nobody_asks_for_are_not_built() -> None:
    """A list may be longer than was wanted."""
    rows = read_rows([{"label": "a"}, "no row"], DECODER)

    assert next(rows) == Parcel(label="a")


@pytest.mark.parametrize(
    "row",
    [
        msgspec.Raw(b'"text"'),
        msgspec.Raw(b"[]"),
        msgspec.Raw(b"null"),
        msgspec.Raw(b'{"label": "\\x"}'),
        msgspec.Raw(b'{"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        "text",
        None,
    ],
)
def test_what_is_no_object_is_no_row(row: object) -> None:
    """A list without a row that was there would be a wrong one."""
    with pytest.raises(FrameError):
        read_row(row, DECODER)


@pytest.mark.parametrize("row", [None, msgspec.Raw(b"null")])
def test_row_that_is_null_or_absent_is_none(row: object) -> None:
    """Which is how SDKs say "not found"."""
    assert find_row(row, DECODER) is None


def test_what_is_no_list_holds_no_rows() -> None:
    """An object in its place is an answer to another question."""
    with pytest.raises(FrameError, match="no list"):
        read_rows({}, DECODER)


def test_millions_of_rows_are_not_built() -> None:
    """They would take gigabytes."""
    with pytest.raises(FrameError, match="lists 500001 rows"):
        read_rows([None] * (ROWS_LIMIT + 1), DECODER)


@given(json_values)
def test_whatever_json_holds_becomes_something_harmless(value: Any) -> None:
    """No reader raises, and every text can be sent on."""
    number = read_whole(value)

    assert number is None or -(2**63) <= number < 2**63
    read_instant(value)
    assert "\0" not in (read_payload(value) or "").encode().decode()
