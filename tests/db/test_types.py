"""What is stored comes back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import select
from sqlalchemy.exc import StatementError

from relay.db import Database
from relay.testing.clock import START
from tests.db.samples import keep, sample


@pytest.mark.parametrize(
    "at",
    [
        datetime.min.replace(tzinfo=UTC) + timedelta(days=2000),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=timezone(timedelta(hours=-11))),
        datetime(2036, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
async def test_an_instant_comes_back_exact_and_in_utc(
    samples: Database, at: datetime
) -> None:
    """To the microsecond, whatever its time zone was."""
    async with samples.transaction(write=True) as transaction:
        await keep(transaction, id=1, at=at)

    async with samples.transaction(write=False) as transaction:
        found = (await transaction.execute(select(sample.c.at))).scalar_one()

    assert found == at
    assert found.tzinfo is UTC


async def test_a_naive_datetime_is_refused(samples: Database) -> None:
    """Neither stored nor compared: nobody knows which moment it means."""
    naive = START.replace(tzinfo=None)

    for statement in (
        sample.insert().values(id=1, at=naive),
        select(sample).where(sample.c.at < naive),
    ):
        with pytest.raises(StatementError, match="naive"):
            async with samples.transaction(write=True) as transaction:
                await transaction.execute(statement)

    async with samples.transaction(write=False) as transaction:
        assert (await transaction.execute(select(sample))).all() == []


async def test_a_span_is_kept_in_milliseconds(samples: Database) -> None:
    """Ten years fit; what is finer than a millisecond is cut off."""
    spans = [timedelta(days=3653), timedelta(milliseconds=-1), timedelta(0), None]
    async with samples.transaction(write=True) as transaction:
        for place, span in enumerate(spans):
            await keep(transaction, id=place, span=span)
        await keep(transaction, id=9, span=timedelta(microseconds=1999))

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(select(sample.c.span).order_by(sample.c.id))
        assert found.scalars().all() == [*spans, timedelta(milliseconds=1)]


async def test_json_keeps_what_json_can_say(samples: Database) -> None:
    """Unicode, NUL characters and huge numbers; `None` is NULL."""
    values = [{"ü": ["\0", 2**70, 1.5, None, True]}, [], "", 0, None]
    async with samples.transaction(write=True) as transaction:
        for place, value in enumerate(values):
            await keep(transaction, id=place, data=value)

    async with samples.transaction(write=False) as transaction:
        found = await transaction.execute(select(sample.c.data).order_by(sample.c.id))
        assert found.scalars().all() == values
        nulls = await transaction.execute(
            select(sample.c.id).where(sample.c.data.is_(None))
        )
        assert nulls.scalars().all() == [4]


async def test_a_number_that_json_does_not_know_is_refused(samples: Database) -> None:
    """NaN would be stored on one engine and refused by the other."""
    with pytest.raises(StatementError):
        async with samples.transaction(write=True) as transaction:
            await keep(transaction, id=1, data=float("nan"))
