"""
What executors answer when they are asked, and what they do when they are ordered.

What they answer about the database is true. Whether and when the answer gets through,
and whether they do what they are told, is up to their mood and the network.
"""

import json
from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from websockets.frames import Opcode

from tests.simulation.network import Cable, Way
from tests.simulation.wire import pack
from tests.simulation.work import Workflow

if TYPE_CHECKING:
    from tests.simulation.executors import Process

A_MOMENT: Final = 0.9
"""Within it a workflow that was started on the spot shows its new owner, in seconds."""

Request = Mapping[str, Any]


class Mood(StrEnum):
    """How a process takes requests other than `executor_info`."""

    WILLING = "willing"

    MUTE = "mute"
    """Does what it is told, and the answer is lost."""

    DEAF = "deaf"
    """Neither does anything nor answers."""

    FAILING = "failing"
    """Answers with an error, having done nothing."""

    SLOW = "slow"
    """Does it, and answers up to two minutes later."""

    HOLLOW = "hollow"
    """Claims success for orders that it does not carry out."""


class Desk:
    """Where the requests to one process are worked on, one by one or all at once."""

    def __init__(self, process: "Process") -> None:
        self.mood = Mood.WILLING
        self.process = process
        self._queue: deque[tuple[Cable, Request]] = deque()
        self._is_working = False

    @property
    def is_busy(self) -> bool:
        """Whether a request keeps its process from everything else."""
        return self._is_working

    def forget(self, cable: Cable) -> None:
        """What came through that cable and was not begun never will be."""
        self._queue = deque(entry for entry in self._queue if entry[0] is not cable)

    def take(self, cable: Cable, request: Request) -> None:
        """A request has arrived."""
        if not self.process.kind.is_serial:
            self._begin(cable, request)
        elif self._is_working:
            self._queue.append((cable, request))
        else:
            self._is_working = True
            self._begin(cable, request)

    def _begin(self, cable: Cable, request: Request) -> None:
        takes = self.process.random.uniform(0.002, 0.03)
        self.process.later(takes, lambda: self._work(cable, request))

    def _work(self, cable: Cable, request: Request) -> None:
        # Who cannot say who it is never gets anything else to answer.
        mood = Mood.WILLING if request["type"] == "executor_info" else self.mood
        reply = self._react(mood, request)
        # What was looked up is true now, whenever the answer arrives.
        now = self.process.world.clock.elapsed
        takes = self.process.random.uniform(1.0, 120.0) if mood is Mood.SLOW else 0.0
        self.process.later(takes, lambda: self._end(cable, request, reply, now))

    def _end(
        self,
        cable: Cable,
        request: Request,
        reply: Mapping[str, Any] | None,
        known_at: float,
    ) -> None:
        process = self.process
        if reply is None or cable is not process.cable:
            kind = f"lost reply: {request['type']}"
            process.world.note(process.name, kind, counts_as=kind)
        else:
            head = {"type": request["type"], "request_id": request["request_id"]}
            frame = json.dumps({**head, **reply}).encode()
            laws = process.world.laws
            cable.carry(
                Way.IN,
                pack(Opcode.TEXT, frame),
                lambda: laws.answered(cable, request, reply, known_at),
            )
        if process.kind.is_serial:
            self._is_working = False
            process.dial_if_free()
            if self._queue:
                self.take(*self._queue.popleft())

    def _react(self, mood: Mood, request: Request) -> Mapping[str, Any] | None:
        match mood:
            case Mood.DEAF:
                return None
            case Mood.FAILING:
                return {"error_message": "something is wrong here"}
            case Mood.HOLLOW if request["type"] == "recovery":
                return {"success": True}
            case Mood.MUTE:
                self._do(request)
                return None
            case _:
                return self._do(request)

    def _do(self, request: Request) -> Mapping[str, Any]:
        identity = self.process.identity
        match request:
            case {"type": "executor_info"}:
                return {
                    "executor_id": identity.executor_id,
                    "application_version": identity.version,
                    "hostname": self.process.name,
                    "language": self.process.kind.language,
                    "dbos_version": self.process.kind.version,
                }
            case {"type": "exist_pending_workflows"}:
                owner, version = request["executor_id"], request["application_version"]
                return {
                    "exist": bool(
                        self.process.database.list_pending([owner], [version])
                    )
                }
            case {"type": "list_workflows", "body": body}:
                rows = self.process.database.list_pending(
                    _as_list(body.get("executor_id")),
                    _as_list(body.get("application_version")),
                )
                return {"output": [_show(row) for row in rows[: body["limit"]]]}
            case {"type": "get_workflow_aggregates"}:
                return {"output": self._count_pending()}
            case {"type": "recovery", "executor_ids": executor_ids}:
                return self._recover(executor_ids, request["request_id"])
            case {"type": "retention"}:
                return {"success": True}
            case _:
                return {"error_message": "Unknown message type"}

    def _count_pending(self) -> list[dict[str, Any]]:
        groups: dict[tuple[str | None, str], int] = {}
        for workflow in self.process.database.list_pending():
            key = (workflow.owner, workflow.version)
            groups[key] = groups.get(key, 0) + 1
        return [
            {
                "group": {
                    "status": "PENDING",
                    "executor_id": owner,
                    "application_version": version,
                },
                "count": number,
            }
            for (owner, version), number in sorted(groups.items(), key=str)
        ]

    def _recover(self, executor_ids: list[str], request_id: str) -> Mapping[str, Any]:
        found = self.process.database.list_pending(
            executor_ids, [self.process.identity.version]
        )
        for workflow in found:
            if self.process.kind.reenqueues:
                self.process.database.enqueue(workflow)
                self.process.world.offer(workflow, self.process.database)
            else:
                self._start_for_another(workflow, request_id)
        return {"success": True}

    def _start_for_another(self, workflow: Workflow, request_id: str) -> None:
        owner = workflow.owner
        assert owner is not None
        self.process.world.laws.started(workflow, self.process, request_id)
        self.process.run(workflow)

        def show() -> None:
            if workflow.id in self.process.running and workflow.owner == owner:
                self.process.database.hand_over(
                    workflow,
                    self.process.identity.executor_id,
                    self.process.world.clock.elapsed,
                )

        self.process.later(self.process.random.uniform(0.0, A_MOMENT), show)


def _as_list(value: str | list[str] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _show(workflow: Workflow) -> dict[str, str | None]:
    return {
        "WorkflowUUID": workflow.id,
        "WorkflowName": "checkout",
        "Status": workflow.status.value,
        "ExecutorID": workflow.owner,
        "ApplicationVersion": workflow.version,
    }
