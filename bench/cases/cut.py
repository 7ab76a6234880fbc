"""What happens when every socket ends in one moment, as behind a proxy that dies."""

from datetime import timedelta
from pathlib import Path

from bench.children import CLOCK, running_fleet
from bench.probe import probing, stall_figures
from bench.report import Figure
from bench.subject import APPLICATION, running_relay

LIMIT = timedelta(minutes=3)


async def measure_cut(directory: Path, count: int) -> list[Figure]:
    """The process that holds `count` sockets is killed, and another dials for all."""
    async with running_relay(directory / "cut") as relay:
        async with running_fleet() as fleet:
            await fleet.ask(
                "start", url=relay.url, count=count, application=APPLICATION
            )
            await relay.wait_healthy(count, within=LIMIT)
            since = CLOCK.now().timestamp()
            async with probing(relay.port) as probe:
                await CLOCK.sleep(timedelta(seconds=1))
                await fleet.kill()
                began = CLOCK.monotonic()
                async with CLOCK.timeout(LIMIT):
                    while relay.count_healthy():
                        await CLOCK.sleep(timedelta(milliseconds=50))
                recorded = CLOCK.monotonic() - began
        stall = await relay.read_metric("relay_loop_stall_seconds_max")
        async with running_fleet() as fleet:
            began = CLOCK.monotonic()
            await fleet.ask(
                "start", url=relay.url, count=count, application=APPLICATION
            )
            await relay.wait_healthy(count, within=LIMIT)
            back = CLOCK.monotonic() - began
        dead = len(relay.list_happenings("executor.dead", since=since))
    return [
        Figure(
            name=f"{count:,} sockets cut at once: last one recorded after",
            value=recorded,
            unit="s",
        ),
        Figure(name="all of them HEALTHY again, once they dial", value=back, unit="s"),
        Figure(name="DEAD because of it", value=dead, unit="", bound=0),
        *stall_figures(probe, stall, "while they are cut"),
    ]
