"""Running `relay` inside the test, and what it needs to find."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from relay.ids import AppVersion, ExecutorId, RecoveryId
from relay.registry import SHELL_ACTOR
from relay.server import Offline, open_offline
from relay.settings import load_settings


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


async def order_recovery(executor: str) -> RecoveryId:
    async with open_offline(load_settings()) as offline:
        await register(offline, "loop")
        view = await offline.registry.applications.get("loop")
        record = await offline.ledger.order(
            view.record.ref,
            ExecutorId(executor),
            AppVersion("v1"),
            by=SHELL_ACTOR.subject,
        )
    return record.id


async def register(offline: Offline, name: str) -> None:
    await offline.registry.applications.put(SHELL_ACTOR, name, private_mode=None)
