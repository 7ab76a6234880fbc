"""What an operator reads when a setting is wrong."""

from collections.abc import Mapping
from typing import Any

_WORDS: Mapping[str, str] = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "enum": "must be {expected}",
    "string_type": "must be text",
    "string_unicode": "must be UTF-8",
    "path_type": "must be a path",
    "tuple_type": "must be a list, or text with commas",
}
"""
What an operator reads instead of the validator's words, by its name of the mistake.

`{…}` is filled from the mistake's context.
"""


def explain(detail: Mapping[str, Any], variables: Mapping[str, tuple[str, ...]]) -> str:
    """
    One of the validator's complaints in one line, without the value.

    Args:
        variables: field name to the environment variables that set it.
    """
    message = _word(detail)
    if not detail["loc"]:
        return message
    place = str(detail["loc"][0])
    for field, names in variables.items():
        if place in {field, *names}:
            return f"{field} ({names[0]}): {message}"
    return f"{place}: {message}"


def _word(detail: Mapping[str, Any]) -> str:
    words = _WORDS.get(detail["type"])
    if words is None:
        return str(detail["msg"]).removeprefix("Value error, ")
    # The bounds of a fraction are fractions; nobody writes them so.
    context = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in detail.get("ctx", {}).items()
    }
    return words.format_map(context)
