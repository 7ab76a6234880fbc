"""The laws about what Relay records, looked after in the turn of each commit."""

from typing import TYPE_CHECKING, Final

from relay.ids import ExecutorId, ExecutorRef
from tests.simulation.evidence import Evidence, Name
from tests.simulation.rows import Commit, ExecutorRow, Rows

if TYPE_CHECKING:
    from tests.simulation.laws import Laws
    from tests.simulation.run import Run
    from tests.simulation.world import World

BACK_WITHIN: Final = 12.0
"""
Seconds in which a process whose own trouble is over has to be on line again.

A pause of 1 s, an attempt to dial that was under way for 5 s, another pause, and a
handshake over a slow line.
"""

BACK_WITHIN_BACKING_OFF: Final = 60.0
"""The same where pauses grow up to 45 s."""

UNSEEN_STARTS: Final = 3
"""After so many starts of Relay an executor that none of them saw may die at once."""

ROUTINE: Final = frozenset(
    {"executor.connect", "executor.reconnect", "executor.disconnect"}
)
"""What is left out of the audit log once it says that an executor is flapping."""


class CommitLaws:
    """Holds the rows against the laws, and against what the witness has seen."""

    def __init__(
        self, world: "World", rows: Rows, laws: "Laws", evidence: Evidence
    ) -> None:
        self._world = world
        self._rows = rows
        self._laws = laws
        self._breach = laws.breach
        self._seen = evidence
        self._flapping: dict[Name, Run | None] = {}

    def check(self) -> None:
        """Look at what has just been committed."""
        commit = self._rows.read()
        self._note_flapping(commit)
        for name, (before, after) in commit.executors.items():
            self._check_executor(name, before, after, commit)
        for recovery in commit.recoveries:
            self._check_recovery(recovery.id, commit)

    def _check_executor(
        self,
        name: Name,
        before: ExecutorRow | None,
        after: ExecutorRow | None,
        commit: Commit,
    ) -> None:
        world = self._world
        if after is None:
            assert before is not None
            world.note("store", f"deletes {name[1]}", counts_as="delete")
            self._check_deletion(name, before)
            self._check_audited(commit, name, "executor.delete")
            world.on_deletion(*name)
            return
        self._seen.known.add(name)
        if before is not None and (before.status, before.epoch) == (
            after.status,
            after.epoch,
        ):
            return
        world.note(
            "store",
            f"{name[1]} is {after.status} at epoch {after.epoch}",
            counts_as=after.status,
        )
        match after.status:
            case "HEALTHY":
                self._check_audited(
                    commit, name, "executor.connect", "executor.reconnect"
                )
            case "DISCONNECTED":
                self._check_audited(commit, name, "executor.disconnect")
                self._check_loss(name, before)
                if after.dead_after is not None:
                    world.on_loss(*name, world.store.seconds_until(after.dead_after))
            case _:
                self._seen.died_at[name] = world.clock.elapsed
                for order in self._seen.orders.values():
                    if order.target.identity.app == name[0] and (
                        order.target.name == name[1]
                    ):
                        order.was_target_dead = True
                self._check_audited(
                    commit, name, "executor.dead" if before else "census.reopen"
                )
                if before is None:
                    world.note("store", f"knows {name[1]} again", counts_as="reopen")
                self._check_death(name, after)
                world.on_death(*name)

    def _check_deletion(self, name: Name, row: ExecutorRow) -> None:
        app, executor_id = name
        if row.status != "DEAD":
            self._breach("2", f"{executor_id} was deleted as {row.status}")
        if self._laws.is_online(app, executor_id):
            self._breach("1", f"{executor_id} is on line and was deleted")
        known_at = self._seen.nothing_at.get((*name, row.app_version), float("-inf"))
        if known_at < self._seen.died_at[name]:
            self._breach("2", f"{executor_id} was deleted, and nobody had been asked")
        # The one excuse: somebody with that id, alive and unconnected, claimed it after
        # the answer. Nothing that Relay can ask would show it.
        pending = [
            workflow.id
            for workflow in self._world.databases[app].list_pending(
                [executor_id], [row.app_version]
            )
            if workflow.claimed_at <= known_at
        ]
        if pending:
            self._breach("2", f"{executor_id} was deleted while it owns {pending}")

    def _check_loss(self, name: Name, before: ExecutorRow | None) -> None:
        """A row leaves HEALTHY when its own socket has ended, no other one (law 6)."""
        run = self._world.run
        if before is None or before.status != "HEALTHY" or run is None:
            return
        if run.server is None:
            return
        ref = ExecutorRef(self._rows.applications[name[0]], ExecutorId(name[1]))
        speaker = run.server.hub.find(ref)
        if speaker is not None and speaker.id == before.connection_id:
            self._breach("6", f"{name[1]} is DISCONNECTED, and its socket is open")

    def _check_death(self, name: Name, row: ExecutorRow) -> None:
        if self._rows.find_open(name) is None:
            self._breach("3", f"{name[1]} is DEAD, and no recovery was opened")
        if row.unseen_starts >= UNSEEN_STARTS:
            return
        now = self._world.clock.elapsed
        for process in self._world.list_alive(*name):
            patience = (
                BACK_WITHIN_BACKING_OFF if process.kind.backs_off else BACK_WITHIN
            )
            if not process.is_impaired and now - process.impaired_at > patience:
                self._breach("5", f"{name[1]} is DEAD, alive and willing")

    def _check_recovery(self, recovery_id: str, commit: Commit) -> None:
        row = self._rows.recoveries.get(recovery_id)
        if row is None:
            return
        name = (row.app, row.executor_id)
        before = commit.recoveries_before.get(recovery_id)
        if before is None or before.state != row.state:
            self._world.note(
                "store",
                f"recovery of {row.executor_id} is {row.state}",
                counts_as=row.state,
            )
        if row.attempts > (before.attempts if before else 0):
            self._check_audited(commit, name, "recovery.order")
        if row.state == "DONE":
            self._check_audited(commit, name, "recovery.verify")
        if row.is_closed or row.is_claimed or row.state == "WAITING":
            return
        if row.state in {"ORDERED", "MIGRATING"} or row.next_attempt_at is None:
            self._breach(
                "3", f"nothing ever wakes the {row.state} of {row.executor_id}"
            )

    def _note_flapping(self, commit: Commit) -> None:
        for operation, app, executor_id in commit.audited:
            if operation == "executor.flapping":
                self._flapping[app, executor_id] = self._world.run
            elif operation == "executor.dead":
                self._flapping.pop((app, executor_id), None)

    def _check_audited(self, commit: Commit, name: Name, *operations: str) -> None:
        is_flapping = self._flapping.get(name) is self._world.run
        if is_flapping and ROUTINE.issuperset(operations):
            return
        if not any((operation, *name) in commit.audited for operation in operations):
            self._breach(
                "audit", f"{operations[0]} of {name[1]} is not in the audit log"
            )
