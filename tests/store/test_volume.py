"""Ten thousand executors change at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import event
from sqlalchemy.engine import Engine

from relay.liveness.states import ExecutorStatus
from relay.records import ExecutorRecord, RecoveryState
from relay.store import Store
from relay.store.executors import Change
from relay.testing.clock import START
from tests.store.rows import (
    APP,
    LOCAL,
    make_disconnected,
    make_entry,
    make_executor,
    make_recovery,
    register,
)

COUNT = 10_000
CHUNK = 500


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """The texts of the statements that reach a database inside the block."""
    statements: list[str] = []

    def count(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", count)


async def insert_all(store: Store, executors: Sequence[ExecutorRecord]) -> None:
    for start in range(0, COUNT, CHUNK):
        async with store.write() as work:
            await work.executors.insert_many(executors[start : start + CHUNK])


async def test_transitions_and_their_entries_are_written_in_chunks(
    store: Store,
) -> None:
    """A chunk is a handful of statements: rows, ledger and audit entries."""
    await register(store, APP)
    executors = [make_disconnected(f"e{number:05}") for number in range(COUNT)]
    await insert_all(store, executors)

    with counted_statements() as statements:
        for start in range(0, COUNT, CHUNK):
            async with store.write() as work:
                keys = [executor.ref.key for executor in executors[start:][:CHUNK]]
                locked = await work.executors.lock(keys)
                saved = await work.executors.save_many(
                    [
                        Change(
                            replace(record, status=ExecutorStatus.DEAD),
                            expected_epoch=record.epoch,
                            expected_status=record.status,
                        )
                        for record in locked.values()
                    ]
                )
                opened = await work.recoveries.insert_many(
                    [make_recovery(f"r-{name}", name) for _, name in keys]
                )
                await work.audit.append([make_entry("executor.dead") for _ in keys])
            assert saved == set(keys)
            assert len(opened) == CHUNK

    # One each to begin, lock, save and find the organization; inserts of many columns
    # are split by the limits of the drivers.
    assert len(statements) <= 12 * (COUNT // CHUNK)
    async with store.read() as work:
        counts = await work.executors.count_by_status()
        entries = await work.audit.list_entries(LOCAL, limit=COUNT + 1)
        ledger = await work.recoveries.measure()
    assert counts[ExecutorStatus.DEAD] == COUNT
    assert len(entries) == COUNT
    assert ledger == {RecoveryState.READY: (COUNT, START)}


async def test_last_seen_times_are_written_in_bounded_statements(store: Store) -> None:
    """Ten thousand rows take a statement or two for each thousand."""
    await register(store, APP)
    executors = [make_executor(f"e{number:05}") for number in range(COUNT)]
    await insert_all(store, executors)
    seen_at = START + timedelta(seconds=1)

    with counted_statements() as statements:
        async with store.write() as work:
            changed = await work.executors.touch(
                [(e.ref.key, e.connection_id, seen_at) for e in executors]
            )

    assert changed == COUNT
    assert len(statements) <= 22
