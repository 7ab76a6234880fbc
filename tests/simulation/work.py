"""The system database of an application: workflows, and who really runs them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count


class Status(StrEnum):
    """As much of a workflow's life as recovery is about."""

    PENDING = "PENDING"
    ENQUEUED = "ENQUEUED"
    SUCCESS = "SUCCESS"


@dataclass(frozen=True, slots=True)
class Start:
    """A recovery order, known by its request id, had a workflow started on the spot."""

    request_id: str


@dataclass(slots=True, eq=False)
class Workflow:
    """
    One row, and the truth behind it.

    `owner` is what the row says, `claimed_at` since when. `starts` are the starts by
    orders since somebody last claimed it by itself.
    """

    id: str
    version: str
    owner: str | None
    claimed_at: float
    status: Status = Status.PENDING
    is_poison: bool = False
    starts: list[Start] = field(default_factory=list)


class SystemDatabase:
    """
    What the executors of one application share.

    It is never away: that would be the trouble of the application, not of Relay.
    """

    def __init__(self) -> None:
        self.workflows: dict[str, Workflow] = {}
        self._numbers = count(1)

    def add(
        self, owner: str, version: str, now: float, *, is_poison: bool = False
    ) -> Workflow:
        """An executor starts something new."""
        workflow = Workflow(
            f"w{next(self._numbers)}", version, owner, now, is_poison=is_poison
        )
        self.workflows[workflow.id] = workflow
        return workflow

    def list_pending(
        self, owners: Collection[str] = (), versions: Collection[str] = ()
    ) -> list[Workflow]:
        """Those of these owners and versions; empty filters match all."""
        return [
            workflow
            for workflow in self.workflows.values()
            if workflow.status is Status.PENDING
            and (not owners or workflow.owner in owners)
            and (not versions or workflow.version in versions)
        ]

    def list_enqueued(self, version: str) -> list[Workflow]:
        """What waits for any executor of that version."""
        return [
            workflow
            for workflow in self.workflows.values()
            if workflow.status is Status.ENQUEUED and workflow.version == version
        ]

    def claim(self, workflow: Workflow, owner: str, now: float) -> None:
        """An executor takes a workflow from the queue, by itself."""
        workflow.status = Status.PENDING
        workflow.owner = owner
        workflow.claimed_at = now
        workflow.starts.clear()

    def hand_over(self, workflow: Workflow, owner: str, now: float) -> None:
        """A workflow that an order had started shows its new owner."""
        workflow.owner = owner
        workflow.claimed_at = now

    def enqueue(self, workflow: Workflow) -> None:
        """Put a workflow back: any executor of its version may take it."""
        workflow.status = Status.ENQUEUED
        workflow.owner = None

    def finish(self, workflow: Workflow) -> None:
        """End a workflow; what has ended is nobody's business any more."""
        workflow.status = Status.SUCCESS
        del self.workflows[workflow.id]
