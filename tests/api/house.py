"""The real registry, ledger and store, and a hub that only takes notes."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from relay.audit import AuditWriter
from relay.census import CensusReports
from relay.clock import SystemClock
from relay.collection import MetricReports
from relay.db import Database
from relay.diagnosis import Diagnosis
from relay.errors import StoreUnavailableError
from relay.ids import (
    ApplicationRef,
    AppVersion,
    ConnectionId,
    Epoch,
    ExecutorId,
    ExecutorRef,
    InstanceId,
)
from relay.liveness.states import ExecutorStatus
from relay.migration import Migrations
from relay.records import AuditRecord, ExecutorRecord, MetricRecord, MetricType
from relay.recovery import Ledger
from relay.registry import (
    LOCAL_ORGANIZATION,
    SHELL_ACTOR,
    AuditQuery,
    Registry,
)
from relay.settings import RelaySettings
from relay.store import Store
from relay.telemetry import Metrics
from relay_api.app import create_app
from tests.api.paper import PaperExecutors, make_operations
from tests.diagnosis.peers import PaperPeers
from tests.registry.sockets import RecordingSockets

PEER = "192.0.2.7"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class PaperMonitor:
    """A monitor that writes, unless a test says that it cannot."""

    absence: StoreUnavailableError | None = None

    def check_writing(self) -> None:
        if self.absence is not None:
            raise self.absence


@dataclass
class House:
    """One running HTTP surface and what stands behind it."""

    settings: RelaySettings
    store: Store
    sockets: RecordingSockets
    registry: Registry
    ledger: Ledger
    metrics: Metrics
    database: Database
    audit_writer: AuditWriter
    rechecks: list[None]
    executors: PaperExecutors = field(default_factory=PaperExecutors)
    peers: PaperPeers = field(default_factory=PaperPeers)
    monitor: PaperMonitor = field(default_factory=PaperMonitor)
    migrations: Migrations = field(init=False)
    client: httpx.AsyncClient = field(init=False)
    serve: Callable[..., Awaitable[None]] = field(init=False)
    """The surface itself, for a test that is the HTTP server."""

    async def audit(self, **filters: Any) -> Sequence[AuditRecord]:
        """All audit entries, newest first."""
        return await self.registry.list_audit(AuditQuery(limit=1000, **filters))

    async def register(self, name: str) -> ApplicationRef:
        """An application, registered by the shell."""
        await self.registry.applications.put(SHELL_ACTOR, name, private_mode=None)
        view = await self.registry.applications.get(name)
        return view.record.ref

    async def mint(
        self,
        name: str,
        permissions: Sequence[str] = (),
        applications: Sequence[str] | None = None,
    ) -> dict[str, str]:
        """A key as request headers; without permissions it holds all of them."""
        minted = await self.registry.keys.create(
            SHELL_ACTOR,
            name,
            permissions=permissions,
            application_names=applications,
            is_admin=True,
        )
        return {"Authorization": f"Bearer {minted.text}"}

    async def add_executor(
        self,
        application: ApplicationRef,
        executor_id: str,
        status: ExecutorStatus = ExecutorStatus.HEALTHY,
        **changes: Any,
    ) -> ExecutorRecord:
        """A row for an executor."""
        fields: dict[str, Any] = {
            "ref": ExecutorRef(application, ExecutorId(executor_id)),
            "app_version": AppVersion("v1"),
            "hostname": "node-1",
            "language": "python",
            "dbos_version": "3.2.0",
            "metadata": {"zone": "a"},
            "status": status,
            "status_since": LONG_AGO + timedelta(seconds=1),
            "created_at": LONG_AGO,
            "last_seen_at": LONG_AGO + timedelta(seconds=2),
            "peer_address": PEER,
            "owner": InstanceId("instance"),
            "epoch": Epoch(1),
            "connection_id": ConnectionId("connection"),
            "grace_started_at": None,
            "grace_is_fault": False,
            "dead_after": None,
            "unseen_starts": 0,
            "last_error": None,
        }
        if status is ExecutorStatus.DISCONNECTED:
            fields["grace_started_at"] = LONG_AGO
            fields["dead_after"] = LONG_AGO + timedelta(seconds=60)
        record = ExecutorRecord(**(fields | changes))
        async with self.store.write() as work:
            await work.executors.insert(record)
        return record

    async def add_metric(
        self, application: ApplicationRef, **changes: Any
    ) -> MetricRecord:
        """A count of five minutes, instead of those that begin later."""
        fields: dict[str, Any] = {
            "application_id": application.id,
            "time_bucket": LONG_AGO,
            "granularity": timedelta(minutes=5),
            "metric_type": MetricType.WORKFLOWS,
            "metric_name": "checkout",
            "value": 7,
        }
        record = MetricRecord(**(fields | changes))
        end = record.time_bucket + record.granularity
        async with self.store.write() as work:
            ends = await work.metrics.find_ends([application.id])
            assert await work.metrics.close_window(
                application.id,
                record.time_bucket,
                end,
                [record],
                expected_end=ends.get(application.id),
            )
        return record


@asynccontextmanager
async def open_house(
    template: Path, directory: Path, **given: Any
) -> AsyncIterator[House]:
    """
    A house on a copy of the migrated database `template`.

    Args:
        given: settings by field name.
    """
    path = directory / "relay.db"
    shutil.copy(template, path)
    settings = RelaySettings(data_dir=directory, **given)
    async with AsyncExitStack() as stack:
        database = Database.open(f"sqlite+aiosqlite:///{path}")
        stack.push_async_callback(database.close)
        house = await _furnish(settings, database)
        house.migrations = Migrations(
            store=house.store,
            audit=house.audit_writer,
            executors=house.executors,
            peers=house.peers,
            clock=SystemClock(),
        )
        app = create_app(settings)
        server = SimpleNamespace(
            settings=settings,
            clock=SystemClock(),
            operations=make_operations(
                house.store,
                house.audit_writer,
                house.executors,
                house.registry.lookup,
            ),
            diagnosis=Diagnosis(
                store=house.store,
                executors=house.executors,
                peers=house.peers,
                settings=settings,
                clock=SystemClock(),
            ),
            migrations=house.migrations,
            registry=house.registry,
            ledger=house.ledger,
            census_reports=CensusReports(house.store),
            metric_reports=MetricReports(house.store),
            metrics=house.metrics,
            monitor=house.monitor,
        )

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            # What the lifespan would have yielded.
            await app({**scope, "state": {"server": server}}, receive, send)

        house.serve = serve
        transport = httpx.ASGITransport(app=serve, client=(PEER, 50_000))
        house.client = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://localhost:8090")
        )
        yield house


async def _furnish(settings: RelaySettings, database: Database) -> House:
    store, metrics, sockets = Store(database), Metrics(), RecordingSockets()
    async with store.write() as work:
        await work.organizations.ensure(LOCAL_ORGANIZATION)
    audit = AuditWriter(metrics)
    rechecks: list[None] = []
    registry = Registry(
        store=store,
        audit=audit,
        settings=settings,
        clock=SystemClock(),
        hub=sockets,
        recheck_deadlines=lambda: rechecks.append(None),
    )
    return House(
        settings=settings,
        store=store,
        sockets=sockets,
        registry=registry,
        ledger=Ledger(store, audit),
        metrics=metrics,
        database=database,
        audit_writer=audit,
        rechecks=rechecks,
    )


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of `response`, which must be one with that status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document
