"""What the shapes of all resources share: names, instants, numbers, texts."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core.core_schema import (
    CoreSchema,
    ListSchema,
    no_info_before_validator_function,
)

from relay.settings import RelaySettings

INT64_MAX = 2**63 - 1
SAFE_INT_MAX = 2**53 - 1
"""The largest number that every executor reads as it is: some of them in JavaScript."""

_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?([Zz]|[+-]\d\d:\d\d)"
)


class Answer(BaseModel):
    """What Relay sends: camel case, every required key there, also when null."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class Order(BaseModel):
    """
    What a caller sends: camel case only, and nothing Relay does not know.

    Every answer of the contract may carry `$schema`, and clients send back what they
    got, so that it is accepted in every body and ignored.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    schema_url: Any = Field(None, validation_alias="$schema", exclude=True)


def format_instant(instant: datetime) -> str:
    """`instant` as RFC 3339 in UTC, with `Z` and milliseconds (cut, not rounded)."""
    # To change the zone takes as long as the rest, and almost all are in UTC already.
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def parse_instant(text: object) -> datetime:
    """
    An RFC 3339 instant, however precise and at whatever offset.

    Raises:
        ValueError: it is none; one without an offset is not either.
    """
    match = _RFC_3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("must be an RFC 3339 instant with an offset, such as Z")
    day, time, fraction, offset = match.groups()
    offset = "+00:00" if offset in "Zz" else offset
    try:
        return datetime.fromisoformat(
            f"{day}T{time}.{(fraction or '0').ljust(6, '0')}{offset}"
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is no instant of the calendar") from None


Instant = Annotated[datetime, PlainSerializer(format_instant, return_type=str)]
"""An instant in an answer."""

InstantText = Annotated[datetime, BeforeValidator(parse_instant)]
"""An instant in a request."""


def refuse_null(value: object) -> object:
    """
    Pass anything but null.

    Raises:
        ValueError: it is null.
    """
    if value is None:
        raise ValueError("must not be null")
    return value


class _NotNull:
    """Refuses null, and describes the value without it."""

    def __get_pydantic_core_schema__(
        self, source: Any, read: GetCoreSchemaHandler
    ) -> CoreSchema:
        return no_info_before_validator_function(refuse_null, read(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, describe: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        choices = describe(schema)["anyOf"]
        [described] = [choice for choice in choices if choice != {"type": "null"}]
        return dict(described)


NotNull = _NotNull()
"""On an optional property: it may be absent (`None` here), and may not be null."""


def read_whole_number(value: object) -> object:
    """A whole number as `int`, however it is written: in JSON, 60.0 is an integer."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


WholeNumber = Annotated[int, BeforeValidator(read_whole_number)]
"""A number in a request."""

# The last one comes first; only so does the description know the bounds.
Count = Annotated[int, Field(ge=0, le=SAFE_INT_MAX), BeforeValidator(read_whole_number)]
"""A number in a request of which there can be none, but not less."""


def refuse_nul(text: str) -> str:
    """
    Pass any text but one that no database can hold.

    Raises:
        ValueError: there is a NUL in it.
    """
    if "\0" in text:
        raise ValueError("must hold no NUL")
    return text


def refuse_blank(text: str) -> str:
    """
    Pass any text that says something.

    Raises:
        ValueError: it is empty or blank.
    """
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Text = Annotated[str, AfterValidator(refuse_nul)]
"""A text in a request that goes on to an executor."""

Given = Annotated[str, AfterValidator(refuse_nul), AfterValidator(refuse_blank)]
"""The same, where an empty one can only be a mistake."""


class _FirstFlaw:
    """
    Of a list of half a million mistakes, tells the first: all take three seconds.

    The validator's own `FailFast` cannot be a part of an optional type.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, read: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = cast("ListSchema", read(source))
        return {**schema, "fail_fast": True}


Texts = Annotated[list[Text], _FirstFlaw()]
"""Many of them."""

GivenTexts = Annotated[list[Given], _FirstFlaw()]
"""The same, where an empty one can only be a mistake."""


def parse_flag(text: object) -> object:
    """
    A yes or no in a query.

    Raises:
        ValueError: anything that merely looks like one (`1`, `yes`, `True`).
    """
    if isinstance(text, str):
        if text not in ("true", "false"):
            raise ValueError("must be true or false")
        return text == "true"
    return text


Flag = Annotated[bool, BeforeValidator(parse_flag)]
"""A yes or no in a query."""


def schema_address(settings: RelaySettings, name: str) -> dict[str, str]:
    """
    The optional `$schema` property of an answer, as keyword arguments.

    It has to be absolute, so it is left out until the server knows its own URL.
    """
    if settings.public_url is None:
        return {}
    return {"schema_url": f"{settings.public_url}/schemas/{name}.json"}


def schema_property(settings: RelaySettings, name: str) -> dict[str, str]:
    """The same under the name that it has in an answer."""
    address = schema_address(settings, name)
    return {"$schema": address["schema_url"]} if address else {}
