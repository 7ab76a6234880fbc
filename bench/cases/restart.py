"""How Relay takes everybody back after a restart, and whether it answers meanwhile."""

import signal
from datetime import timedelta
from pathlib import Path

from bench.children import CLOCK, FleetProcess, running_fleet, running_floor
from bench.probe import HealthProbe, stall_figures
from bench.report import Figure
from bench.subject import APPLICATION, running_relay
from relay.tasks import TaskSet

LIMIT = timedelta(minutes=3)
AFTERWARDS = timedelta(seconds=40)
"""More than the 25 s after which a silent executor is given up."""


async def measure_restart(directory: Path, count: int) -> list[Figure]:
    """Relay is killed and started again while `count` executors redial every second."""
    async with running_relay(directory / "restart") as relay, running_fleet() as fleet:
        await fleet.ask("start", url=relay.url, count=count, application=APPLICATION)
        await relay.wait_healthy(count, within=LIMIT)
        await relay.stop(signal.SIGKILL)
        await relay.start()
        began = CLOCK.now().timestamp()
        probe = HealthProbe(relay.port)
        async with TaskSet("probes") as tasks:
            tasks.spawn(probe.ask_kept(), name="kept")
            tasks.spawn(probe.ask_new(), name="new")
            await relay.wait_healthy(count, within=LIMIT)
            seconds = CLOCK.now().timestamp() - began
        stall = await relay.read_metric("relay_loop_stall_seconds_max")
        back_at = CLOCK.now().timestamp()
        await CLOCK.sleep(AFTERWARDS)
        spurious = len(relay.list_happenings("executor.disconnect", since=back_at))
        refusals = (await fleet.ask("status"))["refusals"]
    floor = await _measure_floor(count)
    return [
        Figure(
            name=f"all {count:,} HEALTHY after a restart",
            value=seconds,
            unit="s",
            floor=floor,
            floor_is="websockets server, all connected",
            bound=20,
            note=f"from ready on; refused meanwhile, by status: {refusals}",
        ),
        Figure(
            name="connects a second during it",
            value=count / seconds,
            unit="/s",
            floor=count / floor,
            floor_is="websockets server",
        ),
        Figure(
            name="/healthz meanwhile, new connection, slowest",
            value=max(probe.new),
            unit="ms",
            bound=2000,
            note=f"{probe.failures} failed of {len(probe.new) + len(probe.kept)}",
        ),
        *stall_figures(probe, stall, "meanwhile"),
        Figure(
            name="spurious DISCONNECTED in the 40 s after it",
            value=spurious,
            unit="",
            bound=0,
        ),
    ]


async def _measure_floor(count: int) -> float:
    """Seconds until a bare server has everybody back."""
    async with running_fleet() as fleet:
        async with running_floor("bare_websockets") as bare:
            port = bare.port
            await fleet.ask("start", url=bare.url, count=count, application=APPLICATION)
            await fleet.wait_connected(count, within=LIMIT)
        await _wait_gone(fleet)
        async with running_floor("bare_websockets", port=port):
            began = CLOCK.monotonic()
            await fleet.wait_connected(count, within=LIMIT)
            return CLOCK.monotonic() - began


async def _wait_gone(fleet: FleetProcess) -> None:
    async with CLOCK.timeout(LIMIT):
        while (await fleet.ask("status"))["connected"]:
            await CLOCK.sleep(timedelta(milliseconds=20))
