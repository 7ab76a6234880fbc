"""How exactly losses are noticed, and how fast the dead are taken care of."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from bench.children import CLOCK, FleetProcess, running_fleet
from bench.probe import probing, stall_figures
from bench.report import Figure, quantile
from bench.subject import APPLICATION, Subject, running_relay

SILENCE_LIMIT = 25.0
"""Seconds without a byte after which an executor is DISCONNECTED."""

GRACE = timedelta(seconds=10)
LIMIT = timedelta(minutes=3)
SINGLE_DEATHS = 40
CROWD = 1000
SAMPLES = 500
START_HOLD = timedelta(seconds=31)
BETWEEN_RESETS = timedelta(milliseconds=20)

ROWS_OF_A_LOSS = 2
"""The executor's and an audit entry."""

ROWS_OF_AN_ORDER = 8
"""Death, claim, findings and order: those of the executor, the recovery (four times)
and the lost workflow, and two audit entries."""


async def measure_deaths(directory: Path, count: int) -> list[Figure]:
    """Silence, resets and deaths among `count` executors."""
    crowd = min(CROWD, count // 2)
    samples = min(SAMPLES, count // 12)
    async with running_relay(directory / "deaths") as relay, running_fleet() as fleet:
        await relay.set_timeout(timedelta(hours=1))
        await fleet.ask("start", url=relay.url, count=count, application=APPLICATION)
        await relay.wait_healthy(count, within=LIMIT)
        async with probing(relay.port) as probe:
            silent = await _measure_silence(relay, fleet, range(samples))
            reset = await _measure_resets(relay, fleet, range(samples, 2 * samples))
            storm = await _measure_storm(relay, fleet, range(2 * samples, 3 * samples))
            await fleet.ask("revive", numbers=list(range(3 * samples)))
            await relay.wait_healthy(count, within=LIMIT)
            await relay.set_timeout(GRACE)
            await CLOCK.sleep(START_HOLD)
            singles = await _measure_singles(relay, fleet, count)
            ordered, done = await _measure_crowd(relay, fleet, crowd)
        stall = await relay.read_metric("relay_loop_stall_seconds_max")
    commit = quantile([_time_rows(directory / f"{n}.db", 1) for n in range(100)], 0.99)
    late = quantile(await _measure_timers(), 0.99)
    return [
        Figure(
            name="detection error, silent executor, p99",
            value=quantile(silent, 0.99),
            unit="ms",
            floor=late,
            floor_is="lateness of a bare timer",
            bound=100,
            note=f"p50 {quantile(silent, 0.5):.1f} ms of {len(silent)}",
        ),
        Figure(
            name="detection error, closed socket, p99",
            value=quantile(reset, 0.99),
            unit="ms",
            floor=late,
            floor_is="lateness of a bare timer",
            bound=100,
            note=f"p50 {quantile(reset, 0.5):.1f} ms of {len(reset)}",
        ),
        Figure(
            name=f"{len(storm):,} sockets closed at once: last one noticed after",
            value=max(storm),
            unit="ms",
            floor=_time_rows(directory / "storm.db", ROWS_OF_A_LOSS * len(storm)),
            floor_is=f"{ROWS_OF_A_LOSS} rows each in SQLite, one commit",
            note=f"p50 {quantile(storm, 0.5):.1f} ms",
        ),
        Figure(
            name="order on the wire after DEAD, one death, p99",
            value=quantile(singles, 0.99),
            unit="ms",
            floor=2 * commit,
            floor_is="two SQLite commits",
            bound=150,
            note=f"p50 {quantile(singles, 0.5):.1f} ms of {len(singles)}",
        ),
        Figure(
            name=f"{crowd:,} deaths at once: last one ordered after",
            value=ordered,
            unit="s",
            floor=_time_rows(directory / "crowd.db", ROWS_OF_AN_ORDER * crowd) / 1000,
            floor_is=f"{ROWS_OF_AN_ORDER} rows each in SQLite, one commit",
            bound=10,
        ),
        Figure(
            name=f"{crowd:,} deaths at once: last one verified after",
            value=done,
            unit="s",
        ),
        *stall_figures(probe, stall, "during all this"),
    ]


async def _measure_silence(
    relay: Subject, fleet: FleetProcess, numbers: range
) -> list[float]:
    """Milliseconds between the 25th second of silence and the entry that tells it."""
    since = CLOCK.now().timestamp()
    sent: Mapping[str, float] = (await fleet.ask("silence", numbers=list(numbers)))[
        "sent"
    ]
    entries = await _wait_entries(relay, "executor.disconnect", since, len(numbers))
    return [(at - sent[name] - SILENCE_LIMIT) * 1000 for name, at in entries.items()]


async def _measure_resets(
    relay: Subject, fleet: FleetProcess, numbers: range
) -> list[float]:
    """Milliseconds between the reset of a socket and the entry that tells it."""
    since = CLOCK.now().timestamp()
    killed: dict[str, float] = {}
    for number in numbers:
        killed |= (await fleet.ask("kill", numbers=[number]))["killed"]
        await CLOCK.sleep(BETWEEN_RESETS)
    entries = await _wait_entries(relay, "executor.disconnect", since, len(numbers))
    return [(at - killed[name]) * 1000 for name, at in entries.items()]


async def _measure_storm(
    relay: Subject, fleet: FleetProcess, numbers: range
) -> list[float]:
    """The same when all are reset in one moment."""
    since = CLOCK.now().timestamp()
    killed: Mapping[str, float] = (await fleet.ask("kill", numbers=list(numbers)))[
        "killed"
    ]
    entries = await _wait_entries(relay, "executor.disconnect", since, len(numbers))
    return [(at - killed[name]) * 1000 for name, at in entries.items()]


async def _measure_singles(
    relay: Subject, fleet: FleetProcess, count: int
) -> list[float]:
    """Milliseconds between a death and its order, one death after another."""
    since = CLOCK.now().timestamp()
    await fleet.ask("orders")
    for number in range(count - SINGLE_DEATHS, count):
        await fleet.ask("kill", numbers=[number])
        await CLOCK.sleep(timedelta(milliseconds=250))
    deaths = await _wait_entries(relay, "executor.dead", since, SINGLE_DEATHS)
    orders = await _wait_orders(fleet, SINGLE_DEATHS)
    return [(orders[name] - at) * 1000 for name, at in deaths.items()]


async def _measure_crowd(
    relay: Subject, fleet: FleetProcess, crowd: int
) -> tuple[float, float]:
    """Seconds from the first death to the last order, and to the last proof."""
    since = CLOCK.now().timestamp()
    await fleet.ask("kill", numbers=list(range(crowd)))
    deaths = await _wait_entries(relay, "executor.dead", since, crowd)
    first = min(deaths.values())
    orders = await _wait_orders(fleet, crowd)
    proofs = await _wait_entries(relay, "executor.delete", since, crowd)
    return max(orders.values()) - first, max(proofs.values()) - first


async def _wait_entries(
    relay: Subject, operation: str, since: float, number: int
) -> dict[str, float]:
    """Executor id to the instant of its first entry, once there are that many."""
    async with CLOCK.timeout(LIMIT):
        while True:
            found: dict[str, float] = {}
            for entry in relay.list_happenings(operation, since=since):
                found.setdefault(entry.details["executor_id"], entry.at)
            if len(found) >= number:
                return found
            await CLOCK.sleep(timedelta(milliseconds=500))


async def _wait_orders(fleet: FleetProcess, number: int) -> dict[str, float]:
    """Executor id to the instant of its first order, once there are that many."""
    found: dict[str, float] = {}
    async with CLOCK.timeout(LIMIT):
        while len(found) < number:
            for at, names in (await fleet.ask("orders"))["orders"]:
                for name in names:
                    found.setdefault(name, at)
            await CLOCK.sleep(timedelta(milliseconds=100))
    return found


def _time_rows(path: Path, rows: int) -> float:
    """Milliseconds that SQLite takes to insert and commit so many on this disk."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE sample (id INTEGER PRIMARY KEY, text TEXT)")
        connection.commit()
        began = CLOCK.monotonic()
        connection.executemany(
            "INSERT INTO sample (text) VALUES (?)", [("x" * 200,)] * rows
        )
        connection.commit()
        return (CLOCK.monotonic() - began) * 1000


async def _measure_timers() -> list[float]:
    """Milliseconds by which a timer of an idle loop is late."""
    spans = []
    for _ in range(200):
        due = CLOCK.monotonic() + 0.01
        await CLOCK.sleep(timedelta(milliseconds=10))
        spans.append((CLOCK.monotonic() - due) * 1000)
    return spans
