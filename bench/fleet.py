"""
The process of the fleet: thousands of executors that a parent steers by lines of JSON.

Each line on standard input is a command, `{"command": name, …}`; each gets one line in
return. All executors share one pretended database: who was made to fall owns one
pending workflow, until an order names it.
"""

import asyncio
import gc
import json
import resource
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from websockets.uri import WebSocketURI, parse_uri

from bench.member import Member
from bench.workflows import Workflows
from relay.clock import SystemClock
from relay.tasks import TaskSet

REDIAL = timedelta(seconds=1)
"""SDKs try again after a second, for ever."""

DIAL_TIMEOUT = timedelta(seconds=5)
"""SDKs give up an upgrade that takes longer."""

PING_INTERVAL = timedelta(seconds=20)
_TICK = timedelta(milliseconds=50)
_DIALS_PER_TICK = 500


class Fleet:
    """Executors `e0` to `e{count-1}` of one application, each redialling when lost."""

    def __init__(self, tasks: TaskSet) -> None:
        self._tasks = tasks
        self._clock = SystemClock()
        self._members: dict[int, Member] = {}
        self._upgrading: dict[Member, float] = {}
        self._fallen: set[str] = set()
        self._recovered: set[str] = set()
        self.workflows = Workflows()
        self._orders: list[tuple[float, list[str]]] = []
        self._requests = 0
        self._losses = 0
        self._refusals: dict[int, int] = {}
        self._uri: WebSocketURI | None = None
        self._host, self._port = "", 0
        self._count = 0

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock.now().timestamp()

    # What members tell.

    def opened(self, member: Member) -> None:
        self._upgrading[member] = self._clock.monotonic()

    def upgraded(self, member: Member) -> None:
        self._upgrading.pop(member, None)
        self._members[member.number] = member

    def refused(self, status: int) -> None:
        self._refusals[status] = self._refusals.get(status, 0) + 1

    def lost(self, member: Member) -> None:
        self._upgrading.pop(member, None)
        if self._members.get(member.number) is member:
            del self._members[member.number]
            self._losses += 1
        if f"e{member.number}" not in self._fallen:
            self._dial_later(member.number)

    def answer(
        self, member: Member, request: Mapping[str, Any], took: timedelta
    ) -> Mapping[str, Any]:
        self._requests += 1
        match request["type"]:
            case "executor_info":
                return {
                    "executor_id": f"e{member.number}",
                    "application_version": "v1",
                    "hostname": f"host-{member.number}",
                    "language": "python",
                    "dbos_version": "3.2.0",
                    "executor_metadata": None,
                }
            case "recovery":
                named = list(request["executor_ids"])
                self._orders.append((self.now(), named))
                self._recovered.update(named)
                return {"success": True}
            case "exist_pending_workflows":
                return {"exist": self._owns_work(request["executor_id"])}
            case "list_workflows" if "executor_id" in request["body"]:
                return {"output": self._list(request["body"]["executor_id"])}
            case "list_workflows" | "get_workflow" | "export_workflow":
                return self.workflows.answer(request, took)
            case "get_workflow_aggregates":
                return {"output": []}
            case _:
                return {"error_message": "Unknown message type"}

    # What the parent commands.

    async def start(self, *, url: str, count: int, application: str) -> dict[str, Any]:
        """Have `count` executors dial; returns when all have begun to."""
        self._uri = parse_uri(f"{url}/websocket/{application}/bench-key")
        self._host, self._port = self._uri.host, self._uri.port
        return await self.grow(count=count)

    async def grow(self, *, count: int) -> dict[str, Any]:
        """Have more executors dial, until there are `count`."""
        first, self._count = self._count, count
        for number in range(first, count):
            self._tasks.spawn(self._dial(number), name=f"dial {number}")
            if number % _DIALS_PER_TICK == 0:
                await self._clock.sleep(timedelta(0))
        return {}

    def status(self) -> dict[str, Any]:
        return {
            "connected": len(self._members),
            "requests": self._requests,
            "losses": self._losses,
            "refusals": self._refusals,
        }

    def silence(self, *, numbers: list[int]) -> dict[str, Any]:
        """Let executors fall silent; when each last gave bytes, by executor id."""
        sent = {}
        for number in numbers:
            member = self._members[number]
            member.fall_silent()
            self._fallen.add(f"e{number}")
            sent[f"e{number}"] = member.last_sent
        return {"sent": sent}

    def kill(self, *, numbers: list[int]) -> dict[str, Any]:
        """Reset the sockets of executors for good; when, by executor id."""
        killed = {}
        for number in numbers:
            self._fallen.add(f"e{number}")
            killed[f"e{number}"] = self.now()
            self._members[number].reset()
        return {"killed": killed}

    def revive(self, *, numbers: list[int]) -> dict[str, Any]:
        """Let fallen executors dial again, without the work they had."""
        for number in numbers:
            self._fallen.discard(f"e{number}")
            self._recovered.discard(f"e{number}")
            if number in self._members:
                self._members[number].reset()
            else:
                self._dial_later(number)
        return {}

    def answer_after(self, *, shortest_ms: int, longest_ms: int) -> dict[str, Any]:
        """Take that long to answer about workflows from now on, evenly spread."""
        self.workflows.answer_after(shortest_ms, longest_ms)
        return {}

    def orders(self) -> dict[str, Any]:
        """The orders since the last question: when, in seconds since 1970, and whom."""
        orders, self._orders = self._orders, []
        return {"orders": orders}

    async def keep_pinging(self) -> None:
        """Ping on every socket each interval, evenly spread, and end slow upgrades."""
        ticks = PING_INTERVAL // _TICK
        tick = 0
        while True:
            await self._clock.sleep(_TICK)
            tick = (tick + 1) % ticks
            for number, member in list(self._members.items()):
                if number % ticks == tick:
                    member.ping()
            self._give_up_upgrades()

    def _give_up_upgrades(self) -> None:
        latest = self._clock.monotonic() - DIAL_TIMEOUT.total_seconds()
        for member, began in list(self._upgrading.items()):
            if began > latest:
                break
            member.reset()

    def _owns_work(self, executor_id: str) -> bool:
        return executor_id in self._fallen and executor_id not in self._recovered

    def _list(self, named: str | list[str] | None) -> list[dict[str, str]]:
        ids = [named] if isinstance(named, str) else named or []
        return [
            {
                "WorkflowUUID": f"w-{executor_id}",
                "WorkflowName": "work",
                "Status": "PENDING",
                "ExecutorID": executor_id,
                "ApplicationVersion": "v1",
            }
            for executor_id in ids
            if self._owns_work(executor_id)
        ]

    def _dial_later(self, number: int) -> None:
        asyncio.get_running_loop().call_later(
            REDIAL.total_seconds(),
            lambda: self._tasks.spawn(self._dial(number), name=f"dial {number}"),
        )

    async def _dial(self, number: int) -> None:
        uri = self._uri
        if uri is None:
            raise RuntimeError("the fleet was not told where to dial")
        try:
            async with self._clock.timeout(DIAL_TIMEOUT):
                await asyncio.get_running_loop().create_connection(
                    lambda: Member(self, number, uri), self._host, self._port
                )
        except OSError:
            self._dial_later(number)


async def _obey(fleet: Fleet, line: bytes) -> dict[str, Any]:
    order = json.loads(line)
    command = order.pop("command")
    match command:
        case "start":
            return await fleet.start(**order)
        case "grow":
            return await fleet.grow(**order)
        case "status":
            return fleet.status()
        case "silence":
            return fleet.silence(**order)
        case "kill":
            return fleet.kill(**order)
        case "revive":
            return fleet.revive(**order)
        case "answer_after":
            return fleet.answer_after(**order)
        case "orders":
            return fleet.orders()
        case _:
            raise ValueError(f"the fleet knows no command {command!r}")


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    async with TaskSet("fleet") as tasks:
        fleet = Fleet(tasks)
        tasks.spawn(fleet.keep_pinging(), name="pings")
        while line := await commands.readline():
            sys.stdout.write(json.dumps(await _obey(fleet, line)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A full collection among ten thousand sockets takes 150 ms, in which an order that
    # has arrived would not be noticed. What is lost in a minute or two of running is
    # little.
    gc.disable()
    try:
        import uvloop

        uvloop.run(_serve())
    except ImportError:
        asyncio.run(_serve())
