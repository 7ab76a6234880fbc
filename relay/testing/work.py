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
        self._finished: dict[str, tuple[str, str]] = {}
        self._cancelled: set[str] = set()
        self._applications: dict[str, str] = {}
        self._created_ms: dict[str, int] = {}

    def add(self, executor_id: str, version: str, *workflow_ids: str) -> None:
        """Let an executor own more pending workflows."""
        for workflow_id in workflow_ids:
            self.owners[workflow_id] = (executor_id, version)
            self._created_ms.setdefault(workflow_id, next(_INSTANTS))

    def assign(self, application: str, *workflow_ids: str) -> None:
        """Say to which application workflows belong; the others belong to nobody."""
        self._applications |= dict.fromkeys(workflow_ids, application)

    def finish(self, *workflow_ids: str) -> None:
        """End workflows, however; the database still knows them."""
        for workflow_id in workflow_ids:
            self._finished[workflow_id] = self.owners.pop(workflow_id)

    def cancel(self, *workflow_ids: str) -> None:
        """Cancel what is pending of them."""
        pending = [each for each in workflow_ids if each in self.owners]
        self.finish(*pending)
        self._cancelled.update(pending)

    def knows(self, workflow_id: str) -> bool:
        """Whether the database has such a workflow."""
        return workflow_id in self.owners or workflow_id in self._finished

    def forget(self, *workflow_ids: str) -> None:
        """Delete workflows, as the retention of their application does."""
        for workflow_id in workflow_ids:
            self.owners.pop(workflow_id, None)
            self._finished.pop(workflow_id, None)
            self._created_ms.pop(workflow_id, None)
            self._cancelled.discard(workflow_id)
            self._applications.pop(workflow_id, None)

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
            for owners in (self.owners, self._finished)
            for workflow_id, owner in owners.items()
        ]
        filters = {
            "WorkflowUUID": body.get("workflow_uuids"),
            "WorkflowName": body.get("workflow_name"),
            "Status": body.get("status"),
            "ExecutorID": body.get("executor_id"),
            "ApplicationVersion": body.get("application_version"),
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
        row = {
            "WorkflowUUID": workflow_id,
            "WorkflowName": "checkout",
            "Status": self._status(workflow_id),
            "ExecutorID": executor_id,
            "ApplicationVersion": version,
            "CreatedAt": None if created_ms is None else str(created_ms),
            "ApplicationName": self._applications.get(workflow_id),
        }
        if options.get("load_input"):
            row["Input"] = "(('book',), {})"
        if options.get("load_output") and row["Status"] == "SUCCESS":
            row["Output"] = "'sold'"
        return row

    def _status(self, workflow_id: str) -> str:
        if workflow_id in self.owners:
            return "PENDING"
        return "CANCELLED" if workflow_id in self._cancelled else "SUCCESS"


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
