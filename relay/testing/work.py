"""The pending workflows of a system database that exists only in a test."""

from collections.abc import Collection


class FakeWork:
    """
    Who owns which pending workflow; shared by the fake executors of one database.

    `owners` maps a workflow id to the executor id and the application version that own
    it. `is_lazy` makes recovery orders succeed and change nothing, as an executor of
    another version does.
    """

    def __init__(self, *, is_lazy: bool = False) -> None:
        self.owners: dict[str, tuple[str, str]] = {}
        self.is_lazy = is_lazy

    def add(self, executor_id: str, version: str, *workflow_ids: str) -> None:
        """Let an executor own more pending workflows."""
        self.owners |= dict.fromkeys(workflow_ids, (executor_id, version))

    def finish(self, *workflow_ids: str) -> None:
        """End workflows, however."""
        for workflow_id in workflow_ids:
            del self.owners[workflow_id]

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
