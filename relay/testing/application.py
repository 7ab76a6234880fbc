"""A small application: what an executor answers about it, and lets be done to it."""

import base64
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from relay.testing.answers import Failure, Reply
from relay.testing.work import FakeWork

Request: TypeAlias = Mapping[str, Any]
"""One request as received: `type`, `request_id` and its fields."""

LONG_AGO_MS: Final = 1_780_000_000_000
INTERNAL_QUEUE: Final = "_dbos_internal_queue"
"""What an SDK puts on a queue without a name goes to this one."""

_MINUTE_MS: Final = 60_000
_NUMBERS = itertools.count(1)


@dataclass
class FakeApplication:
    """
    An application with a queue and a schedule.

    `schedules` maps names to a status, `versions` maps names to the milliseconds since
    1970 at which they became the latest. Workflows are those of a `FakeWork`.
    """

    name: str = "shop"
    queues: set[str] = field(default_factory=lambda: {"jobs"})
    schedules: dict[str, str] = field(default_factory=lambda: {"nightly": "ACTIVE"})
    versions: dict[str, int] = field(default_factory=lambda: {"v1": LONG_AGO_MS})

    def answer(
        self, request: Request, executor: tuple[str, str], work: FakeWork
    ) -> Reply | Failure | None:
        """
        What the executor with this id and version answers; `None`: unknown message.

        The version of an executor that answers is one of the application's.
        """
        self.versions.setdefault(executor[1], LONG_AGO_MS)
        for room in (self._read_workflow, self._change_workflow):
            if (reply := room(request, executor, work)) is not None:
                return reply
        return self._answer_about_itself(request, executor, work)

    def _read_workflow(
        self, request: Request, executor: tuple[str, str], work: FakeWork
    ) -> Reply | None:
        del executor
        match request:
            case {"type": "get_workflow", "workflow_id": workflow_id}:
                rows = work.answer_listing({**request, "workflow_uuids": [workflow_id]})
                return Reply({"output": rows[0] if rows else None})
            case {"type": "list_steps", "workflow_id": workflow_id, **options}:
                recorded = work.list_steps(workflow_id).items()
                is_known = work.knows(workflow_id)
                steps = [_step(*step) for step in recorded] if is_known else []
                return Reply({"output": steps[: options.get("limit")]})
            case {"type": "get_workflow_events"}:
                return Reply({"events": [{"key": "progress", "value": "half"}]})
            case {"type": "get_workflow_notifications"}:
                return Reply({"notifications": [_notification()]})
            case {"type": "get_workflow_streams"}:
                return Reply({"streams": [{"key": "log", "values": ["one", "two"]}]})
            case {"type": "export_workflow", "workflow_id": workflow_id}:
                text = base64.b64encode(workflow_id.encode()).decode()
                return Reply({"serialized_workflow": text})
            case {"type": "get_step_aggregates"}:
                group = {"function_name": "charge", "status": "SUCCESS"}
                return Reply({"output": [{"group": group, "count": 1}]})
            case _:
                return None

    def _change_workflow(
        self, request: Request, executor: tuple[str, str], work: FakeWork
    ) -> Reply | Failure | None:
        match request:
            case {"type": "cancel"}:
                work.cancel(*_list_ids(request))
                return Reply({"success": True})
            case {"type": "delete"}:
                work.forget(*_list_ids(request))
                return Reply({"success": True})
            case {"type": "resume"}:
                return _demand_known(_list_ids(request), work) or Reply(
                    {"success": True}
                )
            case {"type": "fork_workflow", "body": body}:
                return _fork(body, executor, work)
            case {"type": "rewind_workflow", "body": body}:
                return _rewind(body, work)
            case {"type": "fork_from_failure", "body": body}:
                new_ids = [_new_id() for _ in body["workflow_ids"]]
                missing = _demand_known(body["workflow_ids"], work)
                return missing or _begin(
                    work, executor, "forked_workflow_ids", new_ids, *new_ids
                )
            case {"type": "import_workflow"}:
                return _begin(work, executor, "success", True, _new_id())
            case _:
                return None

    def _answer_about_itself(
        self, request: Request, executor: tuple[str, str], work: FakeWork
    ) -> Reply | Failure | None:
        match request:
            case {"type": "list_queues"}:
                return Reply({"output": [self._queue(name) for name in self.queues]})
            case {"type": "get_queue", "name": name}:
                is_known = name in self.queues
                return Reply({"output": self._queue(name) if is_known else None})
            case {"type": "list_schedules"}:
                rows = [self._schedule(name) for name in self.schedules]
                return Reply({"output": rows})
            case {"type": "get_schedule", "schedule_name": name}:
                is_known = name in self.schedules
                return Reply({"output": self._schedule(name) if is_known else None})
            case {"type": "pause_schedule", "schedule_name": name}:
                self.schedules |= {name: "PAUSED"} if name in self.schedules else {}
                return Reply({"success": True})
            case {"type": "resume_schedule", "schedule_name": name}:
                self.schedules |= {name: "ACTIVE"} if name in self.schedules else {}
                return Reply({"success": True})
            case {"type": "trigger_schedule", "schedule_name": name}:
                if name not in self.schedules:
                    return Failure(f"Schedule '{name}' does not exist")
                new_id = _new_id()
                return _begin(work, executor, "workflow_id", new_id, new_id)
            case {"type": "backfill_schedule"}:
                new_ids = [_new_id(), _new_id()]
                return _begin(work, executor, "workflow_ids", new_ids, *new_ids)
            case {"type": "list_application_versions"}:
                rows = [_version(name, at) for name, at in self.versions.items()]
                return Reply({"output": rows})
            case {"type": "set_latest_application_version", "version_name": name}:
                if name in self.versions:
                    self.versions[name] = max(self.versions.values()) + 1
                return Reply({"success": True})
            case _:
                return None

    def _queue(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "concurrency": 10,
            "worker_concurrency": None,
            "rate_limit_max": 100,
            "rate_limit_period_sec": 60.0,
            "priority_enabled": False,
            "partition_queue": False,
            "polling_interval_sec": 1.0,
            "application_name": self.name,
        }

    def _schedule(self, name: str) -> dict[str, Any]:
        return {
            "schedule_id": f"schedule-{name}",
            "schedule_name": name,
            "workflow_name": "report",
            "workflow_class_name": None,
            "schedule": "0 3 * * *",
            "status": self.schedules[name],
            "context": "None",
            "last_fired_at": "2026-01-01T03:00:00+00:00",
            "automatic_backfill": False,
            "cron_timezone": "UTC",
            "queue_name": None,
            "application_name": self.name,
        }


def _list_ids(request: Request) -> list[str]:
    return list(request.get("workflow_ids") or [request["workflow_id"]])


def _demand_known(workflow_ids: Iterable[str], work: FakeWork) -> Failure | None:
    missing = [id_ for id_ in workflow_ids if not work.knows(id_)]
    return Failure(f"Workflow {missing[0]} does not exist") if missing else None


def _fork(
    body: Mapping[str, Any], executor: tuple[str, str], work: FakeWork
) -> Reply | Failure:
    """Under an id that no workflow has."""
    new_id: str = body["new_workflow_id"] or _new_id()
    if missing := _demand_known([body["workflow_id"]], work):
        return missing
    if work.knows(new_id):
        return Failure(f"Workflow {new_id} exists")
    return _begin(work, executor, "new_workflow_id", new_id, new_id)


def _rewind(body: Mapping[str, Any], work: FakeWork) -> Reply | Failure:
    """Of a workflow that is finished, and only of such."""
    workflow_id: str = body["workflow_id"]
    if missing := _demand_known([workflow_id], work):
        return missing
    if work.is_active(workflow_id):
        return Failure(f"Cannot rewind {workflow_id}: it is not finished")
    work.rewind(
        workflow_id,
        body.get("start_step") or 0,
        version=body.get("application_version"),
        queue_name=body.get("queue_name") or INTERNAL_QUEUE,
        partition_key=body.get("queue_partition_key"),
    )
    return Reply({"success": True})


def _begin(
    work: FakeWork, executor: tuple[str, str], key: str, value: object, *new_ids: str
) -> Reply:
    """Workflows that have run to their end by the time the answer is there."""
    work.add(*executor, *new_ids)
    work.finish(*new_ids)
    return Reply({key: value})


def _new_id() -> str:
    return f"workflow-{next(_NUMBERS)}"


def _step(step_id: int, child_id: str | None) -> dict[str, Any]:
    return {
        "function_id": step_id,
        "function_name": "charge",
        "output": "'paid'",
        "error": None,
        "child_workflow_id": child_id,
        "started_at_epoch_ms": str(LONG_AGO_MS),
        "completed_at_epoch_ms": str(LONG_AGO_MS + _MINUTE_MS),
    }


def _notification() -> dict[str, Any]:
    return {
        "topic": "payment",
        "message": "received",
        "created_at_epoch_ms": LONG_AGO_MS,
        "consumed": True,
    }


def _version(name: str, latest_at_ms: int) -> dict[str, Any]:
    return {
        "version_id": f"version-{name}",
        "version_name": name,
        "version_timestamp": latest_at_ms,
        "created_at": LONG_AGO_MS,
    }
