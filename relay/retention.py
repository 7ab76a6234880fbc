"""
Keeping histories short: who is told to delete old workflows, and when.

Every interval (jittered by a tenth), each application with a threshold gets one
`retention` message, sent to one executor; they take turns. The cut-offs are the
database's clock minus the setting. What an executor does with it is its own affair:
Python from 3 and TypeScript from 5 answer before they begin and act on the whole system
database, older Pythons work on it for minutes before they answer.

Invariants:

- At most one message an application is unanswered; the next round passes it over.
- A threshold that is off is sent as null, never as zero: zero would keep nothing.
- A slow application holds up nobody else.

On failure: a failed message is told once in the audit log, and again only when the
reason changes; the next round tries again. Nobody connected is no failure: there is
nobody to add history either.

Two applications on one database are told once (a start), when retention of the one
would delete history of the other: each round, one executor is asked for workflows of
connected executors of one other application. Their ids are random, so finding one is
proof; finding none proves nothing.

What it does not do: it deletes nothing itself, learns nothing of deletions that fail in
an executor's background, and withholds no message because a database is shared.
"""

import random
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

import structlog

from relay.audit import AuditWriter, engine_entry
from relay.clock import Clock
from relay.dispatch import Dispatcher, Peer, Peers
from relay.errors import (
    ConnectionLostError,
    DispatchError,
    ExecutorBusyError,
    ExecutorFailedError,
    NoExecutorError,
    ReplyInvalidError,
    ReplyTimeoutError,
    ReplyTooLargeError,
    StoreUnavailableError,
)
from relay.ids import ApplicationId, ApplicationRef, ExecutorId, ExecutorRef
from relay.protocol.messages import ListWorkflowsRequest, RetentionRequest
from relay.records import ApplicationRecord, AuditEntry, AuditStatus
from relay.settings import RelaySettings
from relay.store import Store
from relay.tasks import TaskSet
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

_ANSWER_TIMEOUT: Final = timedelta(minutes=30)
"""Python 2.x answers when it has finished."""

_NEIGHBOUR_TIMEOUT: Final = timedelta(seconds=30)
_NEIGHBOUR_IDS: Final = 100


def make_request(
    application: ApplicationRecord, now: datetime
) -> RetentionRequest | None:
    """What to send for the thresholds of an application; `None` if all are off."""
    age, rows = application.gc_time_threshold, application.gc_rows_threshold
    overdue = application.global_timeout
    if not age and not rows and not overdue:
        return None
    return RetentionRequest(
        gc_cutoff=now - age if age else None,
        gc_rows_threshold=rows or None,
        timeout_cutoff=now - overdue if overdue else None,
    )


class Retention:
    """Tells executors to delete what their application no longer keeps."""

    def __init__(
        self,
        *,
        store: Store,
        audit: AuditWriter,
        dispatcher: Dispatcher,
        peers: Peers,
        settings: RelaySettings,
        clock: Clock,
        metrics: Metrics,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._audit = audit
        self._dispatcher = dispatcher
        self._peers = peers
        self._interval = settings.retention_interval
        self._clock = clock
        self._metrics = metrics
        self._jitter = jitter
        self._tasks = TaskSet("retention")
        self._rounds = count(1)
        self._unanswered: set[ApplicationId] = set()
        self._turns: dict[ApplicationId, dict[ExecutorId, int]] = {}
        self._failures: dict[ApplicationId, str] = {}
        self._neighbours: set[frozenset[ApplicationId]] = set()

    async def run(self) -> None:
        """Send rounds until cancelled; what is unanswered then is given up."""
        async with TaskSet("retention") as self._tasks:
            while True:
                await self._clock.sleep(self._interval * (0.9 + 0.2 * self._jitter()))
                try:
                    await self.dispatch_now()
                except StoreUnavailableError as error:
                    logger.warning("retention_skipped", reason=error.reason)

    async def dispatch_now(self) -> None:
        """
        Send one round; returns before the answers come.

        Raises:
            StoreUnavailableError: nothing was sent.
        """
        async with self._store.read() as work:
            applications = await work.applications.list_all()
            now = work.now
        turn = next(self._rounds)
        for application in applications:
            ref = application.ref
            request = make_request(application, now)
            if request is None or ref.id in self._unanswered:
                continue
            others = [a.ref for a in applications if a.ref.id != ref.id]
            self._begin(self._serve(ref, request, others, turn), ref)

    def _begin(
        self, work: Coroutine[None, None, None], application: ApplicationRef
    ) -> None:
        self._unanswered.add(application.id)
        task = self._tasks.spawn(work, name=application.name)
        task.add_done_callback(lambda _: self._unanswered.discard(application.id))

    async def _serve(
        self,
        application: ApplicationRef,
        request: RetentionRequest,
        others: Sequence[ApplicationRef],
        turn: int,
    ) -> None:
        try:
            peer = await self._send(application, request, turn)
            if peer is not None and peer.capabilities.retention_is_database_wide:
                await self._look_for_neighbour(peer, others, turn)
        except StoreUnavailableError as error:
            logger.warning("retention_not_audited", reason=error.reason)

    async def _send(
        self, application: ApplicationRef, request: RetentionRequest, turn: int
    ) -> Peer | None:
        """Who acknowledged the message, if anybody did."""
        turns = self._turns.get(application.id, {})
        turns = {
            peer.ref.executor_id: turns.get(peer.ref.executor_id, 0)
            for peer in self._peers.list_peers(application.id)
        }
        self._turns[application.id] = turns
        try:
            peer, reply = await self._dispatcher.ask_any(
                application,
                request,
                _ANSWER_TIMEOUT,
                prefer=lambda peer: turns.get(peer.ref.executor_id, 0),
            )
        except NoExecutorError:
            self._metrics.retentions.labels("nobody").inc()
            return None
        except (
            ConnectionLostError,
            ExecutorBusyError,
            ExecutorFailedError,
            ReplyInvalidError,
            ReplyTimeoutError,
            ReplyTooLargeError,
        ) as error:
            self._metrics.retentions.labels("failed").inc()
            turns[error.executor] = turn
            # Without the id: another executor that fails alike is no news.
            reason = str(error).removeprefix(f"executor {error.executor} ")
            await self._tell_failure(application, error.executor, reason)
            return None
        turns[peer.ref.executor_id] = turn
        if not reply.success:
            self._metrics.retentions.labels("failed").inc()
            reason = "did not succeed, and gave no reason"
            await self._tell_failure(application, peer.ref.executor_id, reason)
            return None
        self._metrics.retentions.labels("acknowledged").inc()
        self._failures.pop(application.id, None)
        return peer

    async def _look_for_neighbour(
        self, peer: Peer, others: Sequence[ApplicationRef], turn: int
    ) -> None:
        """Ask `peer` for workflows of one other application's executors."""
        if not others:
            return
        other = others[turn % len(others)]
        pair = frozenset({peer.ref.application.id, other.id})
        # Executors of older SDKs may have chosen ids, such as `local`.
        ids = tuple(
            neighbour.ref.executor_id
            for neighbour in self._peers.list_peers(other.id)
            if neighbour.capabilities.is_safe
        )[:_NEIGHBOUR_IDS]
        if not ids or pair in self._neighbours:
            return
        question = ListWorkflowsRequest(
            executor_ids=ids,
            app_versions=(),
            statuses=(),
            limit=1,
            application=other.name,
        )
        try:
            rows = await peer.ask(question, _NEIGHBOUR_TIMEOUT)
        except DispatchError as error:
            logger.debug("retention_neighbour_unknown", reason=str(error))
            return
        if not any(row.executor_id in ids for row in rows):
            return
        await self._record(
            engine_entry(
                "retention.shared_database",
                peer.ref.application,
                status=AuditStatus.FAILURE,
                shared_with=other.name,
                warning="retention of either application deletes history of both",
            )
        )
        self._neighbours.add(pair)

    async def _tell_failure(
        self, application: ApplicationRef, executor_id: ExecutorId, reason: str
    ) -> None:
        if self._failures.get(application.id) == reason:
            return
        await self._record(
            engine_entry(
                "retention.fail",
                ExecutorRef(application, executor_id),
                status=AuditStatus.FAILURE,
                reason=reason,
            )
        )
        self._failures[application.id] = reason

    async def _record(self, entry: AuditEntry) -> None:
        async with self._store.write() as work:
            await self._audit.record(work, entry)
