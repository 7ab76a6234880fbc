"""Limits and offsets of listings."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from relay.errors import MalformedInputError
from relay_api.shapes import INT64_MAX, SAFE_INT_MAX

DEFAULT_LIMIT = 100
LARGEST_LIMIT = 1000

_NUMBER = re.compile(r"-?[0-9]{1,19}")


def parse_number(text: object) -> object:
    """
    A decimal number, in digits only.

    Raises:
        ValueError: anything that merely looks like one (`1.0`, `1_000`, ` 1`).
    """
    if isinstance(text, str):
        if not _NUMBER.fullmatch(text):
            raise ValueError("must be a whole number")
        return int(text)
    return text


_Number = BeforeValidator(parse_number)

# The last one comes first; only so does the description know the bounds.
Limit = Annotated[int, Field(ge=1, le=LARGEST_LIMIT), _Number]
ContractLimit = Annotated[
    int,
    Field(ge=1, le=INT64_MAX, json_schema_extra={"maximum": LARGEST_LIMIT}),
    _Number,
]
"""In routes of the contract, where `check_limit` refuses what is too large."""

Offset = Annotated[int, Field(ge=0, le=INT64_MAX), _Number]

Passed = Annotated[int, Field(ge=0, le=SAFE_INT_MAX), _Number]
"""A limit or an offset that goes on to an executor; 0 is none."""


def check_limit(limit: int) -> int:
    """
    `limit`, if one page may hold that many.

    Raises:
        MalformedInputError: it may not; the contract has 400 for this one, and 422 for
            whatever else a limit cannot be.
    """
    if limit > LARGEST_LIMIT:
        raise MalformedInputError(f"a page holds {LARGEST_LIMIT} entries at most")
    return limit
