"""The workflows of a system database that exists only in a test."""

import itertools
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

_INSTANTS = itertools.count(1_790_000_000_000)
"""No two workflows are created in one millisecond, in whichever databases."""


class FakeWork:
    """
    Who owns which workflow; shared by the fake executors of one database.

    `owners` maps the id of a pending workflow to the executor id and the application
    version that own it. `is_lazy` makes recovery orders succeed and change nothing, as
    an executor of another version does.
    """

    def __init__(self, *, is_lazy: bool = False) -> None:
        self.owners: dict[str, tuple[str, str]] = {}
        self.is_lazy = is_lazy
        self._enqueued: dict[str, tuple[str, str]] = {}
        self._finished: dict[str, tuple[str, str]] = {}
        self._cancelled: set[str] = set()
        self._applications: dict[str, str] = {}
        self._created_ms: dict[str, int] = {}
        self._queues: dict[str, tuple[str | None, str | None]] = {}
        self._parents: dict[str, str] = {}
        self._steps: dict[str, dict[int, str | None]] = {}

    def add(self, executor_id: str, version: str, *workflow_ids: str) -> None:
        """Let an executor own more pending workflows."""
        for workflow_id in workflow_ids:
            self.owners[workflow_id] = (executor_id, version)
            self._created_ms.setdefault(workflow_id, next(_INSTANTS))

    def enqueue(
        self,
        executor_id: str,
        version: str,
        *workflow_ids: str,
        queue_name: str | None = None,
        partition_key: str | None = None,
    ) -> None:
        """Put workflows on a queue, new ones or pending ones."""
        self.add(executor_id, version, *workflow_ids)
        for workflow_id in workflow_ids:
            self._enqueued[workflow_id] = self.owners.pop(workflow_id)
            self._queues[workflow_id] = (queue_name, partition_key)

    def dequeue(self, executor_id: str, *workflow_ids: str) -> None:
        """Let an executor take workflows off their queue; they say yet which it was."""
        for workflow_id in workflow_ids:
            _, version = self._enqueued.pop(workflow_id)
            self.add(executor_id, version, workflow_id)

    def adopt(self, parent_id: str, *workflow_ids: str) -> None:
        """Say which workflow has started others."""
        self._parents |= dict.fromkeys(workflow_ids, parent_id)

    def record(self, workflow_id: str, steps: Mapping[int, str | None]) -> None:
        """
        Say which steps of a workflow are recorded.

        Args:
            steps: by its number, the child that a step has started, if it has.
        """
        self._steps[workflow_id] = dict(steps)

    def list_steps(self, workflow_id: str) -> Mapping[int, str | None]:
        """The recorded steps, as `record` takes them; by default there is one."""
        return self._steps.get(workflow_id, {1: None})

    def assign(self, application: str, *workflow_ids: str) -> None:
        """Say to which application workflows belong; the others belong to nobody."""
        self._applications |= dict.fromkeys(workflow_ids, application)

    def finish(self, *workflow_ids: str) -> None:
        """End workflows, however; the database still knows them."""
        for workflow_id in workflow_ids:
            live = self.owners if workflow_id in self.owners else self._enqueued
            self._finished[workflow_id] = live.pop(workflow_id)

    def cancel(self, *workflow_ids: str) -> None:
        """Cancel what is not finished of them, and take it from its queue."""
        live = [each for each in workflow_ids if self.is_active(each)]
        self.finish(*live)
        self._cancelled.update(live)
        for workflow_id in live:
            _, partition_key = self._queues.get(workflow_id, (None, None))
            self._queues[workflow_id] = (None, partition_key)

    def rewind(
        self,
        workflow_id: str,
        start_step: int,
        *,
        version: str | None,
        queue_name: str,
        partition_key: str | None,
    ) -> None:
        """Enqueue a finished workflow without its steps from `start_step` on."""
        executor_id, old_version = self._finished.pop(workflow_id)
        self._cancelled.discard(workflow_id)
        kept = self.list_steps(workflow_id).items()
        self.record(
            workflow_id, {id_: child for id_, child in kept if id_ < start_step}
        )
        self.enqueue(
            executor_id,
            version or old_version,
            workflow_id,
            queue_name=queue_name,
            partition_key=partition_key,
        )

    def knows(self, workflow_id: str) -> bool:
        """Whether the database has such a workflow."""
        return self.read_status(workflow_id) is not None

    def is_active(self, workflow_id: str) -> bool:
        """Whether the database has such a workflow, and it is not finished."""
        return workflow_id in self.owners or workflow_id in self._enqueued

    def read_status(self, workflow_id: str) -> str | None:
        """The status of a workflow in the words of the SDKs; `None`: there is none."""
        if workflow_id in self.owners:
            return "PENDING"
        if workflow_id in self._enqueued:
            return "ENQUEUED"
        if workflow_id not in self._finished:
            return None
        return "CANCELLED" if workflow_id in self._cancelled else "SUCCESS"

    def forget(self, *workflow_ids: str) -> None:
        """Delete workflows, as the retention of their application does."""
        for workflow_id in workflow_ids:
            for known in (
                self.owners,
                self._enqueued,
                self._finished,
                self._created_ms,
                self._applications,
                self._queues,
                self._parents,
                self._steps,
            ):
                known.pop(workflow_id, None)
            self._cancelled.discard(workflow_id)

    def list_pending(
        self, executor_ids: Collection[str] = (), versions: Collection[str] = ()
    ) -> list[tuple[str, str, str]]:
        """Workflow id, executor id and version of each; empty filters match all."""
        return [
            (workflow_id, executor_id, version)
            for workflow_id, (executor_id, version) in self.owners.items()
            if (not executor_ids or executor_id in executor_ids)
            and (not versions or version in versions)
        ]

    def hand_over(
        self, executor_ids: Collection[str], version: str, target: str
    ) -> list[str]:
        """Give their work of one version to `target`; the ids that moved."""
        if self.is_lazy:
            return []
        moved = [
            workflow_id
            for workflow_id, _, _ in self.list_pending(executor_ids, [version])
        ]
        self.owners |= dict.fromkeys(moved, (target, version))
        return moved

    def answer_listing(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows that `list_workflows` with this body finds."""
        rows = [
            self._row(workflow_id, owner, body)
            for owners in (self.owners, self._enqueued, self._finished)
            for workflow_id, owner in owners.items()
        ]
        filters = {
            "WorkflowUUID": body.get("workflow_uuids"),
            "WorkflowName": body.get("workflow_name"),
            "Status": body.get("status"),
            "ExecutorID": body.get("executor_id"),
            "ApplicationVersion": body.get("application_version"),
            "ParentWorkflowID": body.get("parent_workflow_id"),
        }
        # As in SDKs, a question that names applications leaves out what is another's,
        # even if it asks for it by its id.
        scope = _list(body.get("application_name") or [])
        found = [
            row
            for row in rows
            if all(not want or row[key] in _list(want) for key, want in filters.items())
            and (not scope or row["ApplicationName"] in (None, *scope))
        ]
        found.sort(
            key=lambda row: self._created_ms.get(row["WorkflowUUID"], 0),
            reverse=bool(body.get("sort_desc")),
        )
        offset: int = body.get("offset") or 0
        limit: int | None = body.get("limit")
        return found[offset:][:limit]

    def answer_count(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows that `get_workflow_aggregates` with this body counts."""
        group_keys = {
            "group_by_status": ("status", "Status"),
            "group_by_name": ("name", "WorkflowName"),
            "group_by_executor_id": ("executor_id", "ExecutorID"),
            "group_by_application_version": (
                "application_version",
                "ApplicationVersion",
            ),
        }
        keys = [key for flag, key in group_keys.items() if body.get(flag)]
        counts = Counter(
            tuple((name, row[field]) for name, field in keys)
            for row in self.answer_listing({"status": body.get("status")})
        )
        return [
            {"group": dict(group), "count": count} for group, count in counts.items()
        ]

    def _row(
        self, workflow_id: str, owner: tuple[str, str], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        executor_id, version = owner
        created_ms = self._created_ms.get(workflow_id)
        queue_name, partition_key = self._queues.get(workflow_id, (None, None))
        row = {
            "WorkflowUUID": workflow_id,
            "WorkflowName": "checkout",
            "Status": self.read_status(workflow_id),
            "ExecutorID": executor_id,
            "ApplicationVersion": version,
            "CreatedAt": None if created_ms is None else str(created_ms),
            "ApplicationName": self._applications.get(workflow_id),
            "QueueName": queue_name,
            "QueuePartitionKey": partition_key,
            "ParentWorkflowID": self._parents.get(workflow_id),
        }
        if options.get("load_input"):
            row["Input"] = "(('book',), {})"
        if options.get("load_output") and row["Status"] == "SUCCESS":
            row["Output"] = "'sold'"
        return row


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
