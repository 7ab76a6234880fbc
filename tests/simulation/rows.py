"""The rows as they stand after each commit, and what the commit changed."""

import json
import sqlite3
from dataclasses import dataclass, field

from relay.ids import ApplicationId, ApplicationRef, AppName, OrgName


@dataclass(frozen=True, slots=True)
class ExecutorRow:
    """As much of an executor's row as the laws are about."""

    app_version: str
    status: str
    epoch: int
    connection_id: str
    unseen_starts: int
    dead_after: int | None


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """As much of a row of the ledger as the laws are about."""

    id: str
    app: str
    executor_id: str
    state: str
    attempts: int
    next_attempt_at: int | None
    is_claimed: bool
    is_closed: bool


@dataclass(slots=True)
class Commit:
    """
    What one commit changed.

    `executors` maps an application's name and an executor id to the row before and
    after, `audited` holds operation, application and executor id of the new entries.
    """

    executors: dict[tuple[str, str], tuple[ExecutorRow | None, ExecutorRow | None]] = (
        field(default_factory=dict)
    )
    recoveries: list[RecoveryRow] = field(default_factory=list)
    recoveries_before: dict[str, RecoveryRow] = field(default_factory=dict)
    audited: set[tuple[str, str, str]] = field(default_factory=set)


class Rows:
    """
    A copy of what is committed, by application name and executor id.

    `recoveries` holds the open rows, and those that the last commit closed.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.executors: dict[tuple[str, str], ExecutorRow] = {}
        self.recoveries: dict[str, RecoveryRow] = {}
        self.applications: dict[str, ApplicationRef] = {}
        self._names: dict[str, str] = {}
        self._connection = connection
        self._last_entry = 0

    def read(self) -> Commit:
        """Look again; what has changed since the last look."""
        self._read_applications()
        commit = Commit()
        self._read_executors(commit)
        self._read_recoveries(commit)
        self._read_entries(commit)
        return commit

    def find_open(self, name: tuple[str, str]) -> RecoveryRow | None:
        """The open recovery of that executor."""
        for row in self.recoveries.values():
            if (row.app, row.executor_id) == name and not row.is_closed:
                return row
        return None

    def list_open(self) -> list[RecoveryRow]:
        """All open recoveries."""
        return [row for row in self.recoveries.values() if not row.is_closed]

    def _read_applications(self) -> None:
        for id_, name, organization in self._connection.execute(
            "SELECT a.id, a.name, o.name FROM application a"
            " JOIN organization o ON o.id = a.organization_id"
        ):
            self._names[id_] = name
            self.applications[name] = ApplicationRef(
                ApplicationId(id_), OrgName(organization), AppName(name)
            )

    def _read_executors(self, commit: Commit) -> None:
        now = {
            (self._names[application_id], executor_id): ExecutorRow(*rest)
            for application_id, executor_id, *rest in self._connection.execute(
                "SELECT application_id, executor_id, app_version, status, epoch,"
                " connection_id, unseen_starts, dead_after FROM executor"
            )
        }
        for name in self.executors | now:
            before, after = self.executors.get(name), now.get(name)
            if before != after:
                commit.executors[name] = (before, after)
        self.executors = now

    def _read_recoveries(self, commit: Commit) -> None:
        was_open = [row.id for row in self.list_open()]
        now = {}
        for id_, application_id, executor_id, *rest in self._connection.execute(
            "SELECT id, application_id, executor_id, state, attempts, next_attempt_at,"
            " claimed_by IS NOT NULL, closed_at IS NOT NULL FROM recovery"
            " WHERE closed_at IS NULL OR id IN (SELECT value FROM json_each(?))",
            [json.dumps(was_open)],
        ):
            now[id_] = RecoveryRow(id_, self._names[application_id], executor_id, *rest)
        commit.recoveries_before = self.recoveries
        commit.recoveries = [
            row for row in now.values() if self.recoveries.get(row.id) != row
        ]
        self.recoveries = now

    def _read_entries(self, commit: Commit) -> None:
        for number, operation, details in self._connection.execute(
            "SELECT rowid, operation, details FROM audit_entry WHERE rowid > ?",
            [self._last_entry],
        ):
            self._last_entry = number
            facts = json.loads(details)
            commit.audited.add(
                (
                    operation,
                    facts.get("application_name", ""),
                    facts.get("executor_id", ""),
                )
            )
