"""The shell of liveness: one inbox, one writer, three clocks."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from relay.audit import AuditWriter
from relay.clock import Clock
from relay.errors import StoreUnavailableError
from relay.hub.events import Arrival, Departure
from relay.ids import ExecutorRef, InstanceId
from relay.liveness.states import ExecutorStatus
from relay.monitor.flush import Flusher
from relay.monitor.inbox import Inbox
from relay.monitor.news import News, Orphaned
from relay.monitor.ports import Newcomers, Sockets
from relay.monitor.recorder import Recorder
from relay.monitor.sweep import Sweeper
from relay.monitor.timekeeper import Timekeeper
from relay.settings import RelaySettings
from relay.store import Store
from relay.store.executors import ExecutorKey
from relay.tasks import TaskSet
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

BATCH = 200
"""
Pieces of news written in one transaction.

Ten thousand take as long in batches of 500, but each of those keeps the event loop busy
for 40 ms at a stretch, with the lines that it logs.
"""

GAUGE_INTERVAL = timedelta(seconds=10)
FINISH_WITHIN = timedelta(seconds=10)

FIRST_PAUSE = timedelta(seconds=0.5)
LONGEST_PAUSE = timedelta(seconds=5)


class Monitor:
    """
    Keeps the rows of executors true, and finds the dead.

    `start` once before the first executor may connect, `run` until cancelled, `finish`
    once after the hub has been drained. The hub tells news through `connected` and
    `lost`, which only note it.
    """

    def __init__(
        self,
        *,
        store: Store,
        hub: Sockets,
        newcomers: Newcomers,
        audit: AuditWriter,
        settings: RelaySettings,
        clock: Clock,
        metrics: Metrics,
        instance_id: InstanceId,
        wake_recovery: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        timekeeper = Timekeeper(
            store=store, audit=audit, clock=clock, fault_grace=settings.fault_grace
        )
        self._recorder = Recorder(
            store=store,
            timekeeper=timekeeper,
            sockets=hub,
            newcomers=newcomers,
            audit=audit,
            settings=settings,
            clock=clock,
            metrics=metrics,
            instance_id=instance_id,
            wake_recovery=wake_recovery,
        )
        self._sweeper = Sweeper(
            store=store,
            timekeeper=timekeeper,
            sockets=hub,
            settings=settings,
            clock=clock,
        )
        self._flusher = Flusher(
            store=store, sockets=hub, clock=clock, instance_id=instance_id
        )
        self._inbox = Inbox(untouched=BATCH)
        self._woken = asyncio.Event()
        self._pause = FIRST_PAUSE
        self._absence: StoreUnavailableError | None = None

    def connected(self, arrival: Arrival) -> None:
        """Note that an executor is on line."""
        self._note(arrival)

    def lost(self, departure: Departure) -> None:
        """Note that a connection ended."""
        self._note(departure)

    def is_flapping(self, ref: ExecutorRef) -> bool:
        """Whether that executor comes and goes all the time."""
        return self._recorder.is_flapping(ref)

    def check_writing(self) -> None:
        """
        Return if what happens is written down, as far as that was tried.

        Raises:
            StoreUnavailableError: the last attempt failed; it is being repeated. The
                store may answer questions all the same, such as a file that another
                process keeps locked.
        """
        if self._absence is not None:
            raise StoreUnavailableError(self._absence.reason)

    def recheck_deadlines(self) -> None:
        """Look at the deadlines now: somebody has moved them."""
        self._woken.set()

    async def start(self) -> None:
        """
        Give everybody who was not dead a fresh grace: their sockets died with us.

        Returns when that is written; waits for the store as long as it takes. Who is
        dead stays dead.
        """
        # First those that are off line already: the others join them on the way, and
        # would count the same start twice.
        for status in (ExecutorStatus.DISCONNECTED, ExecutorStatus.HEALTHY):
            after: ExecutorKey | None = None
            is_last = False
            while not is_last:
                try:
                    page = await self._list_orphaned(status, after)
                    await self._record(page)
                except StoreUnavailableError as error:
                    await self._wait_for_store(error)
                    continue
                self._pause = FIRST_PAUSE
                is_last = len(page) < BATCH
                after = page[-1].ref.key if page else None
        self._sweeper.trust()

    async def run(self) -> None:
        """Work until cancelled; no failure ends it."""
        async with TaskSet("monitor") as tasks:
            tasks.spawn(
                self._repeat(self._flush, self._settings.flush_interval), name="flush"
            )
            tasks.spawn(self._repeat(self._measure, GAUGE_INTERVAL), name="gauge")
            while True:
                try:
                    wait = await self.turn()
                except StoreUnavailableError as error:
                    # Who distrusts writes first of all, so that the next turn to
                    # succeed is the proof.
                    self._absence = error
                    self._sweeper.distrust()
                    await self._wait_for_store(error)
                    continue
                except Exception:
                    logger.exception("monitor_failed")
                    await self._clock.sleep(FIRST_PAUSE)
                    continue
                self._absence = None
                self._pause = FIRST_PAUSE
                if not self._inbox:
                    await self._clock.wait(self._woken, wait)
                    self._woken.clear()

    async def turn(self) -> timedelta:
        """
        Write one batch of the inbox and look at the deadlines once.

        Returns:
            How long the next turn can wait, unless there is news before.

        Raises:
            StoreUnavailableError: nothing is lost; take the turn again.
        """
        await self._empty_inbox_once()
        await self._recorder.settle()
        sweep = await self._sweeper.sweep()
        await self._record(sweep.news)
        return sweep.wait

    async def finish(self) -> None:
        """Write what is noted and the last-seen times, if that can be done in time."""
        try:
            async with self._clock.timeout(FINISH_WITHIN):
                while self._inbox:
                    try:
                        await self._empty_inbox_once()
                    except StoreUnavailableError as error:
                        await self._wait_for_store(error)
                await self._flusher.flush()
        except TimeoutError:
            logger.error("monitor_stopped_early", unwritten=len(self._inbox))
        except StoreUnavailableError as error:
            logger.error("last_seen_not_written", reason=error.reason)

    def _note(self, news: News) -> None:
        self._inbox.put(news)
        self._woken.set()

    async def _empty_inbox_once(self) -> None:
        batch = self._inbox.list_oldest(BATCH)
        await self._record(batch)
        # Only now: a batch that was not written stays the first.
        self._inbox.drop_oldest(len(batch))

    async def _record(self, batch: list[News]) -> None:
        """
        Write a batch; what cannot be written although the store answers is dropped.

        Raises:
            StoreUnavailableError: write the same batch again later.
        """
        try:
            await self._recorder.record(batch)
        except StoreUnavailableError:
            raise
        except Exception:
            # One piece of news that breaks must not hold up the others for ever.
            logger.exception("batch_failed", news=len(batch))
            await self._record_one_by_one(batch)

    async def _record_one_by_one(self, batch: list[News]) -> None:
        by_executor: dict[ExecutorKey, list[News]] = {}
        for news in batch:
            by_executor.setdefault(news.ref.key, []).append(news)
        for of_executor in by_executor.values():
            try:
                await self._recorder.record(of_executor)
            except StoreUnavailableError:
                raise
            except Exception:
                ref = of_executor[0].ref
                logger.exception(
                    "news_dropped",
                    application=ref.application.name,
                    executor_id=ref.executor_id,
                    news=[type(news).__name__ for news in of_executor],
                )

    async def _list_orphaned(
        self, status: ExecutorStatus, after: ExecutorKey | None
    ) -> list[News]:
        async with self._store.read() as work:
            page = await work.executors.list_by_status(status, after=after, limit=BATCH)
        return [Orphaned(row.ref, row.epoch) for row in page]

    async def _flush(self) -> None:
        await self._flusher.flush()
        for news in await self._flusher.reconcile():
            self._note(news)

    async def _measure(self) -> None:
        async with self._store.read() as work:
            counts = await work.executors.count_by_status()
        for status, count in counts.items():
            self._metrics.executors.labels(status.value).set(count)

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], interval: timedelta
    ) -> None:
        while True:
            try:
                await work()
            except StoreUnavailableError:
                # The inbox meets the same store, and says so.
                self._metrics.store_failures.inc()
            except Exception:
                logger.exception("monitor_failed")
            await self._clock.sleep(interval)

    async def _wait_for_store(self, error: StoreUnavailableError) -> None:
        self._metrics.store_failures.inc()
        logger.warning(
            "store_unavailable",
            reason=error.reason,
            waiting_news=len(self._inbox),
            retry_in_secs=self._pause.total_seconds(),
        )
        await self._clock.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
