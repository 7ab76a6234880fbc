"""Column types that hold the same on both engines."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)


class Instant(TypeDecorator[datetime]):
    """
    An aware UTC instant, exact to the microsecond.

    `timestamptz` on PostgreSQL; on SQLite, which has no such type, an integer of
    microseconds since 1970, so that comparing and adding stay exact.
    """

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"a naive datetime is no instant: {value!r}")
        if dialect.name == "postgresql":
            return value
        return (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        microseconds: int = value
        return EPOCH + microseconds * MICROSECOND


class Span(TypeDecorator[timedelta]):
    """A `timedelta` as whole milliseconds; what is finer is cut off."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(
        self, value: timedelta | None, dialect: Dialect
    ) -> int | None:
        return None if value is None else value // MILLISECOND

    def process_result_value(
        self, value: int | None, dialect: Dialect
    ) -> timedelta | None:
        return None if value is None else value * MILLISECOND


class Json(TypeDecorator[Any]):
    """
    Any JSON value; Python's `None` is SQL's NULL.

    Text rather than `jsonb` on PostgreSQL: nobody searches inside, and text accepts
    every string that JSON can escape.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True
