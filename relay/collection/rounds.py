"""The shell of the collection: whom to ask, and writing down what came of it."""

from collections.abc import Collection, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from relay.clock import Clock
from relay.collection.planning import (
    MOST_NAMES,
    Window,
    find_end,
    is_set_back,
    next_pause,
    plan_window,
    tally,
)
from relay.dispatch import Dispatcher, Peers
from relay.dispatch.misfits import find_misfit
from relay.errors import (
    DispatchError,
    ExecutorFailedError,
    NoExecutorError,
    StoreUnavailableError,
    UnknownMessageError,
)
from relay.ids import ApplicationId, ApplicationRef
from relay.protocol.statistics import GetMetricsRequest, MetricRow
from relay.records import ApplicationRecord
from relay.settings import RelaySettings
from relay.store import Store, UnitOfWork
from relay.tasks import TaskSet
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

_ANSWER_TIMEOUT: Final = timedelta(seconds=90)
_TRY_TIMEOUT: Final = timedelta(seconds=45)
"""Longer than the 30 s after which SDKs give up a slow query by themselves."""

_WITHHELD: Final = "withheld, because the application is in private mode"


class MetricCollection:
    """Asks one executor of each application what it did, window by window."""

    def __init__(
        self,
        *,
        store: Store,
        dispatcher: Dispatcher,
        peers: Peers,
        settings: RelaySettings,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._peers = peers
        self._period = settings.metrics_collection_period
        self._clock = clock
        self._metrics = metrics
        self._tasks = TaskSet("collection")
        self._unanswered: set[ApplicationId] = set()
        self._complaints: dict[ApplicationId, type[DispatchError]] = {}

    async def run(self) -> None:
        """Begin a round whenever a window can be asked for, until cancelled."""
        async with TaskSet("collection") as self._tasks:
            while True:
                await self._clock.sleep(next_pause(self._clock.now(), self._period))
                try:
                    await self.collect_now()
                except StoreUnavailableError as error:
                    logger.warning("collection_skipped", reason=error.reason)

    async def collect_now(self) -> None:
        """
        Begin one round; returns before the answers come.

        Raises:
            StoreUnavailableError: nobody was asked.
        """
        async with self._store.read() as work:
            known = await work.applications.list_all()
            asked = [
                record
                for record in known
                if record.ref.id not in self._unanswered
                and self._peers.list_peers(record.ref.id)
            ]
            ids = [record.ref.id for record in asked]
            ends = await work.metrics.find_ends(ids)
            now = work.now
            kept = {
                id_: await _find_kept(work, id_, find_end(now, self._period))
                for id_ in ids
                if is_set_back(now, self._period, ends.get(id_))
            }
        self._forget_all_but({record.ref.id for record in known})
        for record in asked:
            id_ = record.ref.id
            last_end = ends.get(id_)
            window = plan_window(
                now=now,
                period=self._period,
                last_end=last_end,
                registered_at=record.created_at,
                kept=kept.get(id_),
            )
            if window is not None:
                self._begin(self._collect(record, window, last_end), record.ref)

    def _forget_all_but(self, ids: Collection[ApplicationId]) -> None:
        for id_ in self._complaints.keys() - ids:
            del self._complaints[id_]

    def _begin(
        self, work: Coroutine[None, None, None], application: ApplicationRef
    ) -> None:
        self._unanswered.add(application.id)
        task = self._tasks.spawn(work, name=application.name)
        task.add_done_callback(lambda _: self._unanswered.discard(application.id))

    async def _collect(
        self,
        application: ApplicationRecord,
        window: Window,
        last_end: datetime | None,
    ) -> None:
        try:
            rows = await self._ask(application, window)
            if rows is not None:
                await self._keep(application.ref, window, rows, last_end)
        except StoreUnavailableError as error:
            logger.warning("collection_lost", reason=error.reason)

    async def _ask(
        self, application: ApplicationRecord, window: Window
    ) -> Sequence[MetricRow] | None:
        """
        What one executor counted: nothing if none of them can, `None` if none did.
        """
        request = GetMetricsRequest(
            application=application.ref.name, start=window.start, end=window.end
        )
        try:
            _, rows = await self._dispatcher.ask_any(
                application.ref,
                request,
                _ANSWER_TIMEOUT,
                attempt_timeout=_TRY_TIMEOUT,
                suits=lambda peer: find_misfit(peer, request),
            )
        except NoExecutorError:
            return None
        except UnknownMessageError as error:
            self._metrics.collections.labels("unknown").inc()
            self._complain(application, error)
            return ()
        except DispatchError as error:
            self._metrics.collections.labels("failed").inc()
            self._complain(application, error)
            return None
        self._metrics.collections.labels("taken").inc()
        self._complaints.pop(application.ref.id, None)
        return rows

    async def _keep(
        self,
        application: ApplicationRef,
        window: Window,
        rows: Sequence[MetricRow],
        last_end: datetime | None,
    ) -> None:
        async with self._store.write() as work:
            if not await work.applications.lock_settings({application.id}):
                return
            recoveries = await work.metrics.count_recoveries(
                application.id, window.start, window.end, limit=MOST_NAMES
            )
            records = tally(application.id, window, rows, recoveries)
            is_next = await work.metrics.close_window(
                application.id,
                window.start,
                window.end,
                records,
                expected_end=last_end,
            )
        if not is_next:
            # Another server, or our own commit of which we have not heard.
            logger.info("collection_overtaken", application=application.name)
        elif len(rows) + len(recoveries) > len(records):
            logger.debug(
                "collection_cut",
                application=application.name,
                counted=len(rows) + len(recoveries),
                kept=len(records),
            )

    def _complain(self, application: ApplicationRecord, error: DispatchError) -> None:
        """Tell it once, until something else is the matter, or nothing."""
        if self._complaints.get(application.ref.id) is type(error):
            return
        self._complaints[application.ref.id] = type(error)
        told = _withhold(error) if application.private_mode else error
        logger.info(
            "metrics_not_collected", application=application.ref.name, reason=str(told)
        )


def _withhold(error: DispatchError) -> DispatchError:
    """The same without what an executor said, which may hold a payload."""
    if isinstance(error, ExecutorFailedError) and not isinstance(
        error, UnknownMessageError
    ):
        return ExecutorFailedError(error.executor, _WITHHELD)
    return error


async def _find_kept(
    work: UnitOfWork, id_: ApplicationId, before: datetime
) -> Window | None:
    """The last window with counts that begins before an instant."""
    record = await work.metrics.find_last_before(id_, before)
    if record is None:
        return None
    return Window(record.time_bucket, record.time_bucket + record.granularity)
