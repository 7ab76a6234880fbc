"""Why workflows do not move, and which versions may be retired: the use-cases."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from relay.clock import Clock
from relay.diagnosis.drain import VersionStanding, VersionWork, judge_versions
from relay.diagnosis.drain_facts import find_versions, gather_drain
from relay.diagnosis.facts import Facts, LiveExecutors
from relay.diagnosis.findings import MOVING, Finding, Gap
from relay.diagnosis.owner_facts import find_owner, gather_owners
from relay.diagnosis.policy import ENQUEUED, PENDING, UNFINISHED, diagnose
from relay.diagnosis.ports import LivePeers
from relay.diagnosis.questions import Questions
from relay.diagnosis.queue_facts import QueueFacts
from relay.errors import NotFoundError
from relay.ids import ApplicationRef, AppVersion, ExecutorId
from relay.operations.asking import Executors
from relay.operations.privacy import without_payloads
from relay.operations.scope import check_owner, is_foreign
from relay.operations.workflows import KIND
from relay.protocol.workflows import (
    GetWorkflowRequest,
    SearchWorkflowsRequest,
    WorkflowFilter,
    WorkflowRow,
)
from relay.records import ApplicationRecord, Owner
from relay.registry.applications import get_application
from relay.settings import RelaySettings
from relay.store import Store


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A workflow, without its payloads, and what is found about it."""

    workflow: WorkflowRow
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPage:
    """
    A part of the unfinished workflows of an application, oldest first.

    `scanned` were looked at, of which `moving` run and are left out of `items`.
    `next_offset` is where the next page begins; `None` at the end.
    """

    items: Sequence[Diagnosed]
    scanned: int
    moving: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDrain:
    """
    The versions of an application.

    `unversioned` is the work that has no version and goes to the latest one; both are
    `None` where they are not known.
    """

    latest: AppVersion | None
    unversioned: VersionWork | None
    versions: Sequence[VersionStanding]


class Diagnosis:
    """
    What can be told of workflows that do not move.

    All of it raises `NotFoundError` for an application that does not exist.
    """

    def __init__(
        self,
        *,
        store: Store,
        executors: Executors,
        peers: LivePeers,
        settings: RelaySettings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._executors = executors
        self._peers = peers
        self._settings = settings
        self._clock = clock

    async def explain(self, application: str, workflow_id: str) -> Diagnosed:
        """
        Why one workflow does not move.

        Raises:
            NotFoundError: there is none of that id, or it is another application's.
            DispatchError: no executor says what the workflow is.
        """
        record = await self._find(application)
        questions = self._questions(record)
        request = GetWorkflowRequest(
            workflow_id=workflow_id, load_input=False, load_output=False
        )
        row = await questions.ask(request, about=(KIND, workflow_id))
        if row is None:
            raise NotFoundError(KIND, workflow_id)
        check_owner(row.application_name, record, KIND, workflow_id)
        [diagnosed] = await self._diagnose(record, questions, [row])
        return diagnosed

    async def list_attention(
        self, application: str, *, limit: int, offset: int
    ) -> AttentionPage:
        """
        A page of the workflows that do not move.

        What the others of the page wait for is asked once, and not for each of them: at
        most nine questions.

        Args:
            limit: how many unfinished workflows are looked at.

        Raises:
            DispatchError: no executor lists them.
        """
        record = await self._find(application)
        questions = self._questions(record)
        found = await questions.ask(
            SearchWorkflowsRequest(
                filter=WorkflowFilter(status=UNFINISHED),
                application=record.ref.name,
                # One more tells whether this page is the last one.
                limit=limit + 1,
                offset=offset or None,
            )
        )
        rows = found[:limit]
        own = [row for row in rows if not is_foreign(row.application_name, record)]
        diagnosed = await self._diagnose(record, questions, own)
        items = [each for each in diagnosed if each.finding.code not in MOVING]
        return AttentionPage(
            items=items,
            scanned=len(rows),
            moving=len(diagnosed) - len(items),
            next_offset=offset + limit if len(found) > limit else None,
        )

    async def drain(self, application: str) -> VersionDrain:
        """Where each version stands; also when no executor can be asked."""
        record = await self._find(application)
        facts = await gather_drain(
            self._store, self._peers, record.ref, self._questions(record)
        )
        latest = None
        if not isinstance(facts.names, Gap) and facts.names:
            latest = facts.names[0]
        unversioned = None
        if not isinstance(facts.work, Gap):
            unversioned = facts.work.get(None, VersionWork())
        return VersionDrain(
            latest=latest, unversioned=unversioned, versions=judge_versions(facts)
        )

    async def _find(self, application: str) -> ApplicationRecord:
        async with self._store.read() as work:
            return await get_application(work, application)

    def _questions(self, application: ApplicationRecord) -> Questions:
        span = self._settings.request_timeout
        return Questions(self._executors, application, self._clock, span)

    async def _diagnose(
        self,
        application: ApplicationRecord,
        questions: Questions,
        rows: Sequence[WorkflowRow],
    ) -> Sequence[Diagnosed]:
        now = self._clock.now()
        queues = await QueueFacts(questions, application.ref.name).gather(rows, now)
        latest = await _find_latest(questions, rows)
        owners = await gather_owners(
            self._store,
            self._peers,
            application.ref,
            {owner for row in rows if (owner := _owner_of(row))},
        )
        live = list_live(self._peers, application.ref)
        diagnosed: list[Diagnosed] = []
        for row in rows:
            owner = _owner_of(row)
            facts = Facts(
                now=now,
                live=live,
                owner=owners.get(owner) if owner else None,
                queue=queues.get(row.workflow_id),
                latest=latest,
            )
            diagnosed.append(Diagnosed(without_payloads(row), diagnose(row, facts)))
        return diagnosed


def list_live(peers: LivePeers, application: ApplicationRef) -> LiveExecutors:
    """The connected executors by version, each list in the order of their ids."""
    live: dict[AppVersion, list[ExecutorId]] = defaultdict(list)
    for peer in peers.list_peers(application.id):
        live[peer.info.application_version].append(peer.ref.executor_id)
    return {version: sorted(names) for version, names in live.items()}


def _owner_of(row: WorkflowRow) -> Owner | None:
    return find_owner(row) if row.status == PENDING else None


async def _find_latest(
    questions: Questions, rows: Sequence[WorkflowRow]
) -> AppVersion | Gap | None:
    """The latest version; asked only if a workflow waits for it."""
    if all(row.status != ENQUEUED or row.app_version for row in rows):
        return None
    names = await find_versions(questions)
    if isinstance(names, Gap):
        return names
    return names[0] if names else None
