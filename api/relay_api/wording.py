"""
What a caller reads when a value does not fit its shape.

The validator has its own words, which speak of inputs and change with its version.
This table has ours, for every kind of mistake that the shapes of this server can meet.
"""

from collections.abc import Mapping
from typing import Any

WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "no such property",
    "model_type": "must be a JSON object",
    "list_type": "must be a list",
    "string_type": "must be text",
    "string_unicode": "must be UTF-8 text",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
}
"""By the validator's name of the kind; `{…}` is filled from the mistake's context."""

_RULE_OF_OURS = "Value error, "
"""The validator's mark on a message that a rule of ours has written."""


def word(entry: Mapping[str, Any]) -> str:
    """
    The message for one entry of a validation error.

    A kind that is not in the table is told in the validator's words: better theirs
    than none.
    """
    words = WORDS.get(entry["type"])
    if words is None:
        return str(entry["msg"]).removeprefix(_RULE_OF_OURS)
    return words.format_map(entry.get("ctx", {}))
