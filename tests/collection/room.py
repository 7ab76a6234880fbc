"""The collection with its real store, and executors that count what has happened."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from relay.collection import MetricCollection, MetricReports
from relay.ids import ApplicationRef
from relay.liveness.states import ExecutorStatus
from relay.protocol.sdk import Sdk
from relay.protocol.statistics import GetMetricsRequest, MetricRow
from relay.records import MetricRecord
from tests.recovery.records import SHOP, dead_ref, make_executor, make_settings
from tests.recovery.stage import MODERN, FakePeer, Stage

ANCIENT = Sdk("python", "2.5.0")
"""Does not know the question."""

PERIOD = timedelta(minutes=5)
SECOND = timedelta(seconds=1)
EVER = (datetime(1999, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC))


class Room:
    """`shop` and its workflows, of which each executor counts those of a window."""

    def __init__(self, stage: Stage, period: timedelta = PERIOD) -> None:
        self.stage = stage
        self.clock = stage.clock
        self.created: list[tuple[str, datetime]] = []
        self.reports = MetricReports(stage.store)
        self.collection = self.make_collection(period)

    def make_collection(self, period: timedelta = PERIOD) -> MetricCollection:
        """One that remembers nothing, as after a start of Relay."""
        return MetricCollection(
            store=self.stage.store,
            dispatcher=self.stage.dispatcher,
            peers=self.stage.peers,
            settings=make_settings(metrics_collection_secs=int(period.total_seconds())),
            clock=self.clock,
            metrics=self.stage.metrics,
        )

    async def connect(
        self, name: str, *, application: ApplicationRef = SHOP, sdk: Sdk = MODERN
    ) -> FakePeer:
        """An executor connects for the first time, and its row is written."""
        peer = self.stage.connect(name, application=application, sdk=sdk)
        peer.on(GetMetricsRequest, self.count)
        executor = make_executor(
            dead_ref(name, application), status=ExecutorStatus.HEALTHY
        )
        async with self.stage.store.write() as work:
            await work.executors.insert(replace(executor, created_at=self.clock.now()))
        return peer

    async def keep_private(self) -> None:
        """The application's contents are nobody's business."""
        async with self.stage.store.write() as work:
            [record] = await work.applications.list_all()
            assert await work.applications.update(replace(record, private_mode=True))

    def create(self, name: str) -> None:
        """A workflow is created now."""
        self.created.append((name, self.clock.now()))

    async def count(self, request: GetMetricsRequest) -> Sequence[MetricRow]:
        """What every SDK does: the start is in the window, the end is not."""
        names = Counter(
            name for name, at in self.created if request.start <= at < request.end
        )
        return tuple(
            MetricRow(metric_type="workflow_count", metric_name=name, value=number)
            for name, number in names.items()
        )

    async def collect(self) -> None:
        """One round, with all of its answers."""
        await self.collection.collect_now()
        await self.stage.settle()

    async def list_rows(
        self, application: ApplicationRef = SHOP
    ) -> Sequence[MetricRecord]:
        pages = self.reports.list_between(application, *EVER)
        return [record async for page in pages for record in page]
