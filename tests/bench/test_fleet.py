"""The fleet is as many executors as it says, and they redial."""

from datetime import timedelta

import pytest

from bench.children import CLOCK, running_fleet, running_floor

SOON = timedelta(seconds=20)


@pytest.mark.acceptance
async def test_the_fleet_connects_and_comes_back() -> None:
    """Twenty executors hold twenty sockets, and dial again when the server ended."""
    async with running_fleet() as fleet:
        async with running_floor("raw_socket") as floor:
            port = floor.port
            await fleet.ask("start", url=floor.url, count=20, application="orders")
            await fleet.wait_connected(20, within=SOON)
        async with running_floor("raw_socket", port=port):
            async with CLOCK.timeout(SOON):
                while (await fleet.ask("status"))["losses"] < 20:
                    await CLOCK.sleep(timedelta(milliseconds=50))
            await fleet.wait_connected(20, within=SOON)


@pytest.mark.acceptance
async def test_who_was_killed_stays_away_until_revived() -> None:
    """A death is a death: the fleet does not bring it back by itself."""
    async with running_fleet() as fleet, running_floor("raw_socket") as floor:
        await fleet.ask("start", url=floor.url, count=5, application="orders")
        await fleet.wait_connected(5, within=SOON)

        killed = await fleet.ask("kill", numbers=[0, 3])

        assert set(killed["killed"]) == {"e0", "e3"}
        async with CLOCK.timeout(SOON):
            while (await fleet.ask("status"))["connected"] != 3:
                await CLOCK.sleep(timedelta(milliseconds=50))
        await fleet.ask("revive", numbers=[0, 3])
        await fleet.wait_connected(5, within=SOON)
