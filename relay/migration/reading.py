"""What executors tell about stranded work, before anything is done to it."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from relay.errors import (
    InvalidInputError,
    PermissionDeniedError,
    UnknownMessageError,
)
from relay.ids import AppVersion, ExecutorId
from relay.migration.planning import (
    PENDING,
    UNFINISHED,
    WAITING,
    WorkflowFacts,
    find_start_step,
    list_relatives,
    list_started,
)
from relay.migration.steps import Sight
from relay.operations.asking import Executors
from relay.operations.scope import is_foreign
from relay.operations.workflows import KIND
from relay.protocol.workflows import (
    GetWorkflowNotificationsRequest,
    GetWorkflowRequest,
    ListStepsRequest,
    SearchWorkflowsRequest,
    StepRow,
    WorkflowFilter,
    WorkflowRow,
)
from relay.records import ApplicationRecord, ItemState, MigrationItem, MigrationMethod

MIGRATION_LIMIT: Final = 1000
"""Pending workflows that are moved at once, and as many of their waiting children."""

_ASKED_ABOUT_AT_ONCE: Final = 50
_QUESTIONS_AT_ONCE: Final = 8


@dataclass
class Gathered:
    """
    Stranded work and its relatives, by workflow id.

    `has_more` tells that there are more than `MIGRATION_LIMIT` pending workflows.
    """

    members: dict[str, WorkflowFacts] = field(default_factory=dict)
    relatives: dict[str, WorkflowRow] = field(default_factory=dict)
    has_more: bool = False


class Reader:
    """
    Asks about workflows of one application.

    All of it raises as `Executors.read` does.
    """

    def __init__(self, executors: Executors, application: ApplicationRecord) -> None:
        self._executors = executors
        self._application = application
        self._room = asyncio.Semaphore(_QUESTIONS_AT_ONCE)

    async def gather(
        self,
        executor_id: ExecutorId,
        app_version: AppVersion,
        method: MigrationMethod,
    ) -> Gathered:
        """
        The pending work of an executor, and the families that it belongs to.

        Where ids are kept, children that wait in queues are a part of it.
        """
        found = Gathered()
        pending = await self._search(
            WorkflowFilter(
                status=(PENDING,),
                executor_id=(executor_id,),
                app_version=(app_version,),
            ),
            limit=MIGRATION_LIMIT + 1,
        )
        own = [row for row in pending if not self._is_foreign(row)]
        found.has_more = len(pending) > MIGRATION_LIMIT
        news: Sequence[WorkflowRow] = own[:MIGRATION_LIMIT]
        while news:
            rows = await self._add_members(found, news)
            children = [
                row
                for row in rows
                if method is MigrationMethod.REWIND
                and row.status in WAITING
                and row.app_version == app_version
                and not self._is_foreign(row)
            ]
            room = 2 * MIGRATION_LIMIT - len(found.members)
            news = children[:room]
            found.relatives |= {row.workflow_id: row for row in rows}
            for row in news:
                del found.relatives[row.workflow_id]
        return found

    async def look(self, item: MigrationItem) -> Sight:
        """What the next decision about an item rests on."""
        row = await self._get(item.workflow_id)
        if item.state is ItemState.PLANNED and row is not None:
            steps = await self._list_steps(item.workflow_id)
            unread = await self._count_unread(item.workflow_id)
            return Sight(row=row, steps=tuple(steps), unread=unread)
        copy = await self._get(item.new_workflow_id) if item.new_workflow_id else None
        if row is None or copy is not None or item.state is ItemState.REWINDING:
            return Sight(row=row, copy=copy)
        steps = await self._list_steps(item.workflow_id)
        return Sight(row=row, steps=tuple(steps))

    async def _add_members(
        self, found: Gathered, news: Sequence[WorkflowRow]
    ) -> Sequence[WorkflowRow]:
        """Make `news` members; returns the relatives that were not known before."""
        crowded: set[str] = set()
        relatives: dict[str, WorkflowRow] = {}
        for chunk in _chunks([row.workflow_id for row in news]):
            children = await self._list_children(chunk)
            if len(children) > MIGRATION_LIMIT:
                crowded.update(chunk)
            relatives |= {row.workflow_id: row for row in children}
        added = await self._describe_all(news, crowded)
        found.members |= {facts.row.workflow_id: facts for facts in added}
        named = {id_ for facts in added for id_ in list_relatives(facts)}
        known = found.members.keys() | found.relatives.keys() | relatives.keys()
        for chunk in _chunks(sorted(named - known)):
            # Of whatever application: to leave out what is another's is to miss it.
            rows = await self._search(WorkflowFilter(workflow_ids=chunk), scoped=False)
            relatives |= {row.workflow_id: row for row in rows}
        known = found.members.keys() | found.relatives.keys()
        return [row for id_, row in relatives.items() if id_ not in known]

    async def _list_children(self, parents: tuple[str, ...]) -> Sequence[WorkflowRow]:
        """Unfinished ones, as far as the SDK can tell; their steps tell the others."""
        try:
            return await self._search(
                WorkflowFilter(parent_workflow_id=parents, status=UNFINISHED),
                limit=MIGRATION_LIMIT + 1,
            )
        except InvalidInputError:
            return ()

    async def _describe_all(
        self, rows: Sequence[WorkflowRow], crowded: Collection[str]
    ) -> Sequence[WorkflowFacts]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._describe(row, is_crowded=row.workflow_id in crowded)
                    )
                    for row in rows
                ]
        except ExceptionGroup as failed:
            # Thousands of questions that nobody needs any more were not asked.
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _describe(self, row: WorkflowRow, *, is_crowded: bool) -> WorkflowFacts:
        async with self._room:
            steps = await self._list_steps(row.workflow_id)
            unread = await self._count_unread(row.workflow_id)
        return WorkflowFacts(
            row=row,
            start_step=find_start_step(steps),
            started=list_started(steps),
            unread=unread,
            is_crowded=is_crowded,
        )

    async def _list_steps(self, workflow_id: str) -> Sequence[StepRow]:
        return await self._executors.read(
            self._application,
            ListStepsRequest(workflow_id=workflow_id, load_output=False),
            about=(KIND, workflow_id),
        )

    async def _count_unread(self, workflow_id: str) -> int | None:
        """`None` where nobody may be asked for messages, or nobody knows of them."""
        if self._application.private_mode:
            return None
        try:
            messages = await self._executors.read(
                self._application,
                GetWorkflowNotificationsRequest(workflow_id=workflow_id),
                about=(KIND, workflow_id),
            )
        except (UnknownMessageError, PermissionDeniedError):
            return None
        return sum(not message.consumed for message in messages)

    async def _get(self, workflow_id: str) -> WorkflowRow | None:
        return await self._executors.read(
            self._application,
            GetWorkflowRequest(
                workflow_id=workflow_id, load_input=False, load_output=False
            ),
            about=(KIND, workflow_id),
        )

    async def _search(
        self, matching: WorkflowFilter, *, limit: int | None = None, scoped: bool = True
    ) -> Sequence[WorkflowRow]:
        return await self._executors.read(
            self._application,
            SearchWorkflowsRequest(
                filter=matching,
                application=self._application.ref.name if scoped else None,
                limit=limit,
            ),
        )

    def _is_foreign(self, row: WorkflowRow) -> bool:
        return is_foreign(row.application_name, self._application)


def _chunks(ids: Collection[str]) -> Iterable[tuple[str, ...]]:
    waiting = iter(ids)
    while chunk := tuple(islice(waiting, _ASKED_ABOUT_AT_ONCE)):
        yield chunk
