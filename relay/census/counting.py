"""The shell of the census: whom to ask, when, and writing down what came of it."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, assert_never

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.census.policy import Holding, Leave, Reopen, Show, is_at_work, judge
from relay.census.reopening import reopen
from relay.clock import Clock
from relay.dispatch import Dispatcher, Peers
from relay.errors import (
    DispatchError,
    NoExecutorError,
    StoreUnavailableError,
    UnknownMessageError,
)
from relay.ids import ApplicationId, ApplicationRef, ExecutorId, ExecutorRef
from relay.protocol.aggregates import GetWorkflowAggregatesRequest, PendingCount
from relay.protocol.messages import (
    ListWorkflowsRequest,
    WorkflowStatus,
    is_identity,
)
from relay.records import AuditStatus, CensusRecord, Owner, OwnerKind
from relay.recovery.ports import Agreement
from relay.settings import RelaySettings
from relay.store import Store, UnitOfWork
from relay.tasks import TaskSet
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

TOMBSTONE_AGE: Final = timedelta(days=30)
"""How long a deleted executor is remembered."""

SHOWN_OWNERS: Final = 1000
"""Kept of an application, those with the most work; a stranger may invent millions."""

MOST_COUNTED: Final = 10**9
"""Workflows of one owner; sums of what a stranger may claim still fit a column."""

LISTED: Final = 100
"""Workflows that are looked at where the SDK cannot count: the oldest."""

_ANSWER_TIMEOUT: Final = timedelta(seconds=90)
_TRY_TIMEOUT: Final = timedelta(seconds=45)
"""Longer than the 30 s after which SDKs give up a slow query by themselves."""

_WRITTEN_AT_ONCE: Final = 100
_PURGED_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class _Count:
    """An answer: who gave it, and whether there may be more than it says."""

    answered_by: ExecutorId
    counts: Sequence[PendingCount]
    is_complete: bool


class Census:
    """Asks for the pending work of each application and looks whose it is."""

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        dispatcher: Dispatcher,
        peers: Peers,
        agreement: Agreement,
        settings: RelaySettings,
        clock: Clock,
        metrics: Metrics,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._audit = audit
        self._dispatcher = dispatcher
        self._peers = peers
        self._agreement = agreement
        self._interval = settings.census_interval
        self._clock = clock
        self._metrics = metrics
        self._jitter = jitter
        self._ownerless: set[ApplicationId] = set()

    async def run(self) -> None:
        """
        Take a census every interval (jittered by a tenth), until cancelled.

        Not at once: after a start, executors are still redialling.
        """
        while True:
            await self._clock.sleep(self._interval * (0.9 + 0.2 * self._jitter()))
            try:
                await self.take_now()
            except StoreUnavailableError as error:
                logger.warning("census_skipped", reason=error.reason)

    async def take_now(self) -> None:
        """
        Take one census of each application with executors, side by side.

        Raises:
            StoreUnavailableError: no census was taken.
        """
        await self._purge()
        async with self._store.read() as work:
            applications = [a.ref for a in await work.applications.list_all()]
            asked_at = work.now
        self._ownerless &= {application.id for application in applications}
        async with TaskSet("census") as tasks:
            running = [
                tasks.spawn(self._take(application, asked_at), name=application.name)
                for application in applications
                if self._peers.list_peers(application.id)
            ]
            if running:
                await asyncio.wait(running)
        async with self._store.read() as work:
            workflows = await work.unknown_owners.count_workflows()
        for kind, number in workflows.items():
            self._metrics.unattended_workflows.labels(kind.value).set(number)

    async def _take(self, application: ApplicationRef, asked_at: datetime) -> None:
        try:
            await self._enter(application, await self._ask(application), asked_at)
        except NoExecutorError:
            return
        except DispatchError as error:
            self._metrics.censuses.labels("failed").inc()
            logger.info(
                "census_unanswered", application=application.name, reason=str(error)
            )
        except StoreUnavailableError as error:
            logger.warning("census_lost", reason=error.reason)
        else:
            self._metrics.censuses.labels("taken").inc()

    async def _ask(self, application: ApplicationRef) -> _Count:
        """
        Who owns how much pending work, as one executor sees it.

        Raises:
            DispatchError: nobody gave a usable answer.
        """
        try:
            peer, counts = await self._dispatcher.ask_any(
                application,
                GetWorkflowAggregatesRequest(application.name),
                _ANSWER_TIMEOUT,
                attempt_timeout=_TRY_TIMEOUT,
                prefer=lambda peer: not self._agreement.is_compared(peer.ref),
            )
        except UnknownMessageError:
            return await self._list(application)
        return _Count(peer.ref.executor_id, counts, is_complete=True)

    async def _list(self, application: ApplicationRef) -> _Count:
        """
        What SDKs that cannot count know: the oldest pending workflows.

        What nobody takes care of is old, so that it is seen, sooner or later.
        """
        peer, rows = await self._dispatcher.ask_any(
            application,
            ListWorkflowsRequest(
                executor_ids=(),
                app_versions=(),
                statuses=(WorkflowStatus.PENDING,),
                limit=LISTED,
                application=application.name,
            ),
            _ANSWER_TIMEOUT,
            attempt_timeout=_TRY_TIMEOUT,
            prefer=lambda peer: not self._agreement.is_compared(peer.ref),
        )
        counts = [
            PendingCount(row.executor_id, row.app_version, 1)
            for row in rows
            if row.status == WorkflowStatus.PENDING
        ]
        return _Count(peer.ref.executor_id, counts, is_complete=len(rows) < LISTED)

    async def _enter(
        self, application: ApplicationRef, count: _Count, asked_at: datetime
    ) -> None:
        """Judge what was counted, and write down what comes of it."""
        holdings = self._sort(application, count)
        online = {
            peer.ref.executor_id: peer.info.application_version
            for peer in self._peers.list_peers(application.id)
        }
        idle = [holding for holding in holdings if not is_at_work(holding, online)]
        async with self._store.read() as work:
            facts = await work.owner_facts.find_many(
                application.id, [holding.owner for holding in idle]
            )
            now = work.now
        reopened: list[tuple[Holding, Reopen]] = []
        shown: list[tuple[Holding, Show]] = []
        for holding in idle:
            verdict = judge(
                holding.owner,
                facts[holding.owner],
                is_online=self._peers.is_online(
                    ExecutorRef(application, holding.owner.executor_id)
                ),
                asked_at=asked_at,
                now=now,
            )
            match verdict:
                case Leave():
                    continue
                case Reopen():
                    reopened.append((holding, verdict))
                case Show():
                    shown.append((holding, verdict))
                case _:
                    assert_never(verdict)
        async with self._store.write() as work:
            if not await work.applications.lock_settings({application.id}):
                return
            await self._show(work, application, count, shown)
            await work.censuses.save(
                CensusRecord(
                    application_id=application.id,
                    taken_at=work.now,
                    answered_by=count.answered_by,
                    pending_count=sum(holding.count for holding in holdings),
                    is_complete=count.is_complete,
                )
            )
        for start in range(0, len(reopened), _WRITTEN_AT_ONCE):
            async with self._store.write() as work:
                await reopen(
                    work,
                    self._audit,
                    application,
                    reopened[start : start + _WRITTEN_AT_ONCE],
                    peers=self._peers,
                )

    def _sort(self, application: ApplicationRef, count: _Count) -> Sequence[Holding]:
        """What each owner holds, without what nobody owns."""
        held: dict[Owner, int] = {}
        ownerless = 0
        for each in count.counts:
            if each.executor_id is None or each.app_version is None:
                ownerless += each.count
            elif is_identity(each.executor_id) and is_identity(each.app_version):
                owner = Owner(each.executor_id, each.app_version)
                held[owner] = min(held.get(owner, 0) + each.count, MOST_COUNTED)
        if ownerless and application.id not in self._ownerless:
            # Nobody can be asked to recover them; SDKs do not leave such rows behind.
            self._ownerless.add(application.id)
            logger.warning(
                "pending_workflows_without_owner",
                application=application.name,
                workflows=ownerless,
            )
        return [Holding(owner, number) for owner, number in held.items()]

    async def _show(
        self,
        work: UnitOfWork,
        application: ApplicationRef,
        count: _Count,
        shown: Sequence[tuple[Holding, Show]],
    ) -> None:
        most = sorted(
            shown, key=lambda item: (-item[0].count, item[0].owner.executor_id)
        )
        owners: Mapping[Owner, tuple[OwnerKind, int]] = {
            holding.owner: (verdict.kind, holding.count)
            for holding, verdict in most[:SHOWN_OWNERS]
        }
        news = await work.unknown_owners.note(application.id, owners)
        if count.is_complete and not self._agreement.is_disputed(application.id):
            # Otherwise those that are missing may be there all the same: further down,
            # or in the other database.
            await work.unknown_owners.forget_unseen(application.id)
        await work.unknown_owners.forget_beyond(application.id, keep=SHOWN_OWNERS)
        await self._audit.record(
            work,
            *(
                engine_entry(
                    "census.unknown_owner",
                    ExecutorRef(application, owner.executor_id),
                    status=AuditStatus.FAILURE,
                    app_version=owner.app_version,
                    kind=kind,
                    pending_count=number,
                    answered_by=count.answered_by,
                )
                for owner, (kind, number) in owners.items()
                # Of what an operator gave up on, the operator has been told.
                if owner in news and kind is not OwnerKind.ABANDONED
            ),
        )

    async def _purge(self) -> None:
        purged = _PURGED_AT_ONCE
        while purged == _PURGED_AT_ONCE:
            async with self._store.write() as work:
                purged = await work.tombstones.purge(
                    work.now - TOMBSTONE_AGE, _PURGED_AT_ONCE
                )
