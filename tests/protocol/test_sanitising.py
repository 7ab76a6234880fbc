"""Values of strangers, made harmless."""

import pytest

from relay.protocol.sanitising import clean_json, clean_text


def test_clean_text_is_the_same_text() -> None:
    """Only what cannot be stored is removed."""
    assert clean_text("plain äöü 💡\n") == "plain äöü 💡\n"


def test_equal_keys_after_cleaning_keep_the_later_value() -> None:
    """Two keys that differ by what was removed are one."""
    assert clean_json({"a": 1, "a\0": 2}) == {"a": 2}


def test_what_is_no_json_is_a_defect() -> None:
    """Only decoded JSON may be handed in."""
    with pytest.raises(TypeError, match="set"):
        clean_json({"a": {1}})


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (2**63, "9223372036854775808"),
    ],
)
def test_number_that_cannot_be_carried_becomes_a_word(number: float, word: str) -> None:
    """The spelling is the one its senders use."""
    assert clean_json([number]) == [word]


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 1.5, -0.0])
def test_other_numbers_stay_numbers(number: float) -> None:
    """Every 64-bit integer and every finite fraction is kept."""
    assert clean_json(number) == number
