"""The shell of recovery: which rows, when, and how many at once."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Final

import structlog

from relay.audit import AuditWriter
from relay.clock import Clock
from relay.dispatch import Dispatcher, Peers
from relay.errors import StoreUnavailableError
from relay.ids import ApplicationId, ExecutorId, InstanceId
from relay.records import RecoveryRecord
from relay.recovery.attempt import Attempts
from relay.recovery.bookkeeping import Bookkeeper, Claim
from relay.recovery.inquiry import Inquiry
from relay.recovery.losses import LossBook
from relay.recovery.orders import Orders
from relay.recovery.ports import BELIEVING, Agreement
from relay.recovery.survey import SURVEY_INTERVAL, Survey
from relay.settings import RelaySettings
from relay.store import Store
from relay.tasks import TaskSet
from relay.telemetry import Metrics

logger = structlog.get_logger(__name__)

APPLICATION_SHARE: Final = 128
"""
Attempts in flight after which no more rows of an application are claimed.

Enough for full orders, few enough that even an executor that bears one request at a
time answers the questions of all of them before the last one gives up. If its executors
hang with an order, each attempt takes minutes, and those of the other applications must
not wait for that. An application can have as many again, because one turn claims that
many rows before it counts.
"""

ATTEMPTS_AT_ONCE: Final = 1024
"""
Attempts in flight after which only applications without any get more.

They mostly wait for executors. So several applications that hang can take all the room
there is from each other, and none from those that do not.
"""

_POLL: Final = timedelta(seconds=1)
"""Rows may become due by the hand of another process: that of an operator."""


class RecoveryEngine:
    """
    Claims due rows and makes one attempt at each.

    Only `run` claims rows and frees forgotten ones, in turns, so that no row is taken
    for forgotten between its claim and its attempt.
    """

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
        instance_id: InstanceId,
        agreement: Agreement = BELIEVING,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._start_hold = settings.start_hold
        self._books = Bookkeeper(store, audit, instance_id=instance_id)
        self._attempts = Attempts(
            books=self._books,
            losses=LossBook(store, audit, instance_id=instance_id),
            inquiry=Inquiry(dispatcher, agreement=agreement),
            orders=Orders(
                books=self._books,
                peers=peers,
                clock=clock,
                metrics=metrics,
                answer_within=settings.order_timeout,
            ),
            peers=peers,
            agreement=agreement,
            clock=clock,
            jitter=jitter,
        )
        self._survey = Survey(store=store, audit=audit, peers=peers, metrics=metrics)
        self._woken = asyncio.Event()
        self._running: dict[asyncio.Task[None], RecoveryRecord] = {}
        self._attempted: Counter[tuple[ApplicationId, ExecutorId]] = Counter()
        self._orders_from: float | None = None
        self._next_survey = float("-inf")

    def wake(self) -> None:
        """Look for due rows now; to be called after a row has become due."""
        self._woken.set()

    async def run(self) -> None:
        """Recover until cancelled; the attempts under way end with it."""
        self._next_survey = self._clock.monotonic()
        if self._orders_from is None:
            # Not at the assembly: the start may wait for the store, and nobody can
            # redial until it is over.
            self._orders_from = self._next_survey + self._start_hold.total_seconds()
        is_store_down = False
        async with TaskSet("recovery") as tasks:
            while True:
                self._woken.clear()
                try:
                    pause = await self._turn(tasks, self._orders_from)
                    is_store_down = False
                except StoreUnavailableError as error:
                    if not is_store_down:
                        logger.warning("recovery_paused", reason=error.reason)
                    is_store_down = True
                    # A claim may have been committed without our knowing.
                    self._next_survey = self._clock.monotonic()
                    pause = _POLL
                await self._clock.wait(self._woken, pause)

    async def _turn(self, tasks: TaskSet, orders_from: float) -> timedelta:
        """One look at the ledger; how long to wait before the next."""
        if self._clock.monotonic() >= self._next_survey:
            self._next_survey = (
                self._clock.monotonic() + SURVEY_INTERVAL.total_seconds()
            )
            await self._books.release_orphans({r.id for r in self._running.values()})
            await self._survey.run()
        due_in = await self._books.find_due_in()
        if due_in is None:
            return _POLL
        if due_in > timedelta(0):
            return min(due_in, _POLL)
        claims = await self._books.claim(
            APPLICATION_SHARE, except_applications=self._list_busy()
        )
        for claim in claims:
            self._begin(claim, tasks, orders_from)
        # Nothing although something is due: another transaction has it locked, or its
        # application has its share. An attempt that ends wakes us.
        return timedelta(0) if claims else _POLL

    def _list_busy(self) -> Collection[ApplicationId]:
        """The applications that have their share of the attempts."""
        attempts = Counter(r.executor.application.id for r in self._running.values())
        is_crowded = len(self._running) >= ATTEMPTS_AT_ONCE
        share = 1 if is_crowded else APPLICATION_SHARE
        return [id_ for id_, number in attempts.items() if number >= share]

    def _begin(self, claim: Claim, tasks: TaskSet, orders_from: float) -> None:
        record = claim.record
        # An order of an earlier death, or of a row that was woken since, may be out.
        if self._attempted[record.executor.key]:
            work = self._attempts.yield_to_another(claim)
        else:
            hold = timedelta(seconds=orders_from - self._clock.monotonic())
            work = self._attempts.run(claim, hold=hold)
            self._attempts.announce(claim)
        task = tasks.spawn(work, name=record.id)
        self._running[task] = record
        self._attempted[record.executor.key] += 1
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        record = self._running.pop(task)
        # Here, because a task that is cancelled before its first step runs nothing.
        self._attempts.end(record)
        key = record.executor.key
        self._attempted[key] -= 1
        if not self._attempted[key]:
            del self._attempted[key]
        self.wake()
