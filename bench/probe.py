"""Whether Relay answers while something goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx

from bench.children import CLOCK
from bench.report import Figure, quantile
from relay.tasks import TaskSet

KEPT_EVERY = timedelta(milliseconds=20)
NEW_EVERY = timedelta(milliseconds=250)


class HealthProbe:
    """Asks for `/healthz` all the time, over a kept connection and over new ones."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self.kept: list[float] = []
        self.new: list[float] = []
        self.failures = 0

    async def ask_kept(self) -> None:
        """Over one connection, until cancelled."""
        async with httpx.AsyncClient(base_url=self._base, trust_env=False) as client:
            await client.get("/healthz")
            while True:
                await self._ask(client, self.kept)
                await CLOCK.sleep(KEPT_EVERY)

    async def ask_new(self) -> None:
        """Over a new connection each time, until cancelled."""
        while True:
            async with httpx.AsyncClient(
                base_url=self._base, trust_env=False, timeout=10
            ) as client:
                await self._ask(client, self.new)
            await CLOCK.sleep(NEW_EVERY)

    async def _ask(self, client: httpx.AsyncClient, spans: list[float]) -> None:
        began = CLOCK.monotonic()
        try:
            (await client.get("/healthz")).raise_for_status()
        except httpx.HTTPError:
            self.failures += 1
        spans.append((CLOCK.monotonic() - began) * 1000)


@asynccontextmanager
async def probing(port: int) -> AsyncIterator[HealthProbe]:
    """Keep asking over a kept connection during the block."""
    probe = HealthProbe(port)
    async with TaskSet("probe") as tasks:
        tasks.spawn(probe.ask_kept(), name="kept")
        yield probe


def stall_figures(
    probe: HealthProbe, stall_seconds: float, during: str
) -> list[Figure]:
    """
    The longest standstill of the loop, as Relay noticed it and as a caller felt it.

    Relay looks every 250 ms, and so sees of a shorter standstill a part or nothing; a
    caller every 20 ms sees all of it, and with it the time that the system gave to
    other processes.
    """
    return [
        Figure(
            name=f"longest loop stall {during}",
            value=stall_seconds * 1000,
            unit="ms",
            bound=100,
            note="as noticed by a beat every 250 ms: a lower bound",
        ),
        Figure(
            name=f"/healthz {during}, kept connection, slowest",
            value=max(probe.kept),
            unit="ms",
            bound=100,
            note=f"p99 {quantile(probe.kept, 0.99):.1f} ms of {len(probe.kept)}",
        ),
    ]
