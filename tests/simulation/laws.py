"""
The laws, and the witness that knows the truth.

The witness sees every frame in the moment in which Relay writes it, every answer in the
moment in which Relay reads it, and the rows in the turn of each commit. It knows which
processes live and which workflows they own, and so whether what Relay does is right. It
asks none of Relay's rooms for their opinion, with one exception: which socket speaks
for an executor (law 6).

The numbers are those of the rules: 1 nobody on line is named, 2 nothing is deleted
while work is pending, 3 all work is recovered and no row sleeps for ever, 4 one order
at a time and the question before each, 5 Relay's own doing makes nobody dead, 6 old
news change nothing. Besides: what happens is in the audit log, nothing fails with a
traceback, and Relay comes to rest when nothing is left to do.
"""

import json
import sys
import traceback
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from websockets.frames import Opcode

from tests.simulation.commits import CommitLaws
from tests.simulation.evidence import Evidence, Order
from tests.simulation.rows import ExecutorRow, Rows
from tests.simulation.script import Broken
from tests.simulation.wire import Answer, Frame
from tests.simulation.work import Start, Workflow

if TYPE_CHECKING:
    from tests.simulation.executors import Process
    from tests.simulation.network import Cable
    from tests.simulation.world import World


class Laws:
    """Holds what happens against the laws; the first breach is kept in `broken`."""

    def __init__(self, world: "World", rows: Rows) -> None:
        self.broken: Broken | None = None
        self._evidence = Evidence()
        self._world = world
        self._rows = rows
        self._commits = CommitLaws(world, rows, self, self._evidence)

    @property
    def applications(self) -> Collection[str]:
        """The names of the applications that Relay knows."""
        return self._rows.applications

    def breach(self, law: str, what: str) -> None:
        """Note that a law is broken."""
        if self.broken is None:
            self.broken = Broken(law, what)
            self._world.note("LAW", str(self.broken))

    def fail(self, event: str, error: BaseException | None = None) -> None:
        """Something in Relay has failed with a traceback."""
        error = error or sys.exception()
        lines = traceback.format_exception(error) if error else []
        self.breach("traceback", f"{event}\n{''.join(lines)}")

    def committed(self) -> None:
        """The rows have changed, right now."""
        self._commits.check()

    # --- what is written to sockets, and read from them ------------------------------

    def written(self, cable: "Cable", item: Answer | Frame) -> None:
        """Relay writes something to an executor, right now."""
        if not isinstance(item, Frame):
            return
        if item.opcode is Opcode.CLOSE:
            cable.is_hung_up = True
        if item.opcode is not Opcode.TEXT:
            return
        request = json.loads(item.payload)
        cable.asked_at[request["request_id"]] = self._world.clock.elapsed
        process = cable.process
        self._world.note("Relay", f"asks {process.name}: {_show(request)}")
        if request["type"] == "recovery":
            self._world.script.seen[f"order to {process.kind}"] += 1
            self._check_order(cable, request)

    def answered(
        self,
        cable: "Cable",
        request: Mapping[str, Any],
        reply: Mapping[str, Any],
        known_at: float,
    ) -> None:
        """Relay reads an answer, right now, that was true at `known_at`."""
        app, now = cable.process.identity.app, self._world.clock.elapsed
        self._world.note(cable.process.name, f"answered {_tell(request, reply)}")
        asked_at = cable.asked_at.pop(request["request_id"], now)
        for orders in self._evidence.orders_of.values():
            for order in orders:
                if (
                    order.settled_by is None
                    and order.target.identity == cable.process.identity
                    and order.written_at <= asked_at
                ):
                    order.settled_by = cable.process
        match request, reply:
            case {"type": "executor_info"}, {"executor_id": executor_id}:
                if cable.identity is None:
                    cable.identity, cable.identified_at = executor_id, now
            case {"type": "recovery"}, _:
                self._evidence.orders[request["request_id"]].is_answered = True
            case {"type": "exist_pending_workflows"}, {"exist": exists}:
                name = request["executor_id"]
                if exists:
                    self._evidence.remains_at[app, name] = now
                else:
                    key = (app, name, request["application_version"])
                    self._evidence.nothing_at[key] = known_at

    def started(self, workflow: Workflow, process: "Process", request_id: str) -> None:
        """An order has a process start a workflow on the spot (law 4)."""
        order = self._evidence.orders[request_id]
        for earlier in workflow.starts:
            first = self._evidence.orders[earlier.request_id]
            if (
                first.epochs == order.epochs
                and first.target.is_alive
                and workflow.id in first.target.running
                and first.target.name not in order.succeeds_dead
                and not _is_beyond_knowing(first)
            ):
                self.breach(
                    "4",
                    f"{workflow.id} was started by order on {process.name} although"
                    f" {first.target.name} runs it by an order",
                )
        workflow.starts.append(Start(request_id))

    def _check_order(self, cable: "Cable", request: Mapping[str, Any]) -> None:
        now, app = self._world.clock.elapsed, cable.process.identity.app
        names = tuple(request["executor_ids"])
        rows = {name: self._rows.executors.get((app, name)) for name in names}
        order = Order(
            names=names,
            epochs={name: row.epoch for name, row in rows.items() if row},
            target=cable.process,
            cable=cable,
            written_at=now,
        )
        if len(names) > (100 if cable.process.kind.reenqueues else 1):
            self.breach("4", f"an order names {len(names)} executors: {names}")
        for name in names:
            if self.is_online(app, name):
                self.breach("1", f"{name} is on line and named in an order")
            self._check_recorded(app, name, rows[name])
            self._check_alone(order, app, name)
            told_at = self._evidence.remains_at.pop((app, name), float("-inf"))
            if told_at < self._evidence.died_at.get((app, name), float("inf")):
                self.breach(
                    "4", f"{name} is named in an order without the question before it"
                )
            self._evidence.orders_of.setdefault((app, name), []).append(order)
        self._evidence.orders[request["request_id"]] = order
        self._world.on_order(order.target, [(app, name) for name in names])

    def _check_recorded(self, app: str, name: str, row: ExecutorRow | None) -> None:
        if row is None or row.status != "DEAD":
            self.breach("1", f"{name} is named in an order, and is not recorded DEAD")
            return
        recovery = self._rows.find_open((app, name))
        if recovery is None or recovery.state != "ORDERED":
            self.breach("4", f"the order that names {name} was not recorded first")

    def _check_alone(self, order: Order, app: str, name: str) -> None:
        for earlier in self._evidence.orders_of.get((app, name), ()):
            if earlier.epochs.get(name) != order.epochs.get(name):
                continue
            if self._is_outstanding(earlier):
                self.breach("4", f"a second order names {name}: the first one is out")
            if earlier.was_target_dead:
                order.succeeds_dead.add(earlier.target.name)
            elif not (
                earlier.settled_by is not None
                or earlier.target.kind.reenqueues
                or not earlier.target.is_alive
            ):
                self.breach(
                    "4",
                    f"{name} is named in a second order although"
                    f" {earlier.target.name} may still start its work",
                )

    def _is_outstanding(self, order: Order) -> bool:
        waits_until = order.written_at + self._world.settings.order_timeout_secs
        return (
            not order.is_answered
            and order.cable.is_open_here
            and not order.cable.is_hung_up
            and self._world.clock.elapsed < waits_until
        )

    def is_online(self, app: str, name: str) -> bool:
        """Whether a socket is open at both ends on which Relay has read that name."""
        run = self._world.run
        return run is not None and any(
            cable.identity == name
            and cable.process.identity.app == app
            and cable.is_open_here
            and not cable.is_hung_up
            and cable.is_open_there
            # What Relay reads and writes in one instant has no order.
            and cable.identified_at < self._world.clock.elapsed
            for cable in run.cables
        )

    # --- what is true in the end -----------------------------------------------------

    def find_unfinished(self) -> list[str]:
        """
        What is not as it should be once nobody disturbs any more (law 3).

        Work of executors that Relay never knew is not its business.
        """
        known = self._evidence.known
        missing = [
            f"the recovery of {row.executor_id} is {row.state}"
            for row in self._rows.list_open()
        ]
        for name, row in self._rows.executors.items():
            if row.status != "HEALTHY" or not self.is_online(*name):
                missing.append(f"{name[1]} is {row.status}")
        missing += [
            f"{process.name} is not known"
            for process in self._world.processes
            if (process.identity.app, process.identity.executor_id) not in known
        ]
        for app, database in self._world.databases.items():
            for workflow in database.list_pending():
                owner = workflow.owner or ""
                name = (app, owner)
                if name not in known or self._world.list_alive(*name):
                    continue
                missing.append(f"{workflow.id} still belongs to {owner}")
        return missing


def _is_beyond_knowing(order: Order) -> bool:
    """
    Whether nobody could have known that its target was about to start something.

    Of twins with one id any may have answered; and whoever has answered may be stopped
    before what it has started shows.
    """
    by, target = order.settled_by, order.target
    return by is not None and (by is not target or target.frozen_at >= order.written_at)


def _tell(request: Mapping[str, Any], reply: Mapping[str, Any]) -> str:
    if isinstance(rows := reply.get("output"), list):
        return f"{request['type']}: {len(rows)} rows"
    if request["type"] == "executor_info":
        return "executor_info"
    return f"{request['type']}: {dict(reply)}"


def _show(request: Mapping[str, Any]) -> str:
    facts = {
        name: value
        for name, value in request.items()
        if name in {"executor_ids", "executor_id", "application_version"}
    }
    return f"{request['type']} {facts}" if facts else str(request["type"])
