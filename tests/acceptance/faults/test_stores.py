"""Databases that are away: Relay's own, and that of an application."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from httpx import Timeout

from relay.testing.executor import FakeExecutor
from tests.acceptance.environments import PYTHON
from tests.acceptance.fleet import open_fleet
from tests.acceptance.processes import CLOCK, RelayProcess, until
from tests.acceptance.proxy import Drop, open_proxy
from tests.acceptance.stage import Stage
from tests.acceptance.verdicts import nobody_died
from tests.postgres import PostgresServer

pytestmark = pytest.mark.acceptance

OUTAGE = timedelta(seconds=60)
BACK_WITHIN = 15
"""Seconds from the return of the store until everything is as it was."""


async def test_a_minute_without_the_store_costs_no_socket(
    stage: Stage, stoppable_postgres: PostgresServer
) -> None:
    """
    200 executors keep their sockets, known keys connect, and 15 s later all is well.

    About 85 s. One that was away the whole time is missed, and not dead. Afterwards a
    death is recovered by one that came during the outage.
    """
    sdk = PYTHON[0]
    url = stoppable_postgres.create_database().url
    relay = await stage.relay(
        RELAY_AUTH="keys", RELAY_DATABASE_URL=url, RELAY_FAULT_GRACE_SECS="60"
    )
    admin = (await relay.command("key", "create", "--admin")).strip()
    relay.http.headers["Authorization"] = f"Bearer {admin}"
    for application in ("loop", "fleet"):
        await relay.configure(application, executorTimeoutSecs=10)
    key = (await relay.command("key", "create", "executors")).strip()
    worker = await stage.executor(sdk, "worker", relay=relay, key=key)
    async with (
        open_fleet(relay.url, 200, key=key) as fleet,
        open_fleet(relay.url, 5, key="unknown", names="stranger") as strangers,
    ):
        await fleet.is_healthy(relay, within=30)
        await worker.begin("w", steps=100, seconds=1)
        absentee = await FakeExecutor.connect(
            relay.url, "fleet", key, executor_id="absentee"
        )
        await relay.status_is("fleet", "absentee", "HEALTHY", within=10)
        await absentee.close()
        await relay.status_is("fleet", "absentee", "DISCONNECTED", within=5)

        went = CLOCK.monotonic()
        await asyncio.to_thread(stoppable_postgres.stop)

        await _readiness_is(relay, 503, within=10)
        newcomer = await stage.executor(sdk, "newcomer", relay=relay.url, key=key)
        async with open_fleet(relay.url, 20, key=key, names="late") as latecomers:
            await latecomers.is_dialled(within=10)
            fleet.hang_up(fleet.ids[:20])
            await _stays_red(relay, went + OUTAGE.total_seconds())
            assert [fleet.dialled[one] for one in fleet.ids[20:]] == [1] * 180
            assert [fleet.dialled[one] for one in fleet.ids[:20]] == [2] * 20
            assert set(latecomers.dialled.values()) == {1}
            assert not strangers.live

            await asyncio.to_thread(stoppable_postgres.start)
            deadline = CLOCK.monotonic() + BACK_WITHIN

            def left() -> float:
                return max(0.0, deadline - CLOCK.monotonic())

            await _readiness_is(relay, 200, within=left())
            for executor in (worker, newcomer):
                await relay.status_is(
                    "loop", executor.executor_id, "HEALTHY", within=left()
                )
            await fleet.is_healthy(relay, within=left())
            await latecomers.is_healthy(relay, within=left())
            await relay.configure("loop", executorTimeoutSecs=1)
            shown = await relay.executors("fleet")
            assert shown.pop("absentee") == "DISCONNECTED"
            assert set(shown.values()) == {"HEALTHY"}
            assert await nobody_died(relay)
            assert set(latecomers.dialled.values()) == {1}
            assert sum(fleet.dialled.values()) == 220

            await worker.kill()
            await relay.wait_for("recovery.order", within=20)
            await stage.steps.ran_on("w", newcomer.executor_id, within=20)


async def test_a_minute_in_which_the_file_is_locked_costs_no_socket(
    stage: Stage,
) -> None:
    """
    Another process keeps the SQLite file locked: it can be read, but not written.

    About 75 s. Whoever is away or comes meanwhile fares as if the store were away.
    """
    relay = await stage.relay(RELAY_FAULT_GRACE_SECS="60")
    file = stage.directory / "data" / "relay.db"
    async with open_fleet(relay.url, 200) as fleet:
        await fleet.is_healthy(relay, within=30)
        await relay.configure("fleet", executorTimeoutSecs=10)
        absentee = await FakeExecutor.connect(
            relay.url, "fleet", "any", executor_id="absentee"
        )
        await relay.status_is("fleet", "absentee", "HEALTHY", within=10)
        await absentee.close()
        await relay.status_is("fleet", "absentee", "DISCONNECTED", within=5)

        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            went = CLOCK.monotonic()

            fleet.hang_up(fleet.ids[:20])
            await _readiness_is(relay, 503, within=10)
            async with open_fleet(
                relay.url, 20, application="unheard-of", names="new"
            ) as newcomers:
                await newcomers.is_dialled(within=10)
                await _stays_red(relay, went + OUTAGE.total_seconds())
                assert set(newcomers.dialled.values()) == {1}
                assert sum(fleet.dialled.values()) == 220

                other.rollback()
                await _readiness_is(relay, 200, within=BACK_WITHIN)
                await fleet.is_healthy(relay, within=BACK_WITHIN)
                await newcomers.is_healthy(relay, within=BACK_WITHIN)
                shown = await relay.executors("fleet")
                assert shown.pop("absentee") == "DISCONNECTED"
                assert set(shown.values()) == {"HEALTHY"}
                assert await nobody_died(relay)
                assert set(newcomers.dialled.values()) == {1}
                assert sum(fleet.dialled.values()) == 220


async def test_in_local_mode_everybody_may_come_while_the_store_is_away(
    stage: Stage, stoppable_postgres: PostgresServer
) -> None:
    """
    An application that nobody has seen before connects, and has its row afterwards.

    About 20 s, 10 of them without the store.
    """
    url = stoppable_postgres.create_database().url
    relay = await stage.relay(RELAY_DATABASE_URL=url)
    async with open_fleet(relay.url, 20) as fleet:
        await fleet.is_healthy(relay, within=20)

        await asyncio.to_thread(stoppable_postgres.stop)

        await _readiness_is(relay, 503, within=10)
        async with open_fleet(
            relay.url, 20, application="unheard-of", names="new"
        ) as newcomers:
            await newcomers.is_dialled(within=10)
            await CLOCK.sleep(timedelta(seconds=10))
            await asyncio.to_thread(stoppable_postgres.start)

            await newcomers.is_healthy(relay, within=BACK_WITHIN)
            await fleet.is_healthy(relay, within=BACK_WITHIN)
            assert set(fleet.dialled.values()) == {1}
            assert set(newcomers.dialled.values()) == {1}
            assert await nobody_died(relay)


async def test_a_store_that_hangs_is_as_good_as_away(
    stage: Stage, stoppable_postgres: PostgresServer
) -> None:
    """
    Nothing comes back from PostgreSQL, no error either: red, green, and nobody dies.

    About 30 s, 20 of them in silence.
    """
    database = stoppable_postgres.create_database()
    async with open_proxy(database.port) as link:
        url = replace(database, port=link.port).url
        relay = await stage.relay(RELAY_DATABASE_URL=url)
        async with open_fleet(relay.url, 20) as fleet:
            await fleet.is_healthy(relay, within=20)
            await relay.configure("fleet", executorTimeoutSecs=5)

            link.degrade(up=Drop(), down=Drop())

            await _readiness_is(relay, 503, within=15)
            fleet.hang_up(fleet.ids[:5])
            for _ in range(4):
                assert await _answers_in_time(relay)
                await CLOCK.sleep(timedelta(seconds=5))
            link.heal()

            await _readiness_is(relay, 200, within=BACK_WITHIN)
            await fleet.is_healthy(relay, within=BACK_WITHIN)
            assert await nobody_died(relay)


async def test_the_database_of_an_application_is_away_when_it_is_needed(
    stage: Stage, stoppable_postgres: PostgresServer
) -> None:
    """
    Nobody can say what is pending: it is asked again until somebody can, and then done.

    About 50 s, 15 of them without the database.
    """
    sdk = PYTHON[0]
    url = stoppable_postgres.create_database().url
    relay = await stage.relay()
    victim = await stage.executor(sdk, "victim", relay=relay, database=url)
    peer = await stage.executor(sdk, "peer", relay=relay, database=url)
    await relay.configure("loop", executorTimeoutSecs=2)
    await victim.begin("w", steps=4, seconds=1)
    await stage.steps.reached("w", 2, within=20)

    await asyncio.to_thread(stoppable_postgres.stop)
    await victim.kill()

    await relay.status_is("loop", victim.executor_id, "DEAD", within=20)
    await CLOCK.sleep(timedelta(seconds=15))
    assert (await relay.executors("loop"))[victim.executor_id] == "DEAD"
    [row] = await relay.recoveries("loop")
    assert row["closedAt"] is None
    await asyncio.to_thread(stoppable_postgres.start)

    await peer.finish("w", within=90)
    await relay.status_is("loop", victim.executor_id, None, within=60)
    [row] = await relay.recoveries("loop")
    assert (row["state"], row["verified"]) == ("DONE", True)
    assert stage.steps.executors_of("begin", "w")[4] == [peer.executor_id]
    assert await relay.executors("loop") == {peer.executor_id: "HEALTHY"}


async def _stays_red(relay: RelayProcess, end: float) -> None:
    """Red, and quick to say that the process is well, to the `end` by the clock."""
    while CLOCK.monotonic() < end:
        assert await _answers_in_time(relay)
        await _readiness_is(relay, 503, within=0)
        await CLOCK.sleep(timedelta(seconds=5))


async def _readiness_is(relay: RelayProcess, status: int, *, within: float) -> None:
    async def look() -> bool:
        answer = await relay.http.get("/readyz", timeout=Timeout(15))
        return answer.status_code == status

    await until(f"/readyz answers {status}", look, within=within)


async def _answers_in_time(relay: RelayProcess) -> bool:
    """Whether the process itself is well, and quick to say so."""
    answer = await relay.http.get("/healthz", timeout=Timeout(2))
    return answer.status_code == 200
