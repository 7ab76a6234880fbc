"""A table to try the engines on."""

from sqlalchemy import Column, Integer, MetaData, String, Table

from relay.db import Instant, Json, Span, Transaction

sample = Table(
    "sample",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Instant),
    Column("span", Span),
    Column("data", Json),
    Column("name", String, unique=True),
)


async def keep(transaction: Transaction, **values: object) -> None:
    await transaction.execute(sample.insert().values(**values))
